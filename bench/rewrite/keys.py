"""Keys of one partition: all that it will ever have, in the order in which they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.rewrite.shapes import Shape

TENANTS = 200
LARGEST_GAP = 1 << 20  # between neighbours: sparse, as of an id generator with a clock inside
_HEX = np.array([f"{value:02x}".encode() for value in range(256)], dtype="S2").view(np.uint8)
_DASHES = (8, 13, 18, 23)  # of a UUID's text


def columns(shape: Shape, partition: int, count: int) -> dict[str, pa.Array]:
    """`count` keys as columns by name, distinct but for NULLs; the same for the same shape."""
    rng = np.random.default_rng([shape.seed, partition])
    if shape.keys == "long":
        return {"id": pa.array(_longs(shape, partition, count, rng))}
    tenants = pa.array([f"tenant-{number:04d}" for number in range(TENANTS)])
    chosen = pa.array(rng.integers(0, TENANTS, count, dtype=np.int32))
    found = {"tenant": tenants.take(chosen), "order_id": uuid_texts(rng.bytes(16 * count))}
    return _with_nulls(found, shape.null_share, rng) if shape.null_share else found


def _with_nulls(found: dict[str, pa.Array], share: float, rng: Any) -> dict[str, pa.Array]:
    """Keys with a NULL in one column or both are no longer distinct: a delete of one kills all."""
    return {
        name: pc.if_else(pa.array(rng.random(len(column)) < share), None, column)
        for name, column in found.items()
    }


def _longs(shape: Shape, partition: int, count: int, rng: Any) -> Any:
    if shape.spec != "bucket":
        return np.cumsum(rng.integers(1, LARGEST_GAP, count))
    found: list[Any] = []
    start = 0
    while sum(map(len, found)) < count:
        batch = start + np.cumsum(rng.integers(1, LARGEST_GAP, count))
        start = int(batch[-1])
        found.append(batch[bucket_of_longs(batch, shape.partitions) == partition])
    return np.concatenate(found)[:count]


def uuid_texts(random: bytes) -> pa.Array:
    """Lower-case texts of 36 characters, one per 16 bytes."""
    count = len(random) // 16
    digits = _HEX.reshape(256, 2)[np.frombuffer(random, np.uint8)].reshape(count, 32)
    text = np.full((count, 36), ord("-"), np.uint8)
    text[:, [place for place in range(36) if place not in _DASHES]] = digits
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def bucket_of_longs(values: Any, buckets: int) -> Any:
    """Iceberg's bucket transform of longs: Murmur3 (x86, 32 bits, seed 0) of 8 bytes."""
    words = np.ascontiguousarray(values, dtype="<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for word in (words[:, 0], words[:, 1]):
        mixed = _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ (state >> np.uint32(shift))) * np.uint32(factor)
    state ^= state >> np.uint32(16)
    return (state & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)


def _rotated(values: Any, left: int) -> Any:
    return (values << np.uint32(left)) | (values >> np.uint32(32 - left))
