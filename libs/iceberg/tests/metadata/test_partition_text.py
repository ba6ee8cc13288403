from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from firnline_iceberg.metadata.partition_text import PartitionText
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
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
    UUIDType,
)

IDENTITY: Transform[Any, Any] = IdentityTransform()
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 600000)
MICROS = 1767323045600000
UUID_TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
FLOAT_01 = struct.unpack("f", struct.pack("f", 0.1))[0]


def text_of(kind: IcebergType, value: Any, transform: Transform[Any, Any] = IDENTITY) -> str:
    spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
    return PartitionText(spec, [Schema(NestedField(1, "source", kind))])({1000: value})


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (BooleanType(), True, "true"),
        (IntegerType(), -3, "-3"),
        (LongType(), 2**62, "4611686018427387904"),
        (FloatType(), FLOAT_01, "0.10000000149011612"),
        (DoubleType(), -0.0, "-0.0"),
        (DoubleType(), float("nan"), '"NaN"'),
        (DoubleType(), float("inf"), '"Infinity"'),
        (FloatType(), float("-inf"), '"-Infinity"'),
        (StringType(), 'ü"\n', '"ü\\"\\n"'),
        (StringType(), None, "null"),
        (DateType(), 20454, '"2026-01-01"'),
        (DateType(), dt.date(2026, 1, 1), '"2026-01-01"'),
        (DateType(), -1, '"1969-12-31"'),
        (DateType(), 2932897, '"+10000-01-01"'),  # the day after what Python can hold
        (DateType(), -719529, '"-0001-12-31"'),
        (TimeType(), 81068123456, '"22:31:08.123456"'),
        (TimeType(), dt.time(22, 31, 8, 123456), '"22:31:08.123456"'),
        (TimestampType(), MICROS, '"2026-01-02T03:04:05.600000"'),
        (TimestampType(), MOMENT, '"2026-01-02T03:04:05.600000"'),
        (TimestampType(), -1, '"1969-12-31T23:59:59.999999"'),
        (TimestamptzType(), MICROS, '"2026-01-02T03:04:05.600000+00:00"'),
        (TimestamptzType(), MOMENT.replace(tzinfo=dt.UTC), '"2026-01-02T03:04:05.600000+00:00"'),
        (TimestampNanoType(), MICROS * 1000 + 7, '"2026-01-02T03:04:05.600000007"'),
        (TimestamptzNanoType(), MICROS * 1000, '"2026-01-02T03:04:05.600000000+00:00"'),
        (UUIDType(), UUID(UUID_TEXT).bytes, f'"{UUID_TEXT}"'),
        (UUIDType(), UUID(UUID_TEXT), f'"{UUID_TEXT}"'),
        (DecimalType(9, 2), (1420).to_bytes(4, "big"), '"14.20"'),
        (DecimalType(9, 2), (-1).to_bytes(4, "big", signed=True), '"-0.01"'),
        (DecimalType(9, 2), Decimal("14.2"), '"14.20"'),
        (DecimalType(38, 2), (10**38 - 1).to_bytes(16, "big"), f'"{"9" * 36}.99"'),
        (DecimalType(38, 2), Decimal("9" * 36 + ".99"), f'"{"9" * 36}.99"'),
        (BinaryType(), b"\x00\xfe", '"00fe"'),
        (FixedType(2), b"\x00\xfe", '"00fe"'),
    ],
)
def test_a_value_has_one_text_whatever_reader_it_comes_from(
    kind: IcebergType, value: Any, expected: str
) -> None:
    assert text_of(kind, value) == f"[{expected}]"


@pytest.mark.parametrize(
    ("kind", "transform", "value", "expected"),
    [
        (TimestampType(), DayTransform(), 20454, '"2026-01-01"'),
        (TimestampType(), DayTransform(), dt.date(2026, 1, 1), '"2026-01-01"'),
        (DateType(), YearTransform(), 56, "56"),
        (DateType(), MonthTransform(), 672, "672"),
        (TimestampType(), HourTransform(), 490908, "490908"),
        (StringType(), BucketTransform(16), 3, "3"),
        (StringType(), TruncateTransform(2), "ab", '"ab"'),
        (DecimalType(9, 2), TruncateTransform(50), Decimal("10.5"), '"10.50"'),
    ],
)
def test_a_transform_decides_the_type_of_the_text(
    kind: IcebergType, transform: Transform[Any, Any], value: Any, expected: str
) -> None:
    assert text_of(kind, value, transform) == f"[{expected}]"


def test_values_stand_in_the_order_of_the_spec_and_void_is_null() -> None:
    spec = PartitionSpec(
        PartitionField(2, 1001, IDENTITY, "b"),
        PartitionField(1, 1000, VoidTransform(), "gone"),
        PartitionField(1, 1002, IDENTITY, "a"),
    )
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", StringType()))
    assert PartitionText(spec, [schema])({1002: 7, 1001: "x"}) == '["x",null,7]'


@pytest.mark.parametrize(
    "spec",
    [
        PartitionSpec(),
        PartitionSpec(PartitionField(1, 1000, VoidTransform(), "gone")),
    ],
)
def test_a_spec_without_values_is_unpartitioned(spec: PartitionSpec) -> None:
    assert PartitionText(spec, [Schema(NestedField(1, "a", LongType()))])({1000: None}) == "[]"


def test_a_dropped_source_column_is_found_in_an_older_schema() -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IDENTITY, "day"))
    now, before = Schema(NestedField(1, "a", LongType())), Schema(NestedField(2, "d", DateType()))
    assert PartitionText(spec, [now, before])({1000: 20454}) == '["2026-01-01"]'


@given(st.datetimes())
def test_micros_and_datetime_agree(moment: dt.datetime) -> None:
    micros = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    text = json.loads(text_of(TimestampType(), micros))[0]
    assert text == json.loads(text_of(TimestampType(), moment))[0]
    assert text == moment.isoformat(timespec="microseconds")
