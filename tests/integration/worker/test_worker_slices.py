"""A partition that one order may not take whole is rewritten slice by slice, while a writer goes
on; rows compared by Spark."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import KEY_SHARE
from firnline_domain.identity import Scope
from firnline_iceberg.scan.planning import live_files

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def live(lab):
    table = lab.table()
    return live_files(table, table.head_id("main"))


def no_note(_):
    pass


def commit(committer, result):
    (event,) = committer.commit_all([result])
    assert type(event).__name__ == "RewriteCommitted", event
    assert event.slice == result.slice


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_partition_takes_four_slices_while_upserts_come(lab, rewriter, committer, version):
    lab.create(
        "id BIGINT, v STRING",
        **{"format-version": version, "write.target-file-size-bytes": "2000"},
    )
    for number in range(8):
        rows = ", ".join(f"({number * 100 + i}, 'x{number}{i}')" for i in range(100))
        lab.insert(rows)
    lab.equality_delete(["id"], "(1), (101), (201), (301), (401), (501), (601), (701)")
    sizes = [file.bytes for file in live(lab).data]
    most, after, taken, seen = 2 * max(sizes), None, [], 0
    for number in range(9):
        order = replace(lab.order(), max_bytes=most, after=after)
        result = rewriter.rewrite(order, no_note)
        assert result.mode == "native", result.handover_reason
        paths = [file.path for group in result.groups for file in group.inputs]
        assert len(paths) == 2
        lab.equality_delete(["id"], f"({number * 2}), (700)", rows=f"({number * 2}, 'new')")
        before = lab.seen()
        commit(committer, result)
        assert lab.seen() == before
        taken, seen, after = taken + paths, seen + 1, result.slice
        if after.is_last:
            break
    assert (seen, len(set(taken))) == (4, 8)
    left = [one.sequence_number for one in live(lab).deletes]
    assert all(number > after.sequence_number for number in left), left
    whole = rewriter.rewrite(lab.order(), no_note)
    commit(committer, whole)
    assert whole.slice is None
    assert live(lab).deletes == ()
    assert lab.scopes() == [Scope(0, "[]")]


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_conversion_takes_four_slices_and_the_last_one_the_deletes(
    lab, rewriter, committer, version
):
    lab.create(
        "id BIGINT, v STRING",
        **{"format-version": version, "write.target-file-size-bytes": "1000"},
    )
    for number in range(8):
        lab.insert(", ".join(f"({number * 100 + i}, 'x{number}{i}')" for i in range(100)))
    lab.equality_delete(["id"], "(1), (101), (102), (301), (401), (501), (701)")
    data = {file.path for file in live(lab).data}
    size = max(file.bytes for file in live(lab).data)
    most, after, taken = int(2 * size * KEY_SHARE), None, []
    for number in range(9):
        order = replace(lab.order(), action="convert", min_dead_ratio=1.0, max_bytes=most)
        result = rewriter.rewrite(replace(order, after=after), no_note)
        assert result.mode == "native", result.handover_reason
        paths = [file.path for group in result.groups for file in group.inputs]
        assert len(paths) == 2
        lab.equality_delete(["id"], f"({number * 2}), (700)", rows=f"({number * 2}, 'new')")
        before = lab.seen()
        commit(committer, result)
        assert lab.seen() == before
        taken, after = [*taken, *paths], result.slice
        if after.is_last:
            break
        equality = [d for d in live(lab).deletes if d.kind == "equality"]
        assert len(equality) == number + 2
    assert (number, len(set(taken)), data) == (3, 8, set(taken))
    left = [d.sequence_number for d in live(lab).deletes if d.kind == "equality"]
    assert len(left) == 4
    assert all(one > after.sequence_number for one in left), left
    assert [path for path in lab.stored() if path.endswith(".marks")] == []


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_full_rewrite_replaces_clean_files_too_though_its_start_has_added_them(
    lab, rewriter, committer, version
):
    lab.create(
        "id BIGINT, v STRING",
        **{"format-version": version, "write.target-file-size-bytes": "2000"},
    )
    lab.insert(", ".join(f"({i}, 'a{i}')" for i in range(300)))
    lab.equality_delete(["id"], "(1), (2)", rows="(1, 'new')")
    # One commit, several files, none of which is reached by a delete.
    lab.sql("INSERT INTO {t} SELECT /*+ REPARTITION(4) */ id, 'b' FROM range(1000, 2000)")
    before = {file.path for file in live(lab).data}
    most, after, taken = max(file.bytes for file in live(lab).data) * 2, None, []
    for _ in range(9):
        order = replace(lab.order(), action="full", max_bytes=most, after=after)
        result = rewriter.rewrite(order, no_note)
        assert result.mode == "native", result.handover_reason
        taken += [file.path for group in result.groups for file in group.inputs]
        lab.equality_delete(["id"], "(1000)", rows="(1000, 'late')")
        rows = lab.seen()
        commit(committer, result)
        assert lab.seen() == rows
        after = result.slice
        if after.is_last:
            break
    assert sorted(taken) == sorted(before)
    assert before.isdisjoint(file.path for file in live(lab).data)
