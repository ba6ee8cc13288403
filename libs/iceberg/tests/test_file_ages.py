"""The moment before which all rows of a file are, by what its partition says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from firnline_iceberg.file_ages import is_older
from firnline_iceberg.files import DataFileEntry, FileStats, Status
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    DateType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
)

KINDS: dict[str, Any] = {
    "date": DateType(), "text": StringType(), "time": TimestampType(),
    "zoned": TimestamptzType(), "nanos": TimestampNanoType(),
}  # fmt: skip


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def older(
    kind: str, transform: str, partition: str, before_ms: int, stats: FileStats | None = None,
    source: int = 5,
) -> bool:  # fmt: skip
    column = NestedField(5, "at", KINDS[kind])
    spec = PartitionSpec(PartitionField(source, 1000, parse_transform(transform), "p"), spec_id=1)
    file = DataFileEntry(
        path="f", manifest_path="m", status=Status.ADDED, snapshot_id=1, sequence_number=1,
        file_sequence_number=1, spec_id=1, partition=partition, format="PARQUET", records=1,
        bytes=1, stats=stats,
    )  # fmt: skip
    return is_older(file, spec, column, before_ms)


@pytest.mark.parametrize(
    ("kind", "transform", "partition", "end"),
    [
        ("time", "day", '["2026-02-28"]', "2026-03-01T00:00:00"),
        ("date", "day", '["1969-12-31"]', "1970-01-01T00:00:00"),
        ("time", "hour", "[24]", "1970-01-02T01:00:00"),
        ("time", "month", "[671]", "2026-01-01T00:00:00"),  # December of 2025
        ("date", "month", "[-1]", "1970-01-01T00:00:00"),
        ("zoned", "year", "[55]", "2026-01-01T00:00:00"),
        ("date", "identity", '["2026-02-28"]', "2026-03-01T00:00:00"),
        ("text", "identity", '["20260228"]', "2026-03-01T00:00:00"),
        ("time", "identity", '["2026-02-28T10:00:00.000000"]', "2026-02-28T10:00:00.001"),
        ("zoned", "identity", '["2026-02-28T10:00:00.999999+00:00"]', "2026-02-28T10:00:01"),
        ("nanos", "identity", '["2026-02-28T10:00:00.000999999"]', "2026-02-28T10:00:00.001"),
    ],
)
def test_a_partition_is_old_when_its_last_moment_is(
    kind: str, transform: str, partition: str, end: str
) -> None:
    assert older(kind, transform, partition, ms(end))
    assert not older(kind, transform, partition, ms(end) - 1)


@pytest.mark.parametrize(
    ("kind", "transform", "partition"),
    [
        ("time", "day", "[null]"),
        ("time", "bucket[4]", "[3]"),
        ("text", "identity", '["north"]'),
        ("text", "identity", '["2026-02"]'),
        ("date", "identity", '["+12026-02-28"]'),
        ("time", "void", "[]"),
    ],
)
def test_what_is_not_understood_is_never_old(kind: str, transform: str, partition: str) -> None:
    assert not older(kind, transform, partition, ms("9999-01-01T00:00:00"))


def bounds(kind: str, value: int, nulls: int | None) -> FileStats:
    upper = to_bytes(KINDS[kind], value)
    return FileStats({5: 9}, {} if nulls is None else {5: nulls}, {}, {}, {5: upper})


@pytest.mark.parametrize(
    ("kind", "value", "end"),
    [("time", 1_000_999, 1_001), ("nanos", 1_000_999_999, 1_001), ("date", 1, 2 * 86_400_000)],
)
def test_bounds_say_it_where_no_row_lacks_the_time(kind: str, value: int, end: int) -> None:
    stats = bounds(kind, value, 0)
    assert older(kind, "bucket[4]", "[3]", end, stats)
    assert not older(kind, "bucket[4]", "[3]", end - 1, stats)
    for nulls in (1, None):
        assert not older(kind, "bucket[4]", "[3]", 10**15, bounds(kind, value, nulls))


def test_the_partition_of_another_column_says_nothing() -> None:
    assert not older("time", "day", '["1999-01-01"]', ms("2026-01-01T00:00:00"), source=6)
