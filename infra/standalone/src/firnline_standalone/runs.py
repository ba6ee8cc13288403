"""Orders of one table, from first to last: slices follow each other, lost races are run again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from firnline_domain.base.values import replace
from firnline_domain.identity import task_id
from firnline_domain.policy.operator_requests import Order
from firnline_domain.policy.partition.deadlines import QUEUE_MS
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted, ends_order
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import RowsCompared, TaskFailed

from firnline_standalone.engine import Engine, RunStopped

AT_ONCE = 16  # rewrites that share a commit
LOOK_S = 0.5  # between two looks at what runs
ATTEMPTS = 3  # of one order: each plans anew, at the head of that moment
# failures that a next try may mend
AGAIN = frozenset({"trigger_gone", "unreachable", "worker_error", "lost_race", "java_failed"})


class RunReport(Protocol):
    """A listener that receives what happens in a run, at once."""

    def on_start(self, orders: Sequence[Order], left: int) -> None:
        """Report that these orders run now; `left` is how many follow, as far as is known."""

    def on_progress(self, done: int, total: int) -> None:
        """Report how many groups of files are rewritten, of all groups of the running tasks."""

    def on_result(self, result: Any) -> None:
        """Report a worker's result, which is not committed yet."""

    def on_end(self, order: Order, event: Any, again: bool) -> None:
        """Report the event that ended an order. `again`: the order is tried once more."""

    def on_comparison(self, outcome: RowsCompared) -> None:
        """Report the outcome of comparing a commit's rows."""


@dataclass
class TaskBatches:
    """Orders that run one after the other; as many at once as may share a commit."""

    engine: Engine
    report: RunReport
    now_ms: Callable[[], int]
    _told_s: float = 0.0

    def execute(self, orders: Sequence[Order]) -> bool:
        """Run the orders. Return True if every order ended as it should. Raises RetryLater,
        Stopped."""
        waiting, fine = deque(orders), True
        while waiting:
            chunk = list(islice(waiting, AT_ONCE))
            for _ in chunk:
                waiting.popleft()
            self.report.on_start(chunk, len(waiting))
            batch = [self._with_batch_size(one, len(chunk)) for one in chunk]
            by_task = {order.task_id: order for order in batch}
            for event in self.engine.carry_out(batch, self.report.on_result, self._report_progress):
                order = by_task.get(getattr(event, "task_id", ""))
                if order is not None and ends_order(event, order):
                    following = self._next_order(order, event)
                    again = following is not None and isinstance(event, _FAILURES)
                    self.report.on_end(order, event, again)
                    fine &= again or is_fine(event)
                    waiting.extendleft([following] if following else [])
                    del by_task[order.task_id]
            for compared in self.engine.read_back():
                self.report.on_comparison(compared)
                fine &= compared.outcome != "differ"
            if self.engine.is_stopping and (by_task or waiting):
                raise RunStopped
            fine &= not by_task
        return fine

    def _report_progress(self) -> None:
        if (now_s := time.monotonic()) >= self._told_s + LOOK_S:
            self._told_s = now_s
            self.report.on_progress(*self.engine.progress())

    @staticmethod
    def _with_batch_size(order: Order, several: int) -> Order:
        return replace(order, batch_size=several) if isinstance(order, RewriteFiles) else order

    def _next_order(self, order: Order, event: Any) -> Order | None:
        """Return the order of the next slice, or of another try; None if none follows."""
        if not isinstance(order, RewriteFiles):
            return None
        if isinstance(event, RewriteCommitted):
            done = event.slice
            if done is None or done.is_last or not event.snapshot_ids:
                return None
            return self._renew_order(replace(order, after=done, attempt=1), event.snapshot_ids[-1])
        may_help = isinstance(event, RewriteConflicted) or (
            isinstance(event, TaskFailed) and event.reason in AGAIN
        )
        if not may_help or order.attempt >= ATTEMPTS:
            return None
        return replace(order, attempt=order.attempt + 1, deadline_ms=self.now_ms() + QUEUE_MS)

    def _renew_order(self, order: RewriteFiles, head: int) -> RewriteFiles:
        text = f"{order.scope.spec_id}:{order.scope.partition}"
        now_ms = self.now_ms()
        return replace(
            order,
            task_id=task_id(
                order.table.key, order.ref, text, order.action, head, order.min_dead_ratio
            ),
            trigger_snapshot_id=head,
            ordered_at_ms=now_ms,
            deadline_ms=now_ms + QUEUE_MS,
        )


_FAILURES = RewriteConflicted | TaskFailed


def is_fine(event: Any) -> bool:
    """Return True unless the event is a failure or has a reason for a refusal."""
    if isinstance(event, _FAILURES):
        return False
    return not getattr(event, "refused_reason", None)
