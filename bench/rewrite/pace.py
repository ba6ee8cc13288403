"""What samples of a table below a stream of commits, and the records of its rewrites, come to.

All times are milliseconds of one machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Rewritten:
    """A worker's result: `size` bytes wait for their commit."""

    task_id: str
    attempt: int
    size: int
    finished_ms: int


@dataclass(frozen=True)
class Ended:
    """What became of a task. `lost`: bytes of it that its commit left out."""

    task_id: str
    at_ms: int
    committed: bool
    lost: int = 0


@dataclass(frozen=True)
class Share:
    """Bytes of outputs. `young` came too late to be judged and are in neither of the others."""

    rewritten: int
    committed: int
    young: int

    @property
    def missed(self) -> float:
        """Of what was rewritten, the part that no commit took; all where nothing was rewritten."""
        return 1 - self.committed / self.rewritten if self.rewritten else 1.0


def longest_gap_s(begin_ms: int, commits_ms: Iterable[int], end_ms: int) -> float:
    """Without a commit: from the begin to the first, between two, from the last to the end."""
    within = sorted(at for at in commits_ms if begin_ms <= at <= end_ms)
    times = [begin_ms, *within, end_ms]
    return max(later - earlier for earlier, later in pairwise(times)) / 1000


def share(
    results: Iterable[Rewritten], ends: Sequence[Ended], end_ms: int, patience_ms: int
) -> Share:
    """Up to `end_ms`. What waits still is held to be lost, unless it came in the last
    `patience_ms`."""
    rewritten = committed = young = 0
    for result, end in _paired(results, ends, end_ms):
        if end is None and result.finished_ms > end_ms - patience_ms:
            young += result.size
            continue
        rewritten += result.size
        if end is not None and end.committed:
            committed += result.size - end.lost
    return Share(rewritten, committed, young)


def waits_s(results: Iterable[Rewritten], ends: Sequence[Ended], end_ms: int) -> list[float]:
    """Of each result, from its end of work to its commit; of those that wait still, so far. Refused
    ones do not wait."""
    return [
        ((end.at_ms if end else end_ms) - result.finished_ms) / 1000
        for result, end in _paired(results, ends, end_ms)
        if end is None or end.committed
    ]


def _paired(
    results: Iterable[Rewritten], ends: Sequence[Ended], end_ms: int
) -> list[tuple[Rewritten, Ended | None]]:
    """Each result once, with the first end of its task that came after it and before its next
    attempt's result: ends do not say which attempt they are of."""
    once = {(one.task_id, one.attempt): one for one in results if one.finished_ms <= end_ms}
    found: list[tuple[Rewritten, Ended | None]] = []
    for result in once.values():
        later = [
            one.finished_ms
            for one in once.values()
            if one.task_id == result.task_id and one.finished_ms > result.finished_ms
        ]
        until = min(later, default=end_ms + 1)
        of_it = [
            end
            for end in ends
            if end.task_id == result.task_id and result.finished_ms <= end.at_ms < until
        ]
        found.append((result, min(of_it, key=lambda end: end.at_ms, default=None)))
    return found
