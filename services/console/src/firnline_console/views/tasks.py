"""A task from order to outcome: ordered -> committed | conflicted | skipped | failed. Orders and
outcomes come from different topics, so either may arrive first; a task is the union of its
records."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from firnline_domain.base.values import Value, field, replace
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted, RewriteSkipped
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.results import TableResult, TaskFailed, TaskRunning

from firnline_console.text.amounts import finite_numbers

OUTCOMES_KEPT = 50  # of one task; a partition that keeps losing is parked long before
REWRITE = "rewrite"  # the kind of all tasks but those on a whole table


class TaskStatus(StrEnum):
    """The status of a task."""

    ORDERED = "ordered"
    COMMITTED = "committed"
    CONFLICTED = "conflicted"
    SKIPPED = "skipped"
    FAILED = "failed"


class Order(Value):
    """The reason and time of a task's order; of several attempts the newest."""

    attempt: int
    ordered_at_ms: int
    deadline_ms: int
    action: str
    reason: str
    trigger_snapshot_id: int
    numbers: dict[str, float]
    group: str = ""  # whose workers take it


class AttemptOutcome(Value):
    """The outcome of one attempt."""

    at_ms: int
    status: TaskStatus
    reason: str = ""
    detail: str = ""
    attempt: int | None = None  # where the record says it
    redelivered: bool = False
    mode: str = ""
    snapshot_ids: tuple[int, ...] = ()  # that it made
    numbers: dict[str, float] = field(default_factory=dict)


class TaskHeartbeat(Value):
    """A worker's newest heartbeat for an attempt that takes longer than a minute."""

    attempt: int
    at_ms: int
    started_at_ms: int
    worker: str
    finished: bool = False  # the result is written and waits for the committer


class TaskView(Value):
    """One task; `outcomes` are in order of time."""

    task_id: str
    kind: str  # rewrite | the action of an order on a whole table
    table: TableName
    ref: str
    scope: Scope | None
    order: Order | None = None
    outcomes: tuple[AttemptOutcome, ...] = ()
    run: TaskHeartbeat | None = None

    @property
    def last_outcome(self) -> AttemptOutcome | None:
        """Return the outcome that counts: the first commit, else the newest."""
        commits = [one for one in self.outcomes if one.status is TaskStatus.COMMITTED]
        made = [one for one in commits if not one.redelivered]
        if commits:
            return (made or commits)[0]
        return self.outcomes[-1] if self.outcomes else None

    @property
    def status(self) -> TaskStatus:
        """Return the status. A newer order opens a task again, unless it is committed already."""
        last = self.last_outcome
        if last is None or (
            last.status is not TaskStatus.COMMITTED and self._is_ordered_again(last)
        ):
            return TaskStatus.ORDERED
        return last.status

    def _is_ordered_again(self, last: AttemptOutcome) -> bool:
        """Return True if the known order is newer than this attempt's outcome."""
        if self.order is None:
            return False
        if last.attempt is not None:
            return self.order.attempt > last.attempt
        return self.order.ordered_at_ms > last.at_ms

    @property
    def is_begun(self) -> bool:
        """True if a worker has been at the newest order for a minute."""
        run, order = self.run, self.order
        return run is not None and order is not None and run.attempt >= order.attempt

    @property
    def changed_at_ms(self) -> int:
        """Return the time of the newest order or outcome."""
        times = [one.at_ms for one in self.outcomes]
        return max([*times, self.order.ordered_at_ms if self.order else 0])


TaskEnd = RewriteCommitted | RewriteConflicted | RewriteSkipped | TaskFailed | TableResult
TaskFact = RewriteFiles | TableOrder | TaskRunning | TaskEnd


def fold_task(old: TaskView | None, fact: TaskFact, group: str = "") -> TaskView:
    """Fold in an order of a group, a heartbeat, or an outcome."""
    view = old or _new_view(fact)
    if isinstance(fact, TaskRunning):
        return _fold_heartbeat(view, fact)
    if isinstance(fact, RewriteFiles | TableOrder):
        return _fold_order(view, fact, group)
    return _fold_outcome(view, outcome_of(fact), getattr(fact, "scope", None))


def _new_view(fact: TaskFact) -> TaskView:
    ref = getattr(fact, "ref", MAIN)
    return TaskView(fact.task_id, _task_kind(fact), fact.table, ref, getattr(fact, "scope", None))


def _task_kind(fact: TaskFact) -> str:
    if isinstance(fact, TableOrder | TableResult):
        return fact.action
    return fact.kind if isinstance(fact, TaskFailed) else REWRITE


def _fold_order(view: TaskView, fact: RewriteFiles | TableOrder, group: str) -> TaskView:
    order = replace(order_of(fact), group=group)
    if view.order and _attempt_key(view.order) >= _attempt_key(order):
        return view
    return replace(view, order=order, scope=getattr(fact, "scope", None), table=fact.table)


def _fold_heartbeat(view: TaskView, fact: TaskRunning) -> TaskView:
    run = TaskHeartbeat(fact.attempt, fact.at_ms, fact.started_at_ms, fact.worker, fact.finished)
    if view.run and (view.run.attempt, view.run.at_ms) >= (run.attempt, run.at_ms):
        return view
    return replace(view, run=run, scope=view.scope or fact.scope)


def _attempt_key(order: Order) -> tuple[int, int]:
    return order.attempt, order.ordered_at_ms


def order_of(fact: RewriteFiles | TableOrder) -> Order:
    """Return the order's part of a task."""
    numbers = fact.figures if isinstance(fact, TableOrder) else fact.numbers
    return Order(
        attempt=fact.attempt,
        ordered_at_ms=fact.ordered_at_ms,
        deadline_ms=fact.deadline_ms,
        action=fact.action,
        reason=fact.reason,
        trigger_snapshot_id=fact.trigger_snapshot_id,
        numbers=finite_numbers(numbers),
    )


def _fold_outcome(view: TaskView, outcome: AttemptOutcome, scope: Scope | None) -> TaskView:
    if outcome in view.outcomes:
        return view
    outcomes = sorted((*view.outcomes, outcome), key=lambda one: (one.at_ms, one.status))
    return replace(view, outcomes=tuple(outcomes[-OUTCOMES_KEPT:]), scope=view.scope or scope)


COMMIT_NUMBERS = (
    "files_removed",
    "files_added",
    "equality_deletes_removed",
    "position_deletes_removed",
    "bytes_before",
    "bytes_after",
    "rows_in",
    "rows_masked",
    "rows_out",
)


STATES = {"snapshots_remaining"}  # of a table afterwards: no work to be summed up


def outcome_of(fact: TaskEnd) -> AttemptOutcome:
    """Return the outcome's part of a task."""
    if isinstance(fact, RewriteCommitted):
        numbers = {name: getattr(fact, name) for name in COMMIT_NUMBERS}
        return AttemptOutcome(
            fact.committed_at_ms,
            TaskStatus.COMMITTED,
            reason=fact.reason or "",
            redelivered=fact.redelivered,
            mode=fact.mode,
            snapshot_ids=fact.snapshot_ids,
            numbers=numbers,
        )
    if isinstance(fact, RewriteConflicted):
        return AttemptOutcome(
            fact.conflicted_at_ms, TaskStatus.CONFLICTED, fact.reason.value, fact.detail
        )
    if isinstance(fact, RewriteSkipped):
        return AttemptOutcome(fact.at_ms, TaskStatus.SKIPPED, fact.reason)
    if isinstance(fact, TaskFailed):
        at, reason = fact.failed_at_ms, fact.reason
        return AttemptOutcome(at, TaskStatus.FAILED, reason, fact.message, attempt=fact.attempt)
    status = TaskStatus.SKIPPED if fact.refusal else TaskStatus.COMMITTED
    numbers = finite_numbers(fact.figures)
    return AttemptOutcome(fact.finished_at_ms, status, fact.refusal, numbers=numbers)


def totals_of(view: TaskView) -> Counter[str]:
    """Return what a task adds to the deployment's totals; every setback counts, a commit counts
    once."""
    ends = Counter(one.status for one in view.outcomes)
    totals = Counter(
        tasks_conflicted=ends[TaskStatus.CONFLICTED],
        tasks_failed=ends[TaskStatus.FAILED],
        tasks_skipped=ends[TaskStatus.SKIPPED],
    )
    last = view.last_outcome
    if last is not None and last.status is TaskStatus.COMMITTED:
        totals["tasks_committed" if view.kind == REWRITE else f"{view.kind}_committed"] += 1
        done = {name: number for name, number in last.numbers.items() if name not in STATES}
        totals.update({f"work_{name}": round(number) for name, number in done.items()})
    return totals
