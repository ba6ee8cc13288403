from __future__ import annotations

import pyarrow as pa
import pytest
from firnline_deletes.apply import RewriteTally, write_live_rows
from firnline_deletes.columns.keys import KeyField
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes import build as building
from firnline_deletes.deletes import positions
from firnline_deletes.deletes.masks import Deletes
from firnline_deletes.files import parquet as files
from firnline_deletes.unsupported_files import UnsupportedFile

KEY = [KeyField(1, pa.int64())]


def table(folder):
    return pa.schema([folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.string())])


def applied(folder, files, deletes):
    writer = folder.writer(table(folder))
    tally = write_live_rows(files, deletes, TargetSchema(writer.schema), folder.open, writer)
    return tally, folder.rows_of(writer)


def test_each_input_is_masked_by_its_own_sequence_number(folder):
    keys = pa.schema([folder.column("k", 1, pa.int64())])
    dead = building.build_delete_set([folder.file(2, keys, [(1,)])], KEY, folder.open)
    old = folder.file(1, table(folder), [(1, "old"), (2, "old")])
    new = folder.file(2, table(folder), [(1, "new")])
    tally, rows = applied(folder, [old, new], Deletes([dead]))
    assert rows == [(2, "old"), (1, "new")]
    assert tally == RewriteTally(3, 1, 2, 0)


def test_sets_and_positions_are_joined_by_or(folder):
    column = folder.column
    by_key = folder.file(2, pa.schema([column("k", 1, pa.int64())]), [(1,)])
    by_value = folder.file(2, pa.schema([column("v", 2, pa.string())]), [("b",)])
    sets = [
        building.build_delete_set([by_key], KEY, folder.open),
        building.build_delete_set([by_value], [KeyField(2, pa.string())], folder.open),
    ]
    data = folder.file(1, table(folder), [(i, v) for i, v in enumerate("abbdefgh")])
    third = folder.position_deletes(1, [(data.path, 4), (data.path, 7)])
    where = positions.build_position_set([third], [data], folder.open, str)
    tally, rows = applied(folder, [data], Deletes(sets, where))
    assert rows == [(0, "a"), (3, "d"), (5, "f"), (6, "g")]
    assert (tally.rows_in, tally.rows_masked, tally.rows_out) == (8, 4, 4)


def test_a_wholly_dead_row_group_is_not_decoded(folder):
    keys = pa.schema([folder.column("k", 1, pa.int64())])
    dead = building.build_delete_set(
        [folder.file(2, keys, [(n,) for n in range(3)])], KEY, folder.open
    )
    data = folder.file(1, table(folder), [(n, "x") for n in range(7)], group_rows=3)
    tally, rows = applied(folder, [data], Deletes([dead]))
    assert tally == RewriteTally(7, 3, 4, 1)
    assert [k for k, _ in rows] == [3, 4, 5, 6]


def test_a_group_is_copied_in_bounded_batches(folder, monkeypatch):
    monkeypatch.setattr(files, "MAX_BATCH_ROWS", 1024)
    keys = pa.schema([folder.column("k", 1, pa.int64())])
    gone = [(n,) for n in range(0, 5000, 7)] + [(n,) for n in range(2048, 3072)]
    dead = building.build_delete_set([folder.file(2, keys, gone)], KEY, folder.open)
    data = folder.file(1, table(folder), [(n, str(n)) for n in range(5000)], group_rows=5000)
    writer = folder.writer(table(folder))
    seen = []
    monkeypatch.setattr(
        writer, "write_batch", lambda batch: seen.append(batch.column(0).to_pylist())
    )
    write_live_rows([data], Deletes([dead]), TargetSchema(writer.schema), folder.open, writer)
    assert [len(batch) <= 1024 for batch in seen] == [True] * 4  # of five, one is wholly dead
    alive = sorted(set(range(5000)) - {n for (n,) in gone})
    assert [n for batch in seen for n in batch] == alive


def test_nothing_left_is_no_file(folder):
    data = folder.file(1, table(folder), [(1, "a")])
    where = positions.build_position_set(
        [folder.position_deletes(1, [(data.path, 0)])], [data], folder.open, str
    )
    tally, rows = applied(folder, [data], Deletes([], where))
    assert (tally, rows) == (RewriteTally(1, 1, 0, 1), [])


def test_a_dropped_key_column_still_deletes(folder):
    old = pa.schema([*table(folder), folder.column("gone", 3, pa.string())])
    by_gone = folder.file(3, pa.schema([folder.column("gone", 3, pa.string())]), [("x",), (None,)])
    dead = building.build_delete_set([by_gone], [KeyField(3, pa.string())], folder.open)
    before = folder.file(1, old, [(1, "a", "x"), (2, "b", "y")])
    after = folder.file(2, table(folder), [(3, "c")])  # no such column: NULL, which is deleted
    _, rows = applied(folder, [before, after], Deletes([dead]))
    assert rows == [(2, "b")]


def test_a_key_of_another_type_is_refused_before_any_row_is_written(folder):
    keys = pa.schema([folder.column("v", 2, pa.string())])
    dead = building.build_delete_set(
        [folder.file(2, keys, [("a",)])], [KeyField(2, pa.string())], folder.open
    )
    other = pa.schema([folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.int64())])
    with pytest.raises(UnsupportedFile) as refused:
        applied(folder, [folder.file(1, other, [(1, 1)])], Deletes([dead]))
    assert refused.value.reason == "type_differs"


def test_an_unreadable_file_is_refused_and_a_missing_one_is_an_error(folder):
    path = folder.path()
    with open(path, "wb") as sink:
        sink.write(b"PAR1 not really PARE")
    for name, error in ((path, UnsupportedFile), (path + ".gone", OSError)):
        with pytest.raises(error):
            write_live_rows(
                [positions.SequencedFile(name, 1)],
                Deletes(),
                TargetSchema(table(folder)),
                folder.open,
                None,
            )
