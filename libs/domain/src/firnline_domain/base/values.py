"""Define every value of the domain: named fields that cannot change, equal where they are.

The one module that knows msgspec (docs/decisions/0024): its structs are built, compared, copied and
read from bytes in C, and one event makes some two hundred of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, dataclass_transform

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

if TYPE_CHECKING:
    from dataclasses import replace  # the same signature, and its arguments are type-checked
else:
    from msgspec.structs import replace

_LEAVES = frozenset({int, str, bytes, bool, float, type(None)})
MAX_AMOUNT = 1 << 53  # readers of JSON round what is above; no count, size or moment comes near
LAST_MOMENT = 253_402_300_799_999  # of the year 9999, with which Python's dates end
LONG = 1 << 63  # a number of Avro, Iceberg and Redis lies in [-LONG, LONG)

# Every number of a record that travels is one of these, so that a reader refuses the record if the
# number is outside its range. NaN and the infinities are in no range.
Amount = Annotated[int, Meta(ge=0, le=MAX_AMOUNT)]  # files, rows, bytes, lengths in ms
Moment = Annotated[int, Meta(ge=0, le=LAST_MOMENT)]  # ms since 1970
Signed = Annotated[int, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]
Identifier = Annotated[int, Meta(ge=-LONG, le=LONG - 1)]  # compared, never added up
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]

__all__ = [
    "MAX_AMOUNT",
    "Amount",
    "Finite",
    "Identifier",
    "Moment",
    "Signed",
    "Value",
    "amount_of",
    "bound_amount",
    "field",
    "moment_near",
    "replace",
    "to_plain",
    "within_longs",
]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, omit_defaults=True, gc=False):
    """A frozen value. Written down, a field that has its default takes no room, so that a new
    field with a default is no new version."""


def to_plain(value: Any) -> Any:
    """Convert to dicts and lists at every level, with all fields named, for writers of Avro and
    JSON. Immutable leaves are not copied."""
    if type(value) in _LEAVES:
        return value
    if isinstance(value, Struct):
        return {name: to_plain(item) for name, item in asdict(value).items()}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def bound_amount(number: float) -> int:
    """Return the amount that is nearest to a sum or a product: 0 for one below zero or NaN."""
    return int(min(number, MAX_AMOUNT)) if number > 0 else 0


def moment_near(ms: int) -> int:
    """Return the moment in Firnline's range that is nearest to a client's clock."""
    return min(max(ms, 0), LAST_MOMENT)


def amount_of(number: int | None) -> int | None:
    """Return the amount that a number from outside is; None if it is none."""
    return number if number is not None and 0 <= number <= MAX_AMOUNT else None


def within_longs(value: Any) -> Any:
    """Return the plain form of a value, each whole number in it the nearest long."""
    plain = to_plain(value)
    if type(plain) is int:
        return min(max(plain, -LONG), LONG - 1)
    if isinstance(plain, dict):
        return {key: within_longs(item) for key, item in plain.items()}
    return [within_longs(item) for item in plain] if isinstance(plain, list) else plain
