"""Values of every Iceberg type, from small domains so that keys meet, and Arrow arrays of them.

A value is what Iceberg keeps inside: days, micro- or nanoseconds as int, `Decimal`, `UUID`,
`bytes`; a struct is a tuple in field order, a map a list of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa

Kind = str | dict[str, Any]
"""A type as Iceberg's schema JSON writes it."""

_NULL_SHARE = 0.2
_MICROS = [0, -1, 1_700_000_000_123_456, -2_000_000_000_000_001]
_FLOATS = [0.0, -0.0, float("nan"), 1.5, float("inf")]
_POOLS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [0, 1, 2, 3, -1, 2**31 - 1, -(2**31)],
    "long": [0, 1, 2, 3, -1, 2**40, -(2**63), 2**63 - 1],
    "float": _FLOATS,
    "double": [*_FLOATS, 0.1],
    "date": [0, -1, 20_000, -200_000],
    "time": [0, 1, 86_399_999_999],
    "timestamp": _MICROS,
    "timestamptz": _MICROS,
    "timestamp_ns": [*_MICROS, 1_700_000_000_123_456_789],
    "timestamptz_ns": [*_MICROS, 1_700_000_000_123_456_789],
    "string": ["", "a", "b", "äö", "\U0001f40d", "a string of more than sixteen characters"],
    # No first bit: Iceberg 1.12 compares bounds of uuids as signed and skips deletes that apply.
    "uuid": [UUID(int=0), UUID(int=2**127 - 1), UUID(int=0x1234567890ABCDEF << 32)],
    "binary": [b"", b"\x00", b"\xff" * 20, b"ab"],
    "unknown": [None],
}


def value(kind: Kind, rng: Random, required: bool = False) -> Any:
    """One value; None where the field may be."""
    if not required and rng.random() < _NULL_SHARE:
        return None
    if isinstance(kind, str):
        return rng.choice(pool(kind))
    if kind["type"] == "struct":
        return tuple(value(f["type"], rng, f["required"]) for f in kind["fields"])
    if kind["type"] == "list":
        size = rng.randrange(3)
        return [value(kind["element"], rng, kind["element-required"]) for _ in range(size)]
    keys = dict.fromkeys(value(kind["key"], rng, True) for _ in range(rng.randrange(3)))
    return [(key, value(kind["value"], rng, kind["value-required"])) for key in keys]


def pool(kind: str) -> list[Any]:
    """What a primitive may be."""
    if kind.startswith("decimal"):
        precision, scale = (int(part) for part in kind[8:-1].split(","))
        return [Decimal(f"{n}e-{scale}") for n in (0, 1, -25, 10**precision - 1)]
    if kind.startswith("fixed"):
        size = int(kind[6:-1])
        return [b"\x00" * size, b"\xff" * size, b"abcdefgh"[:size].ljust(size, b"z")]
    return _POOLS[kind]


def array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """An Arrow array of one column's values."""
    if isinstance(kind, pa.UuidType):
        raw = [None if one is None else one.bytes for one in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(raw, kind.storage_type))
    if pa.types.is_struct(kind):
        return _structs(kind, values)
    if pa.types.is_map(kind):
        return _maps(kind, values)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(kind, values)
    return pa.array(values, kind)


def _structs(kind: pa.StructType, values: Sequence[Any]) -> pa.Array:
    members = []
    for index in range(kind.num_fields):
        member = [None if one is None else one[index] for one in values]
        members.append(array(kind.field(index).type, member))
    mask = pa.array([one is None for one in values], pa.bool_())
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)


def _lists(kind: Any, values: Sequence[Any]) -> pa.Array:
    offsets = _offsets(values)
    items = array(kind.value_type, [item for one in values if one is not None for item in one])
    mask = pa.array([one is None for one in values], pa.bool_())
    large = pa.types.is_large_list(kind)
    made = pa.LargeListArray if large else pa.ListArray
    ends = pa.array(offsets, pa.int64() if large else pa.int32())
    return made.from_arrays(ends, items, type=kind, mask=mask)


def _maps(kind: pa.MapType, values: Sequence[Any]) -> pa.Array:
    pairs = [pair for one in values if one is not None for pair in one]
    keys = array(kind.key_type, [key for key, _ in pairs])
    items = array(kind.item_type, [item for _, item in pairs])
    mask = pa.array([one is None for one in values], pa.bool_())
    ends = pa.array(_offsets(values), pa.int32())
    return pa.MapArray.from_arrays(ends, keys, items, type=kind, mask=mask)


def _offsets(values: Sequence[Any]) -> list[int]:
    ends = [0]
    for one in values:
        ends.append(ends[-1] + (0 if one is None else len(one)))
    return ends
