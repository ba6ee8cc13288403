"""Limit how many commits of its own Firnline makes to a table: a ceiling per hour that never stops
a table for long.

A bucket that leaks: half of the hour's commits may come at once, the others at an even pace. A
plain count of the last hour would let a busy table spend everything in minutes and then rot for the
rest of the hour. The fuller the bucket, the longer orders wait for others to share a commit with: a
table of 500 partitions would else spend it on a few of them at a time."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import Value

MAX_COUNTED = 64  # snapshots; several results may tell of one, and results come twice
UNBATCHED = 4  # up to so many commits in the bucket no order waits for others


class CommitRate(Value):
    """`level`: commits in the bucket at `as_of_ms`; `counted`: ids of the newest snapshots in it.

    With N an hour, B = N // 2 fit in, and N - B + 1 an hour leak out: so no more than N come in
    any hour, the last one of which is not yet over when the next commit comes.
    """

    level: float = 0.0
    as_of_ms: int = 0
    counted: tuple[int, ...] = ()
    ordered_ms: int = 0  # the last moment of orders

    def with_commits(self, snapshot_ids: tuple[int, ...], most: int, at_ms: int) -> CommitRate:
        """Count commits that are not counted yet. `most`: an hour; 0 = any number."""
        new = [snapshot_id for snapshot_id in snapshot_ids if snapshot_id not in self.counted]
        if not new:
            return self
        counted = (*self.counted, *new)[-MAX_COUNTED:]
        level, as_of_ms = self._level_at(most, at_ms) + len(new), max(at_ms, self.as_of_ms)
        return CommitRate(level, as_of_ms, counted, self.ordered_ms)

    def free_at_ms(self, out: int, most: int, now_ms: int) -> int | None:
        """Return when one more may be ordered while `out` are on their way: now_ms if it may be
        now; None if that depends on those on their way."""
        if most == 0 or self._level_at(most, now_ms) + out + 1 <= burst_size(most):
            return now_ms
        if out + 1 > burst_size(most):
            return None
        too_many = self._level_at(most, now_ms) + out + 1 - burst_size(most)
        return now_ms + int(too_many / _leak_rate(most)) + 1

    def batches_until_ms(self, out: int, most: int, now_ms: int) -> int:
        """Return the time until which tasks wait for a common commit, counted from the last ones:
        no wait while the bucket is nearly empty, and the time in which one commit leaks out of a
        full one."""
        bucket = burst_size(most)
        if most == 0 or bucket <= UNBATCHED:
            return now_ms
        full = (self._level_at(most, now_ms) + out - UNBATCHED) / (bucket - UNBATCHED)
        share = min(max(full, 0.0), 1.0)
        return max(now_ms, self.ordered_ms + int(share * share / _leak_rate(most)))

    def _level_at(self, most: int, at_ms: int) -> float:
        if most == 0:
            return 0.0
        return max(self.level - max(at_ms - self.as_of_ms, 0) * _leak_rate(most), 0.0)


def burst_size(most: int) -> int:
    """Return how many commits may come without a pause between them."""
    return max(most // 2, 1)


def _leak_rate(most: int) -> float:
    """Return the commits per millisecond that the rate allows, beyond the burst."""
    return (most - burst_size(most) + 1) / HOUR_MS
