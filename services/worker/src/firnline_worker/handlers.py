"""Handles orders: each one's result is published on the topic `task-results`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from firnline_adapters import clock
from firnline_adapters.kafka.dead_letters import dead_letter_of, send_to_dead_letters
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import following, trace_of
from firnline_adapters.records.record_sizes import TOO_LARGE
from firnline_domain.base.values import replace
from firnline_domain.errors import AccessDenied, PoisonousRecord, RetryLater, TaskRefused
from firnline_domain.policy.cost.dollars import expected_s
from firnline_domain.policy.fleet.lanes import Lane, lane_topic
from firnline_domain.ports import Delivery, Publisher
from firnline_domain.records.orders import CompareRows, RewriteFiles, TableOrder, TaskOrder
from firnline_domain.records.pauses import Pause
from firnline_domain.records.results import (
    COMPARISON,
    OUT_OF_MEMORY,
    REWRITE,
    RewriteFinished,
    RowsCompared,
    SnapshotsExpired,
    TableResult,
    TaskFailed,
)
from firnline_iceberg.java import errors as java_errors
from py4j.protocol import Py4JJavaError

from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import MAX_STARTS, Busy, TaskLeases, lease_of
from firnline_worker.host.out_of_memory import exhausted_memory, is_out_of_memory
from firnline_worker.rewrite.compare_rows import Comparer
from firnline_worker.rewrite.iceberg_fallback import as_java_error
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.table_actions.registry import TableActions

RESULTS = "task-results"
REWRITES, HEAVY_REWRITES = lane_topic(Lane.ORDINARY), lane_topic(Lane.HEAVY)  # the default group's
TABLE_TASKS, COMPARISONS = "table-tasks", "compare-tasks"  # nobody else's
JAVA_CHARS = 4_000  # of Java's trace, in the log
Result = RewriteFinished | TableResult | RowsCompared | TaskFailed


@dataclass(frozen=True)
class WorkerHandlers:
    """Handlers that carry one order to its published result; called from many threads at once."""

    rewriter: Rewriter
    table_actions: TableActions
    comparer: Comparer
    leases: TaskLeases
    publisher: Publisher
    worker: str
    now_ms: Callable[[], int]
    log: Log
    stopping: Callable[[], bool]
    heartbeats: Heartbeats
    pause: Callable[[str], Pause | None] = lambda _: None  # of a table by its key

    def handle(self, order: TaskOrder) -> None:
        """Carry out an order. Return when the result is on its topic. Raises Busy to be called
        again later, and the exception that interrupted a task that was given up on SIGTERM."""
        with following(trace_of(order)):
            if self.leases.is_finished(order):
                self.log.info("task_known", task=order.task_id, attempt=order.attempt)
                return
            with self.leases.hold(lease_of(order)):
                self.log.info("task_started", task=order.task_id, table=order.table)
                waited_ms = max(self.now_ms() - order.ordered_at_ms, 0)
                metrics.observe("order_to_start_seconds", waited_ms / 1000)
                with self._heartbeats_of(order):
                    spent = self.leases.count_start(order) > MAX_STARTS
                    try:
                        result = self._given_up(order) if spent else self.run(order)
                    except Busy:  # no start: a table may be handed over for minutes
                        self.leases.take_back_start(order)
                        raise
                    self._publish_or_fail(order, result)
                self.leases.mark_finished(order)

    def _heartbeats_of(self, order: TaskOrder) -> AbstractContextManager[None]:
        if isinstance(order, RewriteFiles):
            return self.heartbeats.send_during(order)
        return nullcontext()

    def _publish_or_fail(self, order: TaskOrder, result: Result) -> None:
        try:
            self._publish(result)
        except RetryLater:
            raise
        except Exception as error:  # too big for the broker, or not what its schema says
            self.log.error("result_not_sent", error, task=order.task_id)
            self._publish(self._build_failure(order, "result_not_sent", error, False))

    def dead_letter(self, delivery: Delivery, error: Exception) -> None:
        """Send a record that is no order, or an order that was interrupted too often, to the dead
        letters. The planner receives the failure, or it would wait for the order for hours."""
        reason = error.reason if isinstance(error, PoisonousRecord) else "unusable"
        letter = dead_letter_of(delivery, reason, error, "worker", self.now_ms())
        send_to_dead_letters(self.publisher, letter)
        if isinstance(delivery.record, RewriteFiles | TableOrder):
            try:
                failed = self._build_failure(delivery.record, "worker_error", error, True)
                self.publisher.publish(RESULTS, failed.table.key, failed)
            except Exception as unsent:  # the letter says it, too
                self.log.error("result_not_sent", unsent, task=delivery.record.task_id)

    def run(self, order: TaskOrder) -> Result:
        """Return the order's result; every failure becomes a `TaskFailed` with its reason."""
        try:
            if isinstance(order, CompareRows):
                return self._compare(order)
            self._refuse_if_paused(order)
            if isinstance(order, TableOrder):
                return self._on_table(order)
            if self.now_ms() > order.deadline_ms:
                text = "the planner has taken the partition back"
                raise TaskRefused("deadline_passed", text, retryable=True)
            note_start = partial(self.leases.store_start, lease_of(order), order.task_id)
            return self.rewriter.rewrite(order, note_start)
        except Busy:
            raise
        except Exception as error:
            is_told = isinstance(error, TaskRefused | RetryLater)
            if self.stopping() and not is_told:
                raise
            return self._classify_failure(order, error)

    def _classify_failure(self, order: TaskOrder, error: Exception) -> TaskFailed:
        """Return the reason of a failure: `worker_error` if it is not a table's, a catalog's or
        Java's."""
        if not isinstance(error, TaskRefused) and is_out_of_memory(error):
            self.log.error("task_failed", error, task=order.task_id)
            failed = self._build_failure(order, OUT_OF_MEMORY, error, True)
            return replace(failed, memory=exhausted_memory(error))
        error = as_java_error(error)
        found: Exception | None = error
        if isinstance(error, Py4JJavaError):
            found = java_errors.failure_of(error)
            self.log.info("java_failed", task=order.task_id, java_trace=str(error)[:JAVA_CHARS])
        match found:
            case TaskRefused():
                return self._build_failure(order, found.reason, found, found.retryable)
            case RetryLater():
                metrics.count("dependency_errors", dependency=found.dependency)
                action = "refused" if isinstance(found, AccessDenied) else "retry_later"
                self.log.warning(action, task=order.task_id, table=order.table, why=found)
                return self._build_failure(order, "unreachable", found, True)
        self.log.error("task_failed", error, task=order.task_id)
        return self._build_failure(order, "worker_error", error, True)

    def _on_table(self, order: TableOrder) -> TableResult:
        if (action := self.table_actions.get(order.action)) is None:
            raise TaskRefused("unknown_action", f"{order.action}; upgrade this worker")
        began_ms = self.now_ms()
        result = action(order)
        worked_ms = max(self.now_ms() - began_ms, 0)
        return replace(result, worked_ms=worked_ms, expected_s=expected_s(order.numbers))

    def _given_up(self, order: TaskOrder) -> Result:
        """Return the failure of an attempt whose starts each ended its worker or Spark's JVM;
        another start would, too."""
        text = f"begun {MAX_STARTS} times, and no worker lived to tell of it"
        if isinstance(order, CompareRows):
            return self.comparer.skip_comparison(order, "not_read", text)
        return self._build_failure(order, "worker_error", RuntimeError(text), True)

    def _refuse_if_paused(self, order: TaskOrder) -> None:
        """Raise TaskRefused `paused` if an operator paused the table while the order waited."""
        if pause := self.pause(order.table.key):
            raise TaskRefused("paused", str(pause), retryable=True)

    def _compare(self, order: CompareRows) -> RowsCompared:
        if pause := self.pause(order.table.key):
            return self.comparer.skip_comparison(order, "paused", f"by {pause.by}")
        try:
            return self.comparer.compare(order)
        except Exception as error:  # out of memory, a file expired under our eyes ...
            if self.stopping():
                raise
            text = f"{type(error).__name__}: {error}"[:1000]
            return self.comparer.skip_comparison(order, "not_read", text)

    def _build_failure(
        self, order: TaskOrder, reason: str, error: BaseException, retryable: bool
    ) -> TaskFailed:
        failed = failure_of(order, self.worker, reason, error, retryable)
        return replace(failed, failed_at_ms=self.now_ms())

    def _publish(self, result: Result) -> None:
        """Retry until the broker has it: an outage never loses a result. Two copies do no harm."""
        while True:
            sent = self.publisher.publish(RESULTS, result.table.key, result)
            try:
                sent = self.publisher.flush() and sent
                break
            except RetryLater as later:
                if self.stopping():
                    raise
                self.log.warning("publish_again", why=later)
        if not sent:
            raise PoisonousRecord(TOO_LARGE, f"{type(result).__name__} of task {result.task_id}")
        self._record_result(result)

    def _record_result(self, result: Result) -> None:
        if isinstance(result, RowsCompared):
            self._account_comparison(result)
            return
        why = ""
        if isinstance(result, TaskFailed):
            outcome, why = result.reason, result.message
        elif isinstance(result, TableResult):
            outcome = "refused" if result.refused_reason else result.action
            if isinstance(result, SnapshotsExpired) and not result.refusal:
                metrics.count("expired", result.expired, what="snapshots")
                metrics.count("expired", result.deleted_files, what="files")
        else:
            outcome = "handed_over" if result.handover_reason else "rewritten"
            metrics.count("rows_in", sum(g.rows_in for g in result.groups))
            metrics.count("rows_masked", sum(g.rows_masked for g in result.groups))
            metrics.observe("task_seconds", (result.finished_at_ms - result.started_at_ms) / 1000)
        metrics.count("tasks_finished", outcome=outcome)
        log = self.log.warning if why else self.log.info
        log("task_finished", table=result.table, task=result.task_id, outcome=outcome, why=why)

    def _account_comparison(self, result: RowsCompared) -> None:
        metrics.count("rows_compared", outcome=result.outcome)
        log = self.log.error if result.outcome == "differ" else self.log.info
        remedy = f"firnline undo {result.task_id}" if result.outcome == "differ" else None
        log(
            "rows_compared",
            table=result.table,
            task=result.task_id,
            outcome=result.outcome,
            why=result.reason,
            detail=result.detail,
            remedy=remedy,
        )


def failure_of(
    order: TaskOrder | RewriteFinished,
    worker: str,
    reason: str,
    error: BaseException,
    retryable: bool = True,
) -> TaskFailed:
    """Return the failure of an order, or of one whose result could not be used."""
    return TaskFailed(
        task_id=order.task_id,
        table=order.table,
        ref=order.ref,
        scope=order.scope,
        kind=_task_kind(order),
        attempt=order.attempt,
        worker=worker,
        reason=reason,
        message=f"{type(error).__name__}: {error}"[:2000],
        retryable=retryable,
        failed_at_ms=clock.now_ms(),
    )


def _task_kind(order: TaskOrder | RewriteFinished) -> str:
    """Return the kind of a task for `TaskFailed`."""
    if isinstance(order, TableOrder):
        return order.action
    return COMPARISON if isinstance(order, CompareRows) else REWRITE
