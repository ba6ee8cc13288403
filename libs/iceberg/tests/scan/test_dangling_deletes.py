"""Delete files that apply to nothing: what the index of a reader's plan applies nowhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import (
    PATH_ID,
    DataFileEntry,
    DeleteFileEntry,
    EntryStatus,
    FileStats,
)
from firnline_iceberg.scan import dangling_deletes as dangling
from firnline_iceberg.scan.dangling_deletes import (
    LiveSequences,
    by_bounds,
    dangling_by_footers,
    dangling_by_number,
    dangling_deletes,
)
from firnline_iceberg.scan.planning import DeleteIndex
from firnline_iceberg.table.loaded_table import LoadedTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

EQUALITY, POSITION, VECTOR = DeleteKind.EQUALITY, DeleteKind.POSITION, DeleteKind.DELETION_VECTOR
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
NULLABLE = Schema(NestedField(1, "id", LongType()))
COMMON: dict[str, Any] = {
    "manifest_path": "m",
    "status": EntryStatus.ADDED,
    "snapshot_id": 1,
    "file_sequence_number": 1,
    "format": "PARQUET",
    "records": 1,
    "bytes": 1,
}
SCOPES = (Scope(0, "[]"), Scope(1, "[1]"), Scope(1, "[2]"))
PATHS = tuple(map(normal_path, ("file:/w/a", "file:/w/b")))


def data(number: int, path: str = PATHS[0], scope: Scope = SCOPES[1]) -> DataFileEntry:
    where = {"spec_id": scope.spec_id, "partition": scope.partition}
    return DataFileEntry(path=path, sequence_number=number, **where, **COMMON)


def delete(
    kind: DeleteKind, number: int, scope: Scope = SCOPES[1], of: str | None = None, name: str = "d"
) -> DeleteFileEntry:
    return DeleteFileEntry(
        path=name, kind=kind, sequence_number=number, spec_id=scope.spec_id,
        partition=scope.partition, referenced_data_file=of, **COMMON,
    )  # fmt: skip


def live(files: list[DataFileEntry], deletes: list[DeleteFileEntry]) -> LiveSequences:
    known = LiveSequences(deletes)
    for file in files:
        known.add_file(file)
    return known


numbers = st.integers(1, 4)
files = st.builds(data, numbers, st.sampled_from(PATHS), st.sampled_from(SCOPES))
deletes = st.one_of(
    st.builds(delete, st.just(EQUALITY), numbers, st.sampled_from(SCOPES)),
    st.builds(delete, st.just(POSITION), numbers, st.sampled_from(SCOPES)),
    st.builds(
        delete, st.sampled_from((POSITION, VECTOR)), numbers, st.sampled_from(SCOPES),
        st.sampled_from(PATHS),
    ),
)  # fmt: skip


@settings(max_examples=500)
@given(
    st.lists(files, max_size=2, unique_by=lambda one: one.path),
    st.lists(deletes, max_size=6),
)
def test_exactly_those_that_a_reader_applies_to_no_file(
    held: list[DataFileEntry], marks: list[DeleteFileEntry]
) -> None:
    vectors = {one.referenced_data_file: one for one in marks if one.kind is VECTOR}
    marks = [one for one in marks if one.kind is not VECTOR] + list(vectors.values())
    marks = [replace(one, path=f"d{index}") for index, one in enumerate(marks)]
    index = DeleteIndex(marks)
    applied = {one.path for file in held for one in index.for_data_file(file)}
    found = {one.path for one in dangling_by_number(marks, live(held, marks))}
    assert found == {one.path for one in marks} - applied


def test_one_whose_number_is_missing_stays() -> None:
    broken = replace(delete(EQUALITY, 1), sequence_number=None)  # type: ignore[arg-type]
    assert dangling_by_number([broken], live([], [])) == ()
    assert by_bounds([broken], [data(1)], SCHEMA) == ()


def bounded(entry: Any, low: int, high: int) -> Any:
    lower, upper = to_bytes(LongType(), low), to_bytes(LongType(), high)
    return replace(entry, stats=FileStats({1: 1}, {1: 0}, {}, {1: lower}, {1: upper}))


def test_bounds_tell_what_matches_no_row_of_the_files_that_it_reaches() -> None:
    held = [bounded(data(1), 0, 9), bounded(data(1, PATHS[1], SCOPES[2]), 20, 29)]
    mark = replace(delete(EQUALITY, 2), equality_ids=(1,))
    everywhere = replace(delete(EQUALITY, 2, SCOPES[0]), equality_ids=(1,))

    def dangles(one: DeleteFileEntry, low: int, high: int) -> bool:
        return by_bounds([bounded(one, low, high)], held, SCHEMA) != ()

    assert dangles(mark, 10, 99)  # reaches the first file alone
    assert not dangles(mark, 9, 99)
    assert not dangles(everywhere, 10, 99)
    assert dangles(everywhere, 10, 19)
    assert by_bounds([mark], held, SCHEMA) == ()  # without bounds it may match
    assert by_bounds([bounded(mark, 99, 10)], held, SCHEMA) == ()  # nor with swapped ones
    young = [replace(one, sequence_number=2) for one in held]
    assert by_bounds([bounded(mark, 0, 9)], young, SCHEMA) != ()


def stored(folder: Path, name: str, columns: dict[str, tuple[int, pa.Array]]) -> str:
    fields = [
        pa.field(one, array.type, metadata={"PARQUET:field_id": str(number)})
        for one, (number, array) in columns.items()
    ]
    arrays = [array for _, array in columns.values()]
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), folder / name)
    return f"file://{folder}/{name}"


@pytest.mark.parametrize(
    ("keys", "rows", "goes"),
    [
        ([10, 99], [0, 9], True),
        ([10, 99], [0, 50], False),  # the data file's bounds leave out a row
        ([5, 99], [0, 9], False),  # the delete file's bounds leave out a key
        ([None, 10], [0, None], False),  # null equals null
        ([None, 10], [0, 9], True),
    ],
)
def test_what_bounds_say_of_an_equality_delete_has_to_be_said_by_the_files(
    tmp_path: Path, keys: list[int | None], rows: list[int | None], goes: bool
) -> None:
    table = cast(LoadedTable, SimpleNamespace(io=PyArrowFileIO(), schema=NULLABLE))
    path = stored(tmp_path, "data", {"id": (1, pa.array(rows, pa.int64()))})
    held = [bounded(data(1, path), 0, 9)]
    name = stored(tmp_path, "deletes", {"id": (1, pa.array(keys, pa.int64()))})
    mark = bounded(replace(delete(EQUALITY, 2, name=name), equality_ids=(1,)), 10, 99)
    assert by_bounds([mark], held, NULLABLE) == (mark,)
    assert dangling_by_footers(table, [mark], held) == ((mark,) if goes else ())
    assert dangling_by_footers(table, [replace(mark, format="AVRO")], held) == ()
    (tmp_path / "data").unlink()
    assert dangling_by_footers(table, [mark], held) == ()


def test_footers_are_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dangling, "MAX_FILES_READ", 3)
    table = cast(LoadedTable, SimpleNamespace(io=PyArrowFileIO(), schema=SCHEMA))
    held = [data(1, stored(tmp_path, "data", {"id": (1, pa.array([1]))}))]
    names = [stored(tmp_path, f"d{at}", {"id": (1, pa.array([9]))}) for at in range(5)]
    marks = [replace(delete(EQUALITY, 2, name=one), equality_ids=(1,)) for one in names]
    assert dangling_by_footers(table, marks, held) == tuple(marks[:2])


@pytest.mark.parametrize(
    ("names", "goes"), [(["file:/w/gone"], True), (["file:/w/gone", "file:/w/b"], False)]
)
def test_a_position_delete_is_of_one_file_by_its_bounds_only_if_it_names_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], goes: bool
) -> None:
    path = stored(tmp_path, "d", {"file_path": (PATH_ID, pa.array(names))})
    gone = normal_path("file:/w/gone")
    mark = replace(delete(POSITION, 2, of=gone, name=path), named_by_bounds=True)
    listed = {True: [mark], False: [data(2, PATHS[1])]}

    def entries(_table: Any, _head: int, _detail: Any, deletes: bool) -> list[Any]:
        return listed[deletes]

    monkeypatch.setattr(dangling, "live_entries", entries)
    metadata = SimpleNamespace(partition_specs=[])
    table = SimpleNamespace(io=PyArrowFileIO(), schema=SCHEMA, metadata=metadata)
    found = dangling_deletes(cast(LoadedTable, table), 1)
    assert found == ((mark,) if goes else ())
    listed[False] = [data(3, PATHS[1])]  # younger than the delete
    assert dangling_deletes(cast(LoadedTable, table), 1) == (mark,)
    listed[True] = [replace(mark, path=f"file://{tmp_path}/lost")]
    assert dangling_deletes(cast(LoadedTable, table), 1) == ()
