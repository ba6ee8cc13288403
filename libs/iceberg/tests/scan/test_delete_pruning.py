"""Delete files that cannot match (iceberg-rules 2.3)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus, FileStats
from firnline_iceberg.scan.delete_pruning import may_match
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

OPTIONAL = Schema(NestedField(1, "id", LongType()))
REQUIRED = Schema(NestedField(1, "id", LongType(), required=True))
BASE: dict[str, Any] = {
    "path": "p",
    "manifest_path": "m",
    "status": EntryStatus.ADDED,
    "snapshot_id": 1,
    "sequence_number": 1,
    "file_sequence_number": 1,
    "spec_id": 0,
    "partition": "[]",
    "format": "PARQUET",
    "records": 10,
    "bytes": 1,
}


def stats(low: int | None, high: int | None, nulls: int | None = 0) -> FileStats:
    def bound(value: int | None) -> dict[int, bytes]:
        return {} if value is None else {1: struct.pack("<q", value)}

    counts = {} if nulls is None else {1: nulls}
    return FileStats({1: 10}, counts, {}, bound(low), bound(high))


def match(data: FileStats | None, delete: FileStats | None, schema: Schema = OPTIONAL) -> bool:
    deletes = DeleteFileEntry(kind=DeleteKind.EQUALITY, equality_ids=(1,), stats=delete, **BASE)
    return may_match(DataFileEntry(stats=data, **BASE), deletes, schema)


@pytest.mark.parametrize(
    ("data", "delete", "expected"),
    [
        (stats(1, 5), stats(6, 9), False),
        (stats(6, 9), stats(1, 5), False),
        (stats(1, 5), stats(5, 9), True),
        (stats(-5, -1), stats(-1, 9), True),
        (stats(1, 5), stats(6, None), True),
        (stats(1, 5, nulls=2), stats(6, 9, nulls=1), True),  # null equals null
        (stats(1, 5, nulls=2), stats(6, 9, nulls=None), True),
        (stats(1, 5, nulls=2), stats(6, 9), False),
        (stats(None, None, nulls=10), stats(6, 9), False),
        (stats(6, 9), stats(None, None, nulls=10), False),
        (stats(None, None, nulls=10), stats(None, None, nulls=10), True),
        (None, stats(6, 9), True),
        (stats(1, 5), None, True),
    ],
)
def test_only_what_cannot_match_is_left_out(
    data: FileStats | None, delete: FileStats | None, expected: bool
) -> None:
    assert match(data, delete) is expected


def test_a_required_column_has_no_nulls_even_where_they_are_not_counted() -> None:
    assert match(stats(1, 5, nulls=None), stats(6, 9, nulls=None), REQUIRED) is False
    assert match(stats(1, 5, nulls=None), stats(6, 9, nulls=None)) is True


def test_a_dropped_column_leaves_nothing_out() -> None:
    assert match(stats(1, 5), stats(6, 9), Schema(NestedField(2, "other", LongType()))) is True
