"""A native rewrite leaves exactly the rows that Spark read before it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.columns.checksums import checksum
from firnline_deletes.deletes import row_map
from firnline_domain.base import values
from firnline_domain.errors import TaskRefused
from firnline_iceberg.scan.planning import live_files

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def rewritten(lab, rewriter, scope=None):
    """Run one order and commit its result; the start snapshot is noted on the way."""
    noted = []
    before = lab.rows()
    result = rewriter.rewrite(values.replace(lab.order(scope), batch_size=2), noted.append)
    assert noted == [result.start_snapshot_id]
    assert result.batch_size == 2
    assert result.mode == "native", result.handover_reason
    lab.commit(result)
    assert repr(lab.rows()) == repr(before)  # NaN is not equal to itself
    return result


def masked(result):
    return sum(group.rows_masked for group in result.groups)


def test_equality_deletes_with_nulls_composite_keys_and_two_id_sets(lab, rewriter):
    lab.create("id BIGINT, name STRING, v INT")
    lab.insert("(1, 'a', 1), (2, 'b', 1), (NULL, 'c', 1), (4, NULL, 1), (5, 'e', 1)")
    lab.equality_delete(["id"], "(1), (NULL)", rows="(1, 'a', 2)")
    lab.equality_delete(["id", "name"], "(4, NULL), (5, 'x'), (2, NULL)")
    lab.equality_delete(["name"], "('e')", rows="(6, 'e', 3)")
    assert lab.rows() == [(1, "a", 2), (2, "b", 1), (6, "e", 3)]
    result = rewritten(lab, rewriter)
    assert sum(g.rows_in for g in result.groups) == 7
    assert masked(result) == 4
    assert len(result.groups) == 2  # the whole table: never one rewrite alone (#10312)
    assert {a.equality_ids for a in result.applied_deletes} == {(1,), (1, 2), (2,)}
    assert {group.keys.field_ids for group in result.groups} == {(1, 2)}
    with lab.table().io.new_input(result.output_list).open() as file:
        listed = json.loads(file.read())["outputs"]
    outputs = {o.path for g in result.groups for o in g.outputs}
    assert outputs <= set(listed)
    assert {path.rsplit("/", 1)[0] for path in outputs} == {f"{lab.table().metadata.location}/data"}


def test_a_table_says_how_far_apart_in_time_merged_files_may_be(lab, rewriter):
    lab.create("id BIGINT", **{"firnline.rewrite.max-span-ms": "1"})
    for number in range(3):
        lab.insert(f"({number})")
    assert rewriter.rewrite(lab.order(), no_note).groups == ()
    lab.sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('firnline.rewrite.max-span-ms')")
    assert sum(len(group.inputs) for group in rewritten(lab, rewriter).groups) == 3


def test_keys_are_those_of_the_deletes_else_the_identifier_fields_else_unknown(lab, rewriter):
    lab.create("id BIGINT NOT NULL, name STRING, v DOUBLE")
    lab.insert("(1, 'x', 1.0), (2, NULL, 2.0)")
    lab.insert("(3, 'x', 1.0), (2, NULL, 2.0)")
    lab.insert("(4, NULL, 4.0)")
    unknown = rewriter.rewrite(lab.order(), no_note).groups
    assert [group.keys for group in unknown] == [None, None]
    lab.sql("ALTER TABLE {t} SET IDENTIFIER FIELDS id")
    groups = rewriter.rewrite(lab.order(), no_note).groups
    assert {group.keys.field_ids for group in groups} == {(1,)}
    lab.equality_delete(["id", "name"], "(1, 'x')")
    result = rewritten(lab, rewriter)
    assert {group.keys.field_ids for group in result.groups} == {(1, 2)}
    read, out = ([keys_of(one, side) for one in result.groups] for side in ("in", "out"))
    lost = [int(group.keys.rows_masked, 16) for group in result.groups]
    assert (sum(read) - sum(lost) - sum(out)) % 2**64 == 0
    row = [pa.array([1], pa.int64()), pa.array(["x"], pa.string())]
    assert sum(lost) == checksum(row)


def keys_of(group, side):
    return int(getattr(group.keys, f"rows_{side}"), 16)


def no_note(_):
    pass


def test_a_result_whose_keys_do_not_add_up_is_refused(lab, rewriter, monkeypatch):
    """And nothing is left of it."""
    lab.create("id BIGINT")
    lab.insert("(1), (2)")
    lab.equality_delete(["id"], "(1)")
    before = lab.stored()
    done = rewriter.stage.run

    def other(*args):
        for one in done(*args):
            yield replace(one, files=tuple(replace(file, keys=7) for file in one.files))

    monkeypatch.setattr(rewriter.stage, "run", lambda *args: list(other(*args)))
    with pytest.raises(TaskRefused) as refused:
        rewriter.rewrite(lab.order(), no_note)
    assert refused.value.reason == "keys_do_not_add_up"
    assert lab.stored() == before


def test_the_row_map_says_where_rows_went(lab, rewriter):
    """Each living row of each input, by its own name, is at the place in the output."""
    lab.create("id BIGINT", **{"write.delete.mode": "merge-on-read"})
    lab.insert("(1), (2), (3), (4)")
    lab.insert("(5), (6), (7), (8)")
    lab.sql("DELETE FROM {t} WHERE id = 2")
    lab.equality_delete(["id"], "(3), (5)")
    result = rewritten(lab, rewriter)
    with lab.table().io.new_input(result.row_map).open() as file:
        rows = row_map.read_map(file.read(), result.row_map)
    with lab.table().io.new_input(result.output_list).open() as file:
        assert result.row_map in json.loads(file.read())["outputs"]
    went, marked = {}, []
    for group in result.groups:
        inputs = [(file.path, file.records) for file in group.inputs]
        moves = row_map.Moves.from_map(rows, inputs, [file.records for file in group.outputs])
        outputs = [ids(file.path) for file in group.outputs]
        for path, records in inputs:
            names = ids(path)
            living = moves.living_positions(path, np.arange(records))
            new = [
                outputs[n][at] for n, places in moves.move_positions(path, living) for at in places
            ]
            went.update(zip((names[at] for at in living), new, strict=True))
            marked += [names[at] for at in moves.rows[path].marked]
    assert went == {one: one for one in (1, 4, 6, 7, 8)}
    assert marked == [2]


def ids(path):
    return pq.read_table(path.removeprefix("file:"), columns=["id"])["id"].to_pylist()


def test_a_partition_is_rewritten_alone_and_global_deletes_reach_it(lab, rewriter):
    lab.create("id BIGINT, day DATE, v INT")
    lab.insert("(1, DATE '2026-01-01', 0), (2, DATE '2026-01-02', 0)")
    lab.sql("ALTER TABLE {t} ADD PARTITION FIELD day")
    lab.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
    lab.insert("(3, DATE '2026-01-01', 0), (4, DATE '2026-01-02', 0)")
    lab.insert("(3, DATE '2026-01-01', 1), (5, DATE '2026-01-01', 1)")
    lab.sql("ALTER TABLE {t} DROP PARTITION FIELD day")
    lab.sql("ALTER TABLE {t} DROP PARTITION FIELD bucket(2, id)")
    lab.equality_delete(["v"], "(1)")  # written under the unpartitioned spec: global
    lab.insert("(9, DATE '2026-01-01', 1)")
    scopes = lab.scopes()
    inner = [scope for scope in scopes if not scope.is_unpartitioned]
    assert len(inner) >= 2
    for scope in inner:
        result = rewritten(lab, rewriter, scope)
        files = {o.path for g in result.groups for o in g.outputs}
        live = {f.path: f for f in live_files(lab.table(), lab.table().head_id("main")).data}
        assert {live[path].scope for path in files} <= {scope}
    assert [row[0] for row in lab.rows()] == [1, 2, 3, 4, 9]


def test_a_thread_of_its_own_is_as_good(lab, rewriter, in_thread):
    lab.create("id BIGINT")
    lab.insert("(1), (2)")
    lab.equality_delete(["id"], "(1)")
    assert masked(in_thread(rewriter.rewrite, lab.order(), lambda _: None)) == 1


def test_deletes_of_a_partition_stay_inside_it(lab, rewriter):
    lab.create("id BIGINT, part STRING, v INT", "PARTITIONED BY (part)")
    lab.insert("(1, 'a', 0), (2, 'a', 0)")
    lab.insert("(1, 'b', 0), (2, NULL, 0)")
    lab.equality_delete(["id"], "(1)", rows="(1, 'a', 1)", partition=["a"])
    lab.equality_delete(["id"], "(2)", partition=[None])
    expected = [(1, "a", 1), (1, "b", 0), (2, "a", 0)]
    assert lab.rows() == expected
    scopes = {scope.partition: scope for scope in lab.scopes()}
    assert masked(rewritten(lab, rewriter, scopes['["a"]'])) == 1
    gone = rewritten(lab, rewriter, scopes["[null]"])
    assert [group.outputs for group in gone.groups] == [()]  # all dead: files go, none comes
    nothing = rewriter.rewrite(lab.order(scopes['["b"]']), lambda _: None)
    assert (nothing.groups, nothing.applied_deletes, nothing.output_list) == ((), (), None)


def test_position_deletes_of_spark(lab, rewriter):
    lab.create("id BIGINT, v INT", **{"write.delete.mode": "merge-on-read"})
    lab.sql("INSERT INTO {t} SELECT id, 0 FROM range(0, 100, 1, 1)")
    lab.sql("DELETE FROM {t} WHERE id % 10 = 3")
    lab.sql("DELETE FROM {t} WHERE id = 4")
    lab.equality_delete(["id"], "(5), (3)", rows="(3, 1)")
    lab.sql("DELETE FROM {t} WHERE id = 3")  # the newer row of the same key, by position
    result = rewritten(lab, rewriter)
    assert {a.kind for a in result.applied_deletes} == {"equality", "position"}
    assert masked(result) == 13
    assert len(lab.rows()) == 88


def test_fragments_are_merged_until_that_changes_nothing(lab, rewriter):
    lab.create("id BIGINT, s STRING")
    for number in range(5):
        lab.insert(f"({number}, 'x')")
    result = rewritten(lab, rewriter)
    assert [len(group.inputs) for group in result.groups] in ([3, 2], [2, 3])
    assert rewriter.rewrite(lab.order(), lambda _: None).groups == ()


def test_undersized_files_are_merged_by_an_order_for_that_alone(lab, rewriter):
    lab.create("id BIGINT, s STRING", **{"write.target-file-size-bytes": "10000"})
    for number in range(4):
        text = "concat_ws('', transform(sequence(1, 90), _ -> uuid()))"
        lab.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {number}, {text}")
    table, before = lab.table(), lab.rows()
    sizes = [file.bytes for file in live_files(table, table.head_id("main")).data]
    assert all(10000 / 8 < size < 5000 for size in sizes), sizes
    assert sum(sizes) < 10000
    merge = values.replace(lab.order(), action="merge")
    assert rewriter.rewrite(merge, lambda _: None).groups == ()  # they fill none yet
    lab.insert("(9, 'a fragment')")
    lab.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ 5, {text}")
    assert rewriter.rewrite(lab.order(), lambda _: None).groups == ()  # one fragment alone
    before = lab.rows()
    result = rewriter.rewrite(values.replace(lab.order(), action="merge"), lambda _: None)
    assert sum(len(group.inputs) for group in result.groups) == 6
    lab.commit(result)
    assert lab.rows() == before
    assert (
        rewriter.rewrite(values.replace(lab.order(), action="merge"), lambda _: None).groups == ()
    )


def test_every_type_and_evolved_columns_survive(lab, rewriter):
    lab.create(
        "i INT, f FLOAT, d DECIMAL(9,2), s STRUCT<a: INT, t: TIMESTAMP>, l ARRAY<STRING>,"
        " m MAP<STRING, DOUBLE>, b BINARY, o BOOLEAN, dt DATE, ts TIMESTAMP, nt TIMESTAMP_NTZ,"
        " old STRING"
    )
    full = (
        "(1, CAST('NaN' AS FLOAT), 1.5, named_struct('a', 1, 't', TIMESTAMP '2026-01-01 00:00:00'),"
        " array('x', NULL), map('k', CAST('NaN' AS DOUBLE)), X'00FF', true, DATE '1900-01-01',"
        " TIMESTAMP '2026-02-03 04:05:06.789', TIMESTAMP_NTZ '1960-02-03 04:05:06.789', 'gone')"
    )
    lab.insert(full)
    lab.insert("(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    lab.sql("ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT")
    lab.sql("ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE")
    lab.sql("ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(20,2)")
    lab.sql("ALTER TABLE {t} RENAME COLUMN b TO renamed")
    lab.sql("ALTER TABLE {t} DROP COLUMN old")
    lab.sql("ALTER TABLE {t} ADD COLUMN old BIGINT FIRST")
    lab.insert("(7, 3, 1.0, 2.25, NULL, array(), map(), X'', false, DATE '2026-01-01', NULL, NULL)")
    lab.equality_delete(["i"], "(2)")
    result = rewritten(lab, rewriter)
    assert masked(result) == 1
    first = json.loads(result.groups[0].outputs[0].content_file_json)
    assert first["nan-value-counts"] == {"keys": [2], "values": [1]}  # not the map's


def test_a_dropped_key_column_still_deletes(lab, rewriter):
    lab.create("id BIGINT, k STRING")
    lab.insert("(1, 'a'), (2, 'b')")
    lab.equality_delete(["k"], "('a')")
    lab.sql("ALTER TABLE {t} DROP COLUMN k")
    lab.insert("(3)")
    assert masked(rewritten(lab, rewriter)) == 1
    assert lab.rows() == [(2,), (3,)]


def test_outputs_have_the_metrics_that_iceberg_would_write(lab, rewriter):
    """The same rows written by Spark and by us: the same counts and bounds for every column."""
    lab.create(
        "id BIGINT, s STRING, f DOUBLE, d DECIMAL(12,3), st STRUCT<x: INT>, l ARRAY<INT>",
        **{"write.metadata.metrics.column.d": "none", "write.metadata.metrics.column.id": "counts"},
    )
    lab.insert(
        "(1, 'a string longer than sixteen characters', CAST('NaN' AS DOUBLE), 1.5,"
        " named_struct('x', 5), array(1)), (2, NULL, 0.25, 2.5, NULL, NULL)"
    )
    lab.insert("(3, 'b', 0.5, 3.5, named_struct('x', 6), array(2, 3))")
    columns = "value_counts, null_value_counts, nan_value_counts, lower_bounds, upper_bounds"
    query = f"SELECT record_count, {columns} FROM {{t}}.data_files"

    def metrics():
        return sorted(repr(tuple(row)) for row in lab.sql(query).collect())

    before = metrics()
    lab.equality_delete(["id"], "(99)")
    rewritten(lab, rewriter)  # one file in, one file out, twice
    assert metrics() == before
    # Iceberg shows offsets only beside the size that they are checked against.
    columns = "split_offsets, sort_order_id, file_size_in_bytes"
    described = lab.sql(f"SELECT {columns} FROM {{t}}.data_files").collect()
    assert [(row[0], row[1]) for row in described] == [([4], 0)] * 2


def test_one_file_keeps_its_sort_order_and_several_have_none(lab, rewriter):
    lab.create("p STRING, id BIGINT", "PARTITIONED BY (p)")
    lab.sql("ALTER TABLE {t} WRITE LOCALLY ORDERED BY id")
    lab.insert("('one', 2), ('one', 1), ('two', 4)")
    lab.insert("('two', 3)")
    lab.equality_delete(["id"], "(9)", partition=["one"])
    lab.equality_delete(["id"], "(9)", partition=["two"])
    for scope in lab.scopes():
        rewritten(lab, rewriter, scope)
    found = lab.sql("SELECT partition.p, sort_order_id FROM {t}.data_files").collect()
    assert sorted(map(tuple, found)) == [("one", 1), ("two", 0)]


def test_a_branch_has_its_own_head(lab, rewriter):
    lab.create("id BIGINT")
    lab.insert("(1)")
    lab.sql("ALTER TABLE {t} CREATE BRANCH side")
    lab.insert("(2)")
    order = lab.order(ref="side")
    result = rewriter.rewrite(order, lambda _: None)
    assert result.start_snapshot_id == lab.table().head_id("side")
    assert result.groups == ()


def test_a_failed_attempt_leaves_nothing_behind(lab, rewriter, monkeypatch):
    lab.create("id BIGINT")
    lab.insert("(1)")
    lab.equality_delete(["id"], "(1)", rows="(2)")
    before = lab.stored()
    wrong = rewriter.stage.run

    def run(name, order, groups):
        wrong(name, order, groups)
        assert len(lab.stored()) > len(before)
        raise OSError("the executor is lost")

    monkeypatch.setattr(rewriter.stage, "run", run)
    with pytest.raises(OSError, match="executor is lost"):
        rewriter.rewrite(lab.order(), lambda _: None)
    assert lab.stored() == before
