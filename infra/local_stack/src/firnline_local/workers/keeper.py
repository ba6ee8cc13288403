"""Keeps as many workers as the open tasks require, with the memory that the planner requests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Protocol

from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.worker_count import (
    WorkerCount,
    WorkerLimits,
    decide_worker_count,
)
from firnline_domain.policy.fleet.worker_memory import Steps

LOOK_S = 1.0
ONE_WORKER = "1"
LIMITS = re.compile(r"(\d{1,4})(?:\.\.(\d{1,4}))?(?::(\d{1,6}):(\d{1,5}))?", re.ASCII)
FORM = "write a number of workers such as 2, or limits such as 0..4"


def read_limits(text: str) -> WorkerLimits:
    """Return the limits in `0..4`, or in `2` for a number that stays; `0..4:60:60` also has
    `idle_ms` and `drain_s`, in seconds. Raises ValueError."""
    found = LIMITS.fullmatch(text)
    if found is None:
        raise ValueError(f"{text}: {FORM}")
    least, most, idle_s, drain_s = (int(one) if one else None for one in found.groups())
    minimum = least or 0
    limits = WorkerLimits(minimum, minimum if most is None else most)
    if idle_s is not None and drain_s is not None:
        limits = replace(limits, idle_ms=idle_s * 1000, drain_s=drain_s)
    if not limits.minimum <= limits.maximum or not limits.maximum or not limits.drain_s:
        raise ValueError(f"{text}: {FORM}")
    return limits


class Workers(Protocol):
    """Workers of the same kind that can be started and stopped."""

    def count(self) -> int:
        """Return the number of workers that there should be, without those that end."""
        ...

    def set_count(self, count: int) -> None:
        """Start workers, or let the excess ones end after their tasks."""
        ...

    def set_memory(self, steps: Steps) -> str:
        """Give all workers that many more steps of memory than they were set up with. Return the
        new size as text; '' if they have it."""
        ...


class WorkerKeeper:
    """Decides by the console's number and the planner's directives. Without an
    answer (`wanted` raises RetryLater, `steps` returns None) the workers stay as they are. `limits`
    None: their number stays, or another program sets it."""

    def __init__(
        self,
        workers: Workers,
        limits: WorkerLimits | None,
        wanted: Callable[[], int],
        steps: Callable[[], Steps | None],
        announce: Callable[[str, str], None],
    ) -> None:
        self._workers = workers
        self._limits = limits
        self._wanted = wanted
        self._steps = steps
        self._announce = announce
        self._count = WorkerCount(0)
        self._looked = 0.0
        self._why_unknown = ""

    def run_due_actions(self) -> None:
        """Set number and memory of the workers, at most once in LOOK_S."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        if self._limits is not None:
            self._scale(self._limits, int(now * 1000))
        steps = self._steps()
        if steps is not None and (size := self._workers.set_memory(steps)):
            self._announce("sized", size)

    def _scale(self, limits: WorkerLimits, now_ms: int) -> None:
        before = replace(self._count, workers=self._workers.count())
        self._count = decide_worker_count(before, self._read_wanted(), limits, now_ms)
        if self._count.workers != before.workers:
            self._announce("scaled", f"from={before.workers} to={self._count.workers}")
            self._workers.set_count(self._count.workers)

    def _read_wanted(self) -> int | None:
        try:
            wanted, why = self._wanted(), ""
        except RetryLater as later:
            wanted, why = None, str(later)
        if why not in ("", self._why_unknown):
            self._announce("count-kept", why)
        self._why_unknown = why
        return wanted
