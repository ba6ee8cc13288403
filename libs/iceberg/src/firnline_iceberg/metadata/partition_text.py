"""The one text that a partition has everywhere: JSON of its values in spec-field order.

`[]` for an unpartitioned spec and for one whose fields are all void (Iceberg calls both
unpartitioned, iceberg-rules 2.1), else `["2026-01-01",3]`. Values follow the spec's appendix
"JSON single-value serialization", with what it leaves open fixed: timestamps always carry all
their 6 (ns: 9) digits, binary is lower-case hex, decimals keep their scale, NaN and the
infinities are strings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

UNPARTITIONED = "[]"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_2000_DAYS = 10957  # 2000-01-01 in days since 1970
_400_YEARS_DAYS = 146097  # after which the calendar repeats; `date` ends at year 9999
_DAY_MICROS = 86_400_000_000

Values = Mapping[int, Any]
"""Partition field id -> value, as Avro's raw type or as the Python type of its logical type."""


class PartitionText:
    """Writes partitions of one spec. Build once per manifest, call per entry."""

    def __init__(self, spec: PartitionSpec, schemas: Iterable[Schema]) -> None:
        """Choose a writer for each partition field. `schemas`, the current one first: a source
        column may have been dropped since."""
        known = tuple(schemas)
        self._writers = [
            (field.field_id, _writer_for(_result_type(field.transform, field.source_id, known)))
            for field in spec.fields
        ]
        self._unpartitioned = all(isinstance(f.transform, VoidTransform) for f in spec.fields)

    def __call__(self, values: Values) -> str:
        if self._unpartitioned:
            return UNPARTITIONED
        return _to_json([_write_value(write, values.get(key)) for key, write in self._writers])


def is_source_dropped(schema: Schema, field: PartitionField) -> bool:
    """Return True if the column that a partition field is made from is not in the schema any
    more."""
    is_void = isinstance(field.transform, VoidTransform)
    return not is_void and schema.find_column_name(field.source_id) is None


def field_types(spec: PartitionSpec, schemas: Iterable[Schema]) -> tuple[IcebergType | None, ...]:
    """Return the types of a spec's fields, as `PartitionText` writes them."""
    known = tuple(schemas)
    return tuple(_result_type(one.transform, one.source_id, known) for one in spec.fields)


def _write_value(write: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else write(value)


def _to_json(values: list[Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _result_type(transform: Any, source_id: int, schemas: tuple[Schema, ...]) -> IcebergType | None:
    for schema in schemas:
        try:
            return transform.result_type(schema.find_type(source_id))  # type: ignore[no-any-return]
        except ValueError:
            continue
    return None


def _writer_for(kind: IcebergType | None) -> Callable[[Any], Any]:
    if isinstance(kind, DecimalType):
        return lambda value: _write_decimal(value, kind.scale)
    return _WRITERS.get(type(kind), _write_plain)


def _write_plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, float) and value - value != 0:  # NaN or infinite: JSON has neither
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _write_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _write_uuid(value: Any) -> str:
    return str(UUID(bytes=bytes(value)) if isinstance(value, bytes) else UUID(str(value)))


def _write_decimal(value: Any, scale: int) -> str:
    if isinstance(value, bytes):
        # `scaleb` would round to the 28 digits of Python's decimal context; Iceberg has 38.
        value = Decimal(f"{int.from_bytes(value, 'big', signed=True)}E-{scale}")
    return f"{Decimal(value):.{scale}f}"


def _write_date(value: Any) -> str:
    """Write an ISO date of days since 1970 (or a date); any year, as Java's LocalDate prints it."""
    days = (value - _EPOCH.date()).days if isinstance(value, date) else int(value)
    cycles, rest = divmod(days - _2000_DAYS, _400_YEARS_DAYS)
    day = date(2000, 1, 1) + timedelta(rest)
    year = day.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{day:%m-%d}"


def _write_time(value: Any) -> str:
    if isinstance(value, time):
        value = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    return _write_clock(int(value), 6)


def _write_clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{fraction:0{digits}d}"


def _write_timestamp(value: Any, digits: int = 6, zone: str = "") -> str:
    if isinstance(value, datetime):
        value = (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)
        value *= 10 ** (digits - 6)
    days, ticks = divmod(int(value), _DAY_MICROS * 10 ** (digits - 6))
    return f"{_write_date(days)}T{_write_clock(ticks, digits)}{zone}"


_WRITERS: dict[type, Callable[[Any], Any]] = {
    DateType: _write_date,
    TimeType: _write_time,
    TimestampType: _write_timestamp,
    TimestamptzType: lambda value: _write_timestamp(value, zone="+00:00"),
    TimestampNanoType: lambda value: _write_timestamp(value, 9),
    TimestamptzNanoType: lambda value: _write_timestamp(value, 9, "+00:00"),
    UUIDType: _write_uuid,
    StringType: _write_text,
}
