"""How old the youngest row of a data file can be, by its partition value or by its bounds. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from firnline_domain.errors import TaskRefused
from pyiceberg.conversions import from_bytes
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
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from firnline_iceberg.files import DataFileEntry, FileStats
from firnline_iceberg.tables import LoadedTable

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
_EPOCH_YEAR = 1970
_NANOSECONDS = re.compile(r"(\.\d{6})\d+")  # Python has six digits
_PER_MS: dict[type, int] = {TimestampType: 1_000, TimestamptzType: 1_000}
_NANOS: dict[type, int] = {TimestampNanoType: 1_000_000, TimestamptzNanoType: 1_000_000}
_TIMES: tuple[type, ...] = (DateType, *_PER_MS, *_NANOS)
_OF_TIME = (DayTransform, HourTransform, MonthTransform, YearTransform)


def time_column(table: LoadedTable, name: str) -> NestedField:
    """The column that ages are of: the one that was named, which may be a text of ISO dates, else
    the only time that the table is partitioned by. Raises TaskRefused `no_time_column`."""
    if name:
        found = next((one for one in table.schema.fields if one.name == name), None)
        if found is None or not isinstance(found.field_type, (*_TIMES, StringType)):
            text = f"firnline.partitions.column: {name} is no column of dates, times or text"
            raise TaskRefused("no_time_column", text)
        return found
    spec = table.spec(table.metadata.default_spec_id)
    found_ids = {one.source_id for one in spec.fields if _is_of_time(table, one)}
    if len(found_ids) != 1:
        text = f"the table is partitioned by {len(found_ids)} times: set firnline.partitions.column"
        raise TaskRefused("no_time_column", text)
    return table.schema.find_field(found_ids.pop())


def _is_of_time(table: LoadedTable, field: PartitionField) -> bool:
    name = table.schema.find_column_name(field.source_id)
    if name is None:
        return False
    kind = table.schema.find_type(field.source_id)
    identity = isinstance(field.transform, IdentityTransform)
    return isinstance(kind, _TIMES) and (identity or isinstance(field.transform, _OF_TIME))


def is_older(file: DataFileEntry, spec: PartitionSpec, column: NestedField, before_ms: int) -> bool:
    """Whether every row of it is older than that moment, without doubt: a row without a time, or a
    partition that is not understood, keeps its file."""
    ends = list(_ends_ms(file, spec, column))
    return bool(ends) and min(ends) <= before_ms


def _ends_ms(file: DataFileEntry, spec: PartitionSpec, column: NestedField) -> Iterable[int]:
    """Moments before which all of its rows are."""
    for field, value in zip(spec.fields, json.loads(file.partition), strict=False):
        if field.source_id == column.field_id and value is not None:
            end_ms = _partition_end_ms(field.transform, value, column.field_type)
            if end_ms is not None:
                yield end_ms
    if file.stats is not None and (end_ms := _bound_ms(file.stats, column)) is not None:
        yield end_ms


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
                return _moment_ms(str(value)) + 1
    except (ValueError, OverflowError):
        pass
    return None


def _day_end_ms(text: str) -> int:
    day = date.fromisoformat(text)
    return _moment_ms(day.isoformat()) + DAY_MS


def _moment_ms(text: str) -> int:
    """Of ISO text, rounded down; without a zone it is UTC."""
    moment = datetime.fromisoformat(_NANOSECONDS.sub(r"\1", text))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _month_ms(months: int) -> int:
    years, month = divmod(months, 12)
    return _moment_ms(date(_EPOCH_YEAR + years, month + 1, 1).isoformat())


def _bound_ms(stats: FileStats, column: NestedField) -> int | None:
    """The upper bound of the column, where no row lacks it."""
    number, kind = column.field_id, column.field_type
    upper, nulls = stats.upper.get(number), stats.null_counts.get(number)
    if upper is None or (nulls != 0 and not column.required) or isinstance(kind, StringType):
        return None
    assert isinstance(kind, PrimitiveType)
    value: Any = from_bytes(kind, upper)
    if isinstance(kind, DateType):
        return (int(value) + 1) * DAY_MS
    per_ms = _PER_MS.get(type(kind)) or _NANOS[type(kind)]
    return int(value) // per_ms + 1
