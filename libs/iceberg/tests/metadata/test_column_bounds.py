"""Bounds that others wrote: what cannot be read, or contradicts itself, is not known."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from firnline_iceberg.metadata.column_bounds import (
    UNKNOWN,
    ValueRange,
    read_bound,
    read_range,
    span_of,
)
from firnline_iceberg.metadata.entries import FileStats
from firnline_iceberg.scan.delete_pruning import have_no_common
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

LONG = struct.pack("<q", 7)
FLOAT_NAN, DOUBLE_NAN = struct.pack("<f", float("nan")), struct.pack("<d", float("nan"))


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (IntegerType(), struct.pack("<i", -7), -7),
        (LongType(), LONG, 7),
        (LongType(), struct.pack("<i", -7), -7),  # an int, before the column was widened
        (DoubleType(), struct.pack("<f", 0.5), 0.5),
        (DoubleType(), struct.pack("<d", 0.5), 0.5),
        (DecimalType(38, 2), (-3).to_bytes(1, "big", signed=True), Decimal("-0.03")),
        (DecimalType(38, 0), (10**37).to_bytes(16, "big"), Decimal(10**37)),
        (DecimalType(38, 0), b"\0" + (10**37).to_bytes(16, "big"), Decimal(10**37)),
        (DateType(), struct.pack("<i", 2_932_897), 2_932_897),  # of the year 10000
        (TimestampType(), struct.pack("<q", 2**63 - 1), 2**63 - 1),
        (TimestamptzType(), struct.pack("<i", 1), 86_400_000_000),  # a date
        (TimestampNanoType(), struct.pack("<i", 1), 86_400_000_000_000),
        (StringType(), "ä".encode(), "ä"),
        (BinaryType(), b"\xff", b"\xff"),
        (BooleanType(), b"\1", True),
    ],
)
def test_a_value_of_the_type_or_of_one_that_is_promoted_to_it_is_read(
    kind: Any, raw: bytes, value: Any
) -> None:
    found = read_bound(kind, raw)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (StringType(), "AAAAAAAAAAAAAAA•".encode()[:16]),  # cut inside a character
        (StringType(), b"\xff"),
        (IntegerType(), LONG),
        (IntegerType(), b""),
        (LongType(), b"\1"),
        (LongType(), b"\0" * 16),
        (DateType(), LONG),
        (TimeType(), b"\0" * 4),
        (TimestampType(), b"2026-01-01"),
        (FloatType(), FLOAT_NAN),
        (FloatType(), struct.pack("<d", 1.0)),
        (DoubleType(), DOUBLE_NAN),
        (DoubleType(), b"\0"),
        (DecimalType(9, 2), b""),
        (DecimalType(9, 2), b"\1" * 40),
        (BooleanType(), b""),
        (UUIDType(), b"\0" * 16),  # signed in some readers, unsigned in others
        (LongType(), None),
        (None, LONG),
    ],
)
def test_what_is_no_value_of_the_type_is_not_known(kind: Any, raw: bytes | None) -> None:
    assert read_bound(kind, raw) is None


def test_bounds_that_contradict_are_not_known() -> None:
    low, high = struct.pack("<q", 1), struct.pack("<q", 9)
    assert read_range(LongType(), low, high) == (1, 9)
    assert read_range(LongType(), high, low) is None
    assert read_range(LongType(), low, b"\xff") is None


FIELD = NestedField(1, "k", LongType())


@pytest.mark.parametrize(
    ("values", "nulls", "low", "high", "span"),
    [
        (9, 0, LONG, LONG, ValueRange((7, 7), none_null=True)),
        (9, 2, LONG, LONG, ValueRange((7, 7))),
        (9, None, LONG, LONG, ValueRange((7, 7))),
        (9, 9, None, None, ValueRange(all_null=True)),
        (9, 9, LONG, LONG, UNKNOWN),  # no value, and yet a bound
        (9, 10, LONG, LONG, UNKNOWN),
        (9, -1, LONG, LONG, UNKNOWN),
    ],
)
def test_counts_that_contradict_are_not_known(
    values: int, nulls: int | None, low: bytes | None, high: bytes | None, span: ValueRange
) -> None:
    lower, upper = ({} if one is None else {1: one} for one in (low, high))
    counts = {} if nulls is None else {1: nulls}
    assert span_of(FIELD, FileStats({1: values}, counts, {}, lower, upper)) == span


def test_an_upper_bound_of_text_that_was_cut_and_not_raised_excludes_nothing_that_it_begins() -> (
    None
):
    cut = ValueRange(("aaaa", "customer-0000000"), none_null=True)
    assert not have_no_common(
        cut, ValueRange(("customer-00000007", "customer-00000007"), none_null=True)
    )
    assert have_no_common(cut, ValueRange(("customer-1", "customer-1"), none_null=True))
    raw = ValueRange((b"\0", b"\1\2"), none_null=True)
    assert not have_no_common(raw, ValueRange((b"\1\2\3", b"\1\2\3"), none_null=True))
