"""Tune how much memory beyond their own the heavy lane's workers should get. Pure.

A bucket tells in steps: it knows what became of its orders, and not how workers were set up. Who
runs them makes bytes of it (`with_steps`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import Value, replace
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.records.orders import SizeWorkers

TOPIC = "worker-directives"
IN_A_ROW = 3  # one may be chance; of one partition they may be, for it is to be served, too
STEP_BYTES, STEP_SHARE = 2 << 30, 0.2  # a step up, whichever is more
MAX_STEPS = 4  # 8 GB, or twice what it was: who needs more needs another machine, and a person
# A step down that was wrong costs IN_A_ROW tasks and a restart: at most a seventh of the work.
STEP_DOWN_AFTER = 20
QUIET_MS = DAY_MS  # for partitions that succeed leave the lane, and it may have no orders then
MAX_ROLLBACKS = 5  # 640 tasks, or a month
ROLLBACK_MS = 30 * DAY_MS  # a shortage later than that is no rollback
REPEAT_MS, VALID_MS = (DAY_MS, 3 * DAY_MS)  # a wish is repeated daily; one of a lost state expires


class MemoryKind(StrEnum):
    """Memory that ended."""

    HEAP = "heap"  # of the worker's JVM
    OVERHEAD = "overhead"  # all other: Python, Arrow, what the kernel or a container has to give


class Steps(Value):
    """Steps beyond what a worker was set up with."""

    heap: int = 0
    overhead: int = 0

    def raise_step(self, memory: MemoryKind) -> Steps:
        """Return the steps with one more for that memory, up to its limit."""
        if memory is MemoryKind.HEAP:
            return replace(self, heap=min(self.heap + 1, MAX_STEPS))
        return replace(self, overhead=min(self.overhead + 1, MAX_STEPS))

    def lower_step(self) -> Steps:
        """Return the steps with one less for both memories: which of them is spare shows only when
        it is missing."""
        return Steps(max(self.heap - 1, 0), max(self.overhead - 1, 0))

    def maximum(self, other: Steps) -> Steps:
        """Return enough for both."""
        return Steps(max(self.heap, other.heap), max(self.overhead, other.overhead))


class MemoryTuning(Value):
    """Tuning of one bucket and group: what its heavy orders have shown, and what it requests.

    Whoever takes a step down and has to take it back (a rollback) waits twice as long for the
    next."""

    steps: Steps = Steps()
    reported: Steps = Steps()
    reported_ms: int = 0
    oom_streak: tuple[str, ...] = ()  # of which memory, of the tasks in a row that ran out of it
    success_streak: int = 0  # tasks in a row that did not, while there is something to give back
    moved_ms: int = 0  # the last step; what was ordered before says nothing of the size after
    last_oom_ms: int = 0  # when a task last ran out of memory
    lowered: bool = False  # the last step was one down
    rollbacks: int = 0
    last: str = ""  # task and attempt that counted last: reported again, it does not count again

    def after_oom(
        self, memory: str | None, task: str, ordered_ms: int, now_ms: int
    ) -> MemoryTuning:
        """Return the tuning after a heavy task ran out of memory. An unreported kind of memory was
        not the heap."""
        if self._passes_over(task, ordered_ms):
            return self
        ended = MemoryKind.HEAP if memory == MemoryKind.HEAP else MemoryKind.OVERHEAD
        oom_streak = (ended.value, *self.oom_streak)
        after = replace(
            self, oom_streak=oom_streak, success_streak=0, last_oom_ms=now_ms, last=task
        )
        return after if len(oom_streak) < IN_A_ROW else after._raise_steps(now_ms)

    def after_success(
        self, task: str, ordered_ms: int, now_ms: int, at_once: bool = False
    ) -> MemoryTuning:
        """Return the tuning after a heavy task succeeded. `at_once`: all steps are given back
        together, not one after the other."""
        idle = self.steps == Steps() and not self.oom_streak
        if idle or self._passes_over(task, ordered_ms):
            return self
        success_streak = self.success_streak + 1 if self.steps != Steps() else 0
        after = replace(self, oom_streak=(), success_streak=success_streak, last=task)
        return (
            after
            if success_streak < STEP_DOWN_AFTER << self.rollbacks
            else after._lower_steps(now_ms, at_once)
        )

    def after_time(self, now_ms: int, at_once: bool = False) -> MemoryTuning:
        """Return the tuning one step lower, or without steps, if no task has run out of memory for
        QUIET_MS, also without any task."""
        quiet_ms = now_ms - max(self.moved_ms, self.last_oom_ms)
        if self.steps == Steps() or quiet_ms < QUIET_MS << self.rollbacks:
            return self
        return self._lower_steps(now_ms, at_once)

    def _passes_over(self, task: str, ordered_ms: int) -> bool:
        return ordered_ms < self.moved_ms or task == self.last

    def _raise_steps(self, now_ms: int) -> MemoryTuning:
        [(memory, _)] = Counter(self.oom_streak).most_common(
            1
        )  # of as many, the one that came last
        steps = self.steps.raise_step(MemoryKind(memory))
        if steps == self.steps:
            return replace(self, oom_streak=())
        is_late = now_ms - self.moved_ms >= ROLLBACK_MS
        rollbacks = 0 if is_late else min(self.rollbacks + self.lowered, MAX_ROLLBACKS)
        moved = replace(self, steps=steps, oom_streak=(), moved_ms=now_ms)
        return replace(moved, lowered=False, rollbacks=rollbacks)

    def _lower_steps(self, now_ms: int, at_once: bool) -> MemoryTuning:
        steps = Steps() if at_once else self.steps.lower_step()
        return replace(
            self, steps=steps, oom_streak=(), success_streak=0, moved_ms=now_ms, lowered=True
        )

    def is_unreported(self, now_ms: int) -> bool:
        """Return True if the request is another than was reported last, or was reported too long
        ago."""
        return self.steps != self.reported or (
            self.steps != Steps() and now_ms - self.reported_ms >= REPEAT_MS
        )

    def as_reported(self, now_ms: int) -> MemoryTuning:
        """Note that the request was reported."""
        return replace(self, reported=self.steps, reported_ms=now_ms)

    def to_directive(self, group: str, bucket: int, now_ms: int) -> SizeWorkers:
        """Return the request, with what led to it."""
        reason = (
            "repeated"
            if self.steps == self.reported
            else "recovered"
            if self.lowered
            else "out_of_memory"
        )
        numbers: dict[str, float] = {
            "heap_steps_before": self.reported.heap,
            "overhead_steps_before": self.reported.overhead,
            "successes_for_a_step_down": STEP_DOWN_AFTER << self.rollbacks,
            "rollbacks": self.rollbacks,
        }
        heap, overhead = self.steps.heap, self.steps.overhead
        return SizeWorkers(Lane.HEAVY, bucket, heap, overhead, reason, numbers, now_ms, group)


def requested_steps(directives: Iterable[SizeWorkers], group: str, lane: str, now_ms: int) -> Steps:
    """Return the steps of memory for a group's lane: the highest of those that a bucket has
    requested within VALID_MS, at most MAX_STEPS."""
    steps = Steps()
    for directive in directives:
        concerned = (directive.group, directive.lane) == (group, lane)
        if concerned and now_ms - directive.at_ms < VALID_MS:
            steps = steps.maximum(Steps(directive.heap_steps, directive.overhead_steps))
    return Steps(min(steps.heap, MAX_STEPS), min(steps.overhead, MAX_STEPS))


def with_steps(base_bytes: int, steps: int) -> int:
    """Return a memory size in bytes after that many steps up."""
    for _ in range(steps):
        base_bytes += max(STEP_BYTES, int(base_bytes * STEP_SHARE))
    return base_bytes
