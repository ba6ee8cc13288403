"""The moment before which all rows of a file are, by what its partition says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_iceberg.metadata.entries import DataFileEntry, EntryStatus, FileStats
from firnline_iceberg.scan.parquet_footers import Footers
from firnline_iceberg.scan.row_age import Age, FileAges, guess_age
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
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


def entry(partition: str, stats: FileStats | None, path: str = "f") -> DataFileEntry:
    return DataFileEntry(
        path=path, manifest_path="m", status=EntryStatus.ADDED, snapshot_id=1, sequence_number=1,
        file_sequence_number=1, spec_id=1, partition=partition, format="PARQUET", records=1,
        bytes=1, stats=stats,
    )  # fmt: skip


def spec_of(*transforms: str, source: int = 5) -> PartitionSpec:
    fields = [
        PartitionField(source, 1000 + at, parse_transform(one), f"p{at}")
        for at, one in enumerate(transforms)
    ]
    return PartitionSpec(*fields, spec_id=1)


def guess(
    kind: str, transform: str, partition: str, before_ms: int, stats: FileStats | None = None,
    source: int = 5,
) -> Age:  # fmt: skip
    spec, column = spec_of(transform, source=source), NestedField(5, "at", KINDS[kind])
    return guess_age(entry(partition, stats), spec, column, before_ms)


@pytest.mark.parametrize(
    ("kind", "transform", "partition", "end"),
    [
        ("time", "day", '["2026-02-28"]', "2026-03-01T00:00:00"),
        ("date", "day", '["1969-12-31"]', "1970-01-01T00:00:00"),
        ("time", "hour", "[24]", "1970-01-02T01:00:00"),
        ("time", "month", "[671]", "2026-01-01T00:00:00"),  # December of 2025
        ("date", "month", "[-1]", "1970-01-01T00:00:00"),
        ("zoned", "year", "[55]", "2026-01-01T00:00:00"),
        ("time", "month", "[-23629]", "0001-01-01T00:00:00"),  # of the year 0 before it
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
    assert guess(kind, transform, partition, ms(end)) is Age.OLD
    assert guess(kind, transform, partition, ms(end) - 1) is Age.YOUNG


@pytest.mark.parametrize(
    ("transform", "value"), [("month", 96_360), ("year", 8_030), ("hour", 10**9)]
)
def test_a_partition_beyond_the_year_9999_is_of_its_age(transform: str, value: int) -> None:
    assert guess("time", transform, f"[{value}]", ms("9999-12-31")) is Age.YOUNG
    assert guess("time", transform, f"[{value}]", 10**16) is Age.OLD
    assert guess("time", transform, f"[{-value}]", ms("1970-01-01")) is Age.OLD


@pytest.mark.parametrize(
    ("kind", "transform", "partition"),
    [
        ("time", "day", "[null]"),
        ("time", "bucket[4]", "[3]"),
        ("text", "identity", '["north"]'),
        ("text", "identity", '["2026-02"]'),
        ("text", "identity", '["2026-W09"]'),  # Python takes it for a Monday
        ("text", "identity", '["2026W09"]'),
        ("date", "identity", '["+12026-02-28"]'),
        ("time", "void", "[]"),
    ],
)
def test_what_is_not_understood_is_never_old(kind: str, transform: str, partition: str) -> None:
    assert guess(kind, transform, partition, ms("9999-01-01T00:00:00")) is Age.YOUNG


def bounds(kind: str, low: Any, high: Any, nulls: int | None = 0) -> FileStats:
    lower, upper = to_bytes(KINDS[kind], low), to_bytes(KINDS[kind], high)
    return FileStats({5: 9}, {} if nulls is None else {5: nulls}, {}, {5: lower}, {5: upper})


@pytest.mark.parametrize(
    ("kind", "value", "end"),
    [("time", 1_000_999, 1_001), ("nanos", 1_000_999_999, 1_001), ("date", 1, 2 * 86_400_000)],
)
def test_bounds_only_choose_the_files_that_are_asked(kind: str, value: int, end: int) -> None:
    stats = bounds(kind, 0, value)
    assert guess(kind, "bucket[4]", "[3]", end, stats) is Age.ASK_FILE
    assert guess(kind, "bucket[4]", "[3]", end - 1, stats) is Age.YOUNG
    for nulls in (1, None):
        stats = bounds(kind, 0, value, nulls)
        assert guess(kind, "bucket[4]", "[3]", 10**15, stats) is Age.YOUNG


def micros(text: str) -> int:
    return ms(text) * 1000


@pytest.mark.parametrize(
    ("kind", "transform", "partition", "stats"),
    [
        # a bound outside of the partition's own value, on either side, or both swapped
        (
            "time",
            "day",
            '["2020-01-01"]',
            bounds("time", micros("2026-11-26"), micros("2026-11-26")),
        ),
        (
            "time",
            "day",
            '["2020-01-01"]',
            bounds("time", micros("2020-01-01"), micros("2020-01-02")),
        ),
        (
            "time",
            "day",
            '["2020-01-01"]',
            bounds("time", micros("2019-12-31"), micros("2020-01-01")),
        ),
        (
            "time",
            "day",
            '["2026-11-26"]',
            bounds("time", micros("2020-01-01"), micros("2020-01-01")),
        ),
        ("time", "month", "[682]", bounds("time", micros("2020-01-01"), micros("2026-11-01"))),
        ("date", "identity", '["2020-01-01"]', bounds("date", 20_000, 20_000)),
        ("text", "identity", '["2020-01-01"]', bounds("text", "2026-11-26", "2026-11-26")),
        ("text", "identity", '["2020-01-01"]', bounds("text", "north", "south")),
    ],
)
def test_a_bound_never_overrules_a_partition_value_towards_removal(
    kind: str, transform: str, partition: str, stats: FileStats
) -> None:
    assert guess(kind, transform, partition, ms("2026-11-01"), stats) is Age.YOUNG


@pytest.mark.parametrize(
    "stats",
    [
        bounds("time", micros("2020-01-01"), micros("2020-01-01T23:59:59")),
        bounds("time", micros("2020-01-01"), micros("2020-01-01"), None),
        bounds("time", micros("2020-01-01T05:00:00"), micros("2020-01-01")),  # swapped: not known
        FileStats({}, {}, {}, {5: b"x"}, {5: b"\xff" * 16}),
        FileStats({}, {}, {}, {}, {}),
        None,
    ],
)
def test_bounds_that_fit_or_say_nothing_leave_it_to_the_partition_value(stats: Any) -> None:
    assert guess("time", "day", '["2020-01-01"]', ms("2026-11-01"), stats) is Age.OLD


def test_partition_values_that_contradict_each_other_are_of_no_age() -> None:
    column = NestedField(5, "at", KINDS["time"])
    at = ms("9999-01-01")
    for hour, age in ((ms("2020-01-01") // 3_600_000 + 5, Age.OLD), (0, Age.YOUNG)):
        file = entry(f'["2020-01-01",{hour}]', None)
        assert guess_age(file, spec_of("day", "hour"), column, at) is age


def test_the_partition_of_another_column_says_nothing() -> None:
    found = guess("time", "day", '["1999-01-01"]', ms("2026-01-01T00:00:00"), source=6)
    assert found is Age.YOUNG


OLD, TODAY = "2020-01-01T10:00:00", "2026-11-26T10:00:00"


@pytest.mark.parametrize(
    ("rows", "transform", "partition", "is_old"),
    [
        ([OLD, OLD], "bucket[4]", "[3]", True),
        ([OLD, TODAY], "bucket[4]", "[3]", False),  # the bounds leave out the newest row
        ([OLD, None], "bucket[4]", "[3]", False),  # and a row without a time
        ([OLD], "year", "[50]", True),
        ([OLD, TODAY], "year", "[50]", False),
        (["2026-01-03T00:00:00"], "year", "[56]", True),  # within a year that is not over
        ([OLD], "year", "[56]", False),  # outside of its partition
        ([OLD, None], "year", "[50]", False),
        ([None, None], "year", "[50]", False),
        ([], "year", "[50]", True),
    ],
)
def test_the_file_itself_decides_where_bounds_say_that_it_is_old(
    tmp_path: Path, rows: list[str | None], transform: str, partition: str,
    is_old: bool,
) -> None:  # fmt: skip
    field = pa.field("at", pa.timestamp("us"), metadata={"PARQUET:field_id": "5"})
    times = [None if one is None else micros(one) for one in rows]
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([pa.array(times, field.type)], schema=pa.schema([field])), path)
    column = NestedField(5, "at", KINDS["time"])
    table = SimpleNamespace(io=PyArrowFileIO(), spec=lambda _: spec_of(transform))
    first = micros(rows[0] or OLD) if rows else micros(OLD)
    file = entry(partition, bounds("time", first, first), f"file://{path}")
    ages = FileAges(cast(LoadedTable, table), column, Footers())
    assert list(ages.decide_ages([file], ms("2026-11-01"))) == [(file, is_old)]
    of_avro = replace(file, format="AVRO")  # of which the partition value alone is known
    ages = FileAges(cast(LoadedTable, table), column, Footers())
    [(_, by_value)] = ages.decide_ages([of_avro], ms("2026-11-01"))
    assert by_value is (partition == "[50]" and transform == "year")


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (pa.timestamp("us"), {"write_statistics": False}),
        (pa.timestamp("ns"), {"use_deprecated_int96_timestamps": True}),  # of Hive, by `add_files`
        (pa.int64(), {}),  # not said to be a time
    ],
)
def test_a_file_stays_that_has_the_column_and_does_not_tell_its_values(
    tmp_path: Path, kind: pa.DataType, how: dict[str, Any]
) -> None:
    """Its partition value says that it is old, and its row is of today."""
    field = pa.field("at", kind, metadata={"PARQUET:field_id": "5"})
    path = tmp_path / "f.parquet"
    at = pa.array([micros(TODAY)], pa.timestamp("us")).cast(kind)
    pq.write_table(pa.table([at], schema=pa.schema([field])), path, **how)
    table = SimpleNamespace(io=PyArrowFileIO(), spec=lambda _: spec_of("year"))
    file = entry("[50]", None, f"file://{path}")
    ages = FileAges(cast(LoadedTable, table), NestedField(5, "at", KINDS["time"]), Footers())
    assert list(ages.decide_ages([file], ms("2026-11-01"))) == [(file, False)]


def test_a_file_stays_that_has_the_column_twice(tmp_path: Path) -> None:
    path, id_5 = tmp_path / "f.parquet", {"PARQUET:field_id": "5"}
    schema = pa.schema([pa.field(one, pa.timestamp("us"), metadata=id_5) for one in "ab"])
    times = [pa.array([micros(one)], pa.timestamp("us")) for one in (TODAY, OLD)]
    pq.write_table(pa.table(times, schema=schema), path)
    table = SimpleNamespace(io=PyArrowFileIO(), spec=lambda _: spec_of("year"))
    file = entry("[50]", None, f"file://{path}")
    ages = FileAges(cast(LoadedTable, table), NestedField(5, "at", KINDS["time"]), Footers())
    assert list(ages.decide_ages([file], ms("2026-11-01"))) == [(file, False)]


@pytest.mark.parametrize(
    ("transform", "partition", "is_old"),
    [("year", "[50]", False), ("identity", f'["{OLD}"]', True)],
)
def test_parquet_that_does_not_tell_is_old_if_readers_take_the_partition_value_itself(
    tmp_path: Path, transform: str, partition: str, is_old: bool
) -> None:
    """Files without field ids, by `add_files`, and damaged ones: their rows may be of today."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"at": pa.array([micros(TODAY)], pa.timestamp("us"))}), path)
    table = SimpleNamespace(io=PyArrowFileIO(), spec=lambda _: spec_of(transform))
    column = NestedField(5, "at", KINDS["time"])
    for damaged in (False, True):
        if damaged:
            path.write_bytes(b"PAR1")
        file = entry(partition, None, f"file://{path}")
        ages = FileAges(cast(LoadedTable, table), column, Footers())
        assert list(ages.decide_ages([file], ms("2026-11-01"))) == [(file, is_old)]
