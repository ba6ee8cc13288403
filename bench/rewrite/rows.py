"""Rows of the bench's tables, made by NumPy: the same for the same shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bench.rewrite import keys
from bench.rewrite.shapes import Shape

STATUSES = ("new", "paid", "packed", "sent", "delivered", "returned", "lost", "closed")
NOTES = 50_000
WORDS = 3_000
FIRST_US = 1_760_000_000_000_000
COMMIT_US = 60_000_000  # a commit a minute


@dataclass(frozen=True)
class Batch:
    """What one commit writes into one partition; the base has no delete keys."""

    rows: pa.Table
    deleted: pa.Table | None


def batches(shape: Shape, partition: int) -> Iterator[Batch]:
    """The base, then one batch per commit."""
    rng = np.random.default_rng([shape.seed, partition, 1])
    base = shape.base_rows // shape.partitions
    each = shape.upserts_of(partition)
    fresh = int(each * shape.new_share)
    known = pa.table(keys.columns(shape, partition, base + fresh * shape.commits))
    hot = rng.choice(base, max(1, int(base * shape.hot_share)), replace=False)
    notes = _notes(np.random.default_rng([shape.seed, 2]))
    yield Batch(_with_payload(known.slice(0, base), 0, rng, notes), None)
    for commit in range(shape.commits):
        top = base + fresh * commit
        old = _updated(shape, each - fresh, top, hot, rng)
        chosen = rng.permutation(np.concatenate([old, np.arange(top, top + fresh)]))
        upserted = known.take(pa.array(chosen))
        yield Batch(_with_payload(upserted, commit + 1, rng, notes), upserted)


def _updated(shape: Shape, count: int, top: int, hot: Any, rng: Any) -> Any:
    """Places of distinct known keys, most of them hot."""
    from_hot = min(int(count * shape.hot_weight), len(hot))
    warm = rng.choice(hot, from_hot, replace=False)
    cold = rng.integers(0, top, count - from_hot)
    return np.unique(np.concatenate([warm, cold]))


def _with_payload(found: pa.Table, commit: int, rng: Any, notes: pa.Array) -> pa.Table:
    count = found.num_rows
    moments = FIRST_US + commit * COMMIT_US + np.sort(rng.integers(0, COMMIT_US, count))
    payload = {
        "quantity": pa.array(rng.integers(0, 1_000_000, count)),
        "amount": pa.array(rng.integers(0, 10_000_000, count) / 100),
        "updated_at": pa.array(moments, pa.timestamp("us", "UTC")),
        "status": pa.array(STATUSES).take(pa.array(rng.integers(0, len(STATUSES), count))),
        "note": notes.take(pa.array(rng.integers(0, len(notes), count))),
    }
    for name, column in payload.items():
        found = found.append_column(name, column)
    return found


def _notes(rng: Any) -> pa.Array:
    words = ["".join(rng.choice(list("abcdefghijklmnoprstuvz"), 7)) for _ in range(WORDS)]
    chosen = rng.integers(0, WORDS, (NOTES, 4))
    return pa.array([f"{' '.join(words[one] for one in row)} {row.sum()}" for row in chosen])
