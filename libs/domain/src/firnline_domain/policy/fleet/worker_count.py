"""The number of workers of a pool: more at once when tasks need them, fewer after a while. Pure."""

from __future__ import annotations

from firnline_domain.base.values import Value, replace


class WorkerLimits(Value):
    """The least and the most workers of a pool, how long fewer must be enough before one leaves,
    and the time in which they should complete all open tasks."""

    minimum: int
    maximum: int
    idle_ms: int = 60_000  # a worker's start costs 10 s of CPU
    drain_s: int = 60


class WorkerCount(Value):
    """The number of workers that a pool should have. `surplus_since_ms`: since when fewer would be
    enough; None if all are needed. `most_wanted`: the highest number that was needed since."""

    workers: int
    surplus_since_ms: int | None = None
    most_wanted: int = 0


def decide_worker_count(
    before: WorkerCount, wanted: int | None, limits: WorkerLimits, now_ms: int
) -> WorkerCount:
    """Return the number of workers now. It grows at once to `wanted`. It shrinks if fewer were
    enough for `idle_ms`, to the highest number that was needed meanwhile. `wanted` None: unknown,
    and nothing changes but what the limits require."""
    needed = before.workers if wanted is None else wanted
    needed = min(max(needed, limits.minimum), limits.maximum)
    if before.workers > limits.maximum or needed >= before.workers:
        return WorkerCount(needed)
    if before.surplus_since_ms is None or now_ms < before.surplus_since_ms:
        return WorkerCount(before.workers, now_ms, needed)
    most_wanted = max(before.most_wanted, needed)
    if now_ms - before.surplus_since_ms < limits.idle_ms:
        return replace(before, most_wanted=most_wanted)
    return WorkerCount(most_wanted)
