"""Lower and upper bounds of a column or partition field, as manifests have them.

Writers write them, and some are wrong: cut inside a character, of the type that the column had
before, swapped. So this is the one place that decodes them, and what is wrong is not known. A bound
that can be read may still be too narrow: what removes rows, or proves that there are none, asks the
file itself (`scan.parquet_footers`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from firnline_iceberg.metadata.entries import FileStats

DAY_MICROS = 86_400_000_000
_MAX_DECIMAL_BYTES = 17  # 38 digits take 16; one more is a sign that some writers add
Range = tuple[Any, Any]
"""Lower and upper bound, of one type that has an order."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Known values of one column in one file. `range`: of the values that are not null; None: not
    known. A file without rows has none that is null, and all of them are."""

    range: Range | None = None
    none_null: bool = False
    all_null: bool = False


UNKNOWN = ValueRange()


def span_of(field: NestedField, stats: FileStats | None) -> ValueRange:
    """Read the bounds and counts of a column in a manifest; UNKNOWN if they contradict each
    other."""
    if stats is None:
        return ValueRange(none_null=field.required)
    number = field.field_id
    values, nulls = stats.value_counts.get(number), stats.null_counts.get(number)
    lower, upper = stats.lower.get(number), stats.upper.get(number)
    found = read_range(field.field_type, lower, upper)
    all_null = values is not None and values == nulls and not field.required
    if all_null and values and (lower is not None or upper is not None):
        return UNKNOWN
    if nulls is not None and not 0 <= nulls <= (nulls if values is None else values):
        return UNKNOWN
    return ValueRange(found, field.required or nulls == 0, all_null)


def read_range(kind: IcebergType | None, lower: bytes | None, upper: bytes | None) -> Range | None:
    """Read a pair of bounds; None if one is missing or wrong, or they contradict."""
    low, high = read_bound(kind, lower), read_bound(kind, upper)
    return None if low is None or high is None or low > high else (low, high)


def read_bound(kind: IcebergType | None, raw: bytes | None) -> Any:
    """Read single-value bytes (spec, "Appendix D") in the units of the type, also those of a type
    that the spec promotes to it: an `int`, `Decimal`, `str`, `bytes` or `float`. None for what is
    no value of the type, for NaN, and for types whose order is not plain (uuid)."""
    read = _READERS.get(type(kind))
    if read is None or raw is None:
        return None
    try:
        return read(kind, bytes(raw))
    except (ValueError, ArithmeticError, struct.error):  # ValueError: no UTF-8, or a wrong length
        return None


def _integer_reader(widths: dict[int, int]) -> Callable[[Any, bytes], int]:
    """Return a reader of integers."""

    def read_integer(_: Any, raw: bytes) -> int:
        if len(raw) not in widths:
            raise ValueError(f"{len(raw)} bytes")
        return int.from_bytes(raw, "little", signed=True) * widths[len(raw)]

    return read_integer


def _read_real(kind: Any, raw: bytes) -> float:
    if len(raw) == 8 and isinstance(kind, FloatType):
        raise ValueError("8 bytes")
    (value,) = struct.unpack("<f" if len(raw) == 4 else "<d", raw)
    if value != value:
        raise ValueError("NaN")
    return float(value)


def _read_decimal(kind: Any, raw: bytes) -> Decimal:
    if not 0 < len(raw) <= _MAX_DECIMAL_BYTES:
        raise ValueError(f"{len(raw)} bytes")
    return Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E-{kind.scale}")


def _read_flag(_: Any, raw: bytes) -> bool:
    if len(raw) != 1:
        raise ValueError(f"{len(raw)} bytes")
    return raw != b"\0"


_MICROS = _integer_reader({8: 1, 4: DAY_MICROS})  # a date of 4 bytes is promoted in v3
_NANOS = _integer_reader({8: 1, 4: DAY_MICROS * 1_000})
_READERS: dict[type, Callable[[Any, bytes], Any]] = {
    BinaryType: lambda _, raw: raw,
    BooleanType: _read_flag,
    DateType: _integer_reader({4: 1}),
    DecimalType: _read_decimal,
    DoubleType: _read_real,
    FixedType: lambda _, raw: raw,
    FloatType: _read_real,
    IntegerType: _integer_reader({4: 1}),
    LongType: _integer_reader({8: 1, 4: 1}),
    StringType: lambda _, raw: raw.decode(),
    TimeType: _integer_reader({8: 1}),
    TimestampNanoType: _NANOS,
    TimestampType: _MICROS,
    TimestamptzNanoType: _NANOS,
    TimestamptzType: _MICROS,
}


def is_below(high: Any, low: Any) -> bool:
    """Return True if an upper bound is below a lower one. An upper bound of text that was cut and
    not raised is below what it was cut from, so a beginning is not below the whole."""
    if isinstance(high, str | bytes) and low[: len(high)] == high:
        return False
    return bool(high < low)
