"""Find how old the youngest row of a data file can be: by its partition value, or by its own
footer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any

from firnline_domain.errors import TaskRefused
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    IcebergType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from firnline_iceberg.metadata.column_bounds import Range, ValueRange, span_of
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.scan.parquet_footers import Footers
from firnline_iceberg.table.loaded_table import LoadedTable

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FOOTERS_TOGETHER = 1_000
EMPTY = ValueRange(none_null=True, all_null=True)  # no rows
_EPOCH_YEAR = 1970
_400_YEARS_DAYS = 146_097
_NANOSECONDS = re.compile(r"(\.\d{6})\d+")  # Python has six digits
_PER_MS: dict[type, int] = {TimestampType: 1_000, TimestamptzType: 1_000}
_NANOS: dict[type, int] = {TimestampNanoType: 1_000_000, TimestamptzNanoType: 1_000_000}
_TIMES: tuple[type, ...] = (DateType, *_PER_MS, *_NANOS)
_OF_TIME = (DayTransform, HourTransform, MonthTransform, YearTransform)


def time_column(table: LoadedTable, name: str) -> NestedField:
    """Return the column that rows are dated by: the named one, which may be a text of ISO dates,
    else the only time that the table is partitioned by. Raises TaskRefused `no_time_column`."""
    if name:
        found = next((one for one in table.schema.fields if one.name == name), None)
        if found is None or not isinstance(found.field_type, (*_TIMES, StringType)):
            text = f"firnline.partitions.column: {name} is no column of dates, times or text"
            raise TaskRefused("no_time_column", text)
        return found
    spec = table.spec(table.metadata.default_spec_id)
    found_ids = {one.source_id for one in spec.fields if _is_time_field(table, one)}
    if len(found_ids) != 1:
        text = f"the table is partitioned by {len(found_ids)} times: set firnline.partitions.column"
        raise TaskRefused("no_time_column", text)
    return table.schema.find_field(found_ids.pop())


def _is_time_field(table: LoadedTable, field: PartitionField) -> bool:
    """Return True if a partition field is a date or a timestamp, unchanged or by a transform of
    time."""
    name = table.schema.find_column_name(field.source_id)
    if name is None:
        return False
    kind = table.schema.find_type(field.source_id)
    identity = isinstance(field.transform, IdentityTransform)
    return isinstance(kind, _TIMES) and (identity or isinstance(field.transform, _OF_TIME))


@dataclass(frozen=True)
class FileAges:
    """Finds files whose rows are all before a moment: by the partition value, if the file's own
    footer does not say otherwise, else by that footer. Bounds of the manifest only choose which
    footers are read: they are not believed, for rows would go."""

    table: LoadedTable
    column: NestedField
    footers: Footers

    def decide_ages(
        self, files: Iterable[DataFileEntry], before_ms: int
    ) -> Iterator[tuple[DataFileEntry, bool]]:
        """Decide for each file, in any order, whether it is old. Raises StorageUnreachable."""
        asked = list[tuple[DataFileEntry, Age]]()
        for file in files:
            guess = guess_age(file, self.table.spec(file.spec_id), self.column, before_ms)
            if guess is Age.YOUNG:
                yield file, False
                continue
            asked.append((file, guess))
            if len(asked) == FOOTERS_TOGETHER:
                yield from self._read_footers(asked, before_ms)
                asked = []
        yield from self._read_footers(asked, before_ms)

    def _read_footers(
        self, files: Sequence[tuple[DataFileEntry, Age]], before_ms: int
    ) -> Iterator[tuple[DataFileEntry, bool]]:
        some = [file for file, _ in files]
        found = self.footers.read_all(self.table.io, some, (self.column,))
        for (file, guess), spans in zip(files, found, strict=True):
            span = spans.get(self.column.field_id)
            if span is None or span == EMPTY:
                is_told = span == EMPTY or self._tells_no_rows(file)
                yield file, guess is Age.OLD and is_told
                continue
            within = _partition_span(file, self.table.spec(file.spec_id), self.column)
            rows = _rows_span(span, self.column)
            yield file, rows is not None and rows[1] <= before_ms and _lies_in(rows, within)

    def _tells_no_rows(self, file: DataFileEntry) -> bool:
        """Return True if a file without a footer's span of the column has no other times than its
        partition value: it is no Parquet, or readers take the value itself. Parquet without field
        ids, or that is damaged, may have rows of any time."""
        values = zip(self.table.spec(file.spec_id).fields, json.loads(file.partition), strict=False)
        return (
            file.format != "PARQUET"
            or file.encrypted
            or any(
                one.source_id == self.column.field_id
                and isinstance(one.transform, IdentityTransform)
                and value is not None
                for one, value in values
            )
        )


class Age(Enum):
    """Age of a file by its manifest."""

    YOUNG = "young"  # or not known
    OLD = "old"  # by its partition value
    ASK_FILE = "ask_file"  # its bounds say that it is old, and no partition value does


def guess_age(file: DataFileEntry, spec: PartitionSpec, column: NestedField, before_ms: int) -> Age:
    """Decide by the manifest whether all rows of a file may be before a moment. Readers go by the
    partition value, so it counts, unless it contradicts another one or the bounds."""
    within = _partition_span(file, spec, column)
    bounds = span_of(column, file.stats)
    rows = _rows_span(bounds, column)
    known = bounds.range and _to_times(bounds.range, column)
    if within == CONTRADICTORY or (known and not _lies_in(known, within)):
        return Age.YOUNG
    if within is not None and within[1] <= before_ms:
        return Age.OLD
    return Age.ASK_FILE if rows is not None and rows[1] <= before_ms else Age.YOUNG


Moments = tuple[int, int]
"""From, and before, in milliseconds since 1970."""
CONTRADICTORY: Moments = (0, 0)  # no moment is in it
ANY_TIME: Moments = (-(10**18), 10**18)


def _lies_in(rows: Moments, within: Moments | None) -> bool:
    return within is None or (within[0] <= rows[0] and rows[1] <= within[1])


def _partition_span(
    file: DataFileEntry, spec: PartitionSpec, column: NestedField
) -> Moments | None:
    """Return the period of a file's rows by all its partition values that are derived from the
    column; None without one. CONTRADICTORY if these have no moment in common."""
    spans = [
        span
        for one, value in zip(spec.fields, json.loads(file.partition), strict=False)
        if one.source_id == column.field_id
        and value is not None
        and (span := _moments_of_value(one.transform, value, column.field_type)) is not None
    ]
    if not spans:
        return None
    first, last = max(start for start, _ in spans), min(end for _, end in spans)
    return (first, last) if first < last else CONTRADICTORY


def _moments_of_value(transform: Any, value: Any, kind: IcebergType) -> Moments | None:
    end_ms = _partition_end_ms(transform, value, kind)
    if end_ms is None:
        return None
    match transform:
        case HourTransform():
            return end_ms - HOUR_MS, end_ms
        case MonthTransform():
            return _month_ms(int(value)), end_ms
        case YearTransform():
            return _month_ms(int(value) * 12), end_ms
        case IdentityTransform() if isinstance(kind, (*_PER_MS, *_NANOS)):
            return end_ms - 1, end_ms
    return end_ms - DAY_MS, end_ms


def _rows_span(span: ValueRange, column: NestedField) -> Moments | None:
    """Return the period of a file's rows by the column's bounds; None if a row may have no time.
    Between two different texts there may be others that are no days."""
    if span.range is None or not span.none_null:
        return None
    if isinstance(column.field_type, StringType) and span.range[0] != span.range[1]:
        return None
    return _to_times(span.range, column)


def _to_times(found: Range, column: NestedField) -> Moments:
    kind, (low, high) = column.field_type, found
    try:
        if isinstance(kind, StringType):
            return _day_end_ms(low) - DAY_MS, _day_end_ms(high)
        if isinstance(kind, DateType):
            return low * DAY_MS, (high + 1) * DAY_MS
        per_ms = _PER_MS.get(type(kind)) or _NANOS[type(kind)]
        return low // per_ms, high // per_ms + 1
    except (ValueError, OverflowError):  # text that is no day
        return ANY_TIME


def _partition_end_ms(transform: Any, value: Any, kind: IcebergType) -> int | None:
    try:
        match transform:
            case HourTransform():
                return (int(value) + 1) * HOUR_MS
            case MonthTransform():
                return _month_ms(int(value) + 1)
            case YearTransform():
                return _month_ms((int(value) + 1) * 12)
            case DayTransform():
                return _day_end_ms(str(value))
            case IdentityTransform() if isinstance(kind, (DateType, StringType)):
                return _day_end_ms(str(value))
            case IdentityTransform() if isinstance(kind, _TIMES):
                return _parse_time_ms(str(value)) + 1
    except (ValueError, OverflowError):
        pass
    return None


def _day_end_ms(text: str) -> int:
    """Return when a day ends. Raises ValueError, also for a week, which Python takes for its first
    day."""
    if "W" in text:
        raise ValueError(f"{text!r} is a week")
    day = date.fromisoformat(text)
    return _parse_time_ms(day.isoformat()) + DAY_MS


def _parse_time_ms(text: str) -> int:
    """Parse an ISO 8601 time into ms since 1970, rounded down; without a zone it is UTC. Raises
    ValueError."""
    moment = datetime.fromisoformat(_NANOSECONDS.sub(r"\1", text))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _month_ms(months: int) -> int:
    """Return when a month since 1970 begins, of any year: Python's dates end with the year 9999."""
    years, month = divmod(months, 12)
    cycles, year = divmod(_EPOCH_YEAR + years - 2000, 400)
    first = _parse_time_ms(date(2000 + year, month + 1, 1).isoformat())
    return first + cycles * _400_YEARS_DAYS * DAY_MS
