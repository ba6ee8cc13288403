from __future__ import annotations

import firnline_iceberg.table.catalog_client  # noqa: F401  teaches PyIceberg
import pytest
from firnline_iceberg.table.nanoseconds import parse_nanoseconds
from pyiceberg.types import NestedField, TimestamptzNanoType


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1970-01-01T00:00:00.000000001", 1),
        ("1969-12-31T23:59:59.999999999+00:00", -1),
        ("1970-01-01T00:00", 0),
        ("1970-01-01T00:01:00.5Z", 60_500_000_000),
        ("2262-04-11T23:47:16.854775807", 2**63 - 1),
    ],
)
def test_every_digit_counts(text: str, number: int) -> None:
    assert parse_nanoseconds(text) == number


def test_another_zone_is_no_value() -> None:
    with pytest.raises(ValueError, match=r"\+01:00"):
        parse_nanoseconds("1970-01-01T00:00:00+01:00")


def test_a_default_is_read() -> None:
    field = NestedField(1, "n", TimestamptzNanoType(), initial_default="1970-01-01T00:00:00+00:00")
    assert field.initial_default == 0
