"""Expiry as an action on a table: it is announced, and its results bring the table's snapshots."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import ExpiryWork, Table
from firnline_domain.policy.cost.dollars import (
    COMMIT_PRICE,
    LIST_ROW_S,
    MANIFEST_LIST_OF,
    OBJECTS_LISTED,
    SNAPSHOT_S,
    Estimate,
    Gain,
    add_cost,
)
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.base import SHADOW_RECHECK_MS, DueCheck, TableAction
from firnline_domain.policy.table_action.snapshot_retention import (
    EXPIRE,
    ExpiryDecision,
    ExpiryReason,
    after_announcement,
    decide_expiry,
    expiry_ended,
    expiry_order,
    older_than_ms,
)
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import SnapshotsExpired, TableResult
from firnline_domain.settings.thresholds import ExpiryMode


class SnapshotExpiry(TableAction):
    """`expire`; the planner keeps an `ExpiryWork` of it."""

    name = EXPIRE
    is_promised = True

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate what was announced; else as many snapshots as are too old, if they came at an
        even pace, of unknown bytes. Files are deleted a thousand in a request."""
        counters, going = given.table.counters, given.table.work.expiry.going
        known = counters.snapshot_count or 1
        snapshots = going.snapshots or _too_old(given)
        rows = known * counters.manifests / MANIFEST_LIST_OF
        price = add_cost(
            COMMIT_PRICE,
            known * SNAPSHOT_S + rows * LIST_ROW_S,
            gets=known + counters.manifests,
            puts=-(-max(going.files, snapshots) // OBJECTS_LISTED),
        )
        return Estimate(price, Gain(freed_bytes=float(going.bytes)))

    def check_due(self, given: TableInput) -> DueCheck:
        decision = decide_expiry(given)
        return DueCheck(decision.reason, decision.older_than_ms is not None, decision.until_ms)

    def plan_order(
        self, given: TableInput, *, is_granted: bool = False
    ) -> tuple[Table, TableOrder | None]:
        decision, expiry = decide_expiry(given), given.table.work.expiry
        order = None
        if decision.older_than_ms is not None:
            order, expiry = self._order_expiry(given, decision)
        reason = expiry.refused if expiry.refused and not expiry.task_id else decision.reason
        until_ms = decision.until_ms
        if decision.reason is Reason.SHADOW:
            until_ms = given.now_ms + SHADOW_RECHECK_MS
        return _with_expiry(given.table, replace(expiry, reason=reason, due_ms=until_ms)), order

    def work_of(self, table: Table) -> ExpiryWork:
        return table.work.expiry

    def _order_expiry(
        self, given: TableInput, decision: ExpiryDecision
    ) -> tuple[TableOrder, ExpiryWork]:
        order, expiry = expiry_order(given, decision)
        return replace(order, numbers=self.estimate_numbers(given)), expiry

    def order_requested(self, given: TableInput) -> tuple[Table, TableOrder]:
        """Order an expiry that a user requests, as if its mode were `always`. The head at the start
        of a running task is kept, and the owner's settings still hold."""
        agreed = replace(given.settings, expire=ExpiryMode.ALWAYS)
        decision = ExpiryDecision(Reason.REQUESTED, older_than_ms=older_than_ms(given))
        order, expiry = self._order_expiry(replace(given, settings=agreed), decision)
        expiry = replace(expiry, reason=decision.reason, due_ms=order.deadline_ms)
        return _with_expiry(given.table, expiry), order

    def after_result(self, table: Table, result: TableResult, now_ms: int) -> tuple[Table, str]:
        """Record the result. The worker has read the table's snapshots: its numbers replace our
        bounds."""
        assert isinstance(result, SnapshotsExpired)
        refused, expiry = result.refused_reason or "", table.work.expiry
        counters, word = table.counters, ""
        if not refused:
            counters = replace(
                counters,
                snapshot_count=result.remaining,
                oldest_snapshot_ms=result.oldest_snapshot_ms,
            )
        if refused == ExpiryReason.EXTERNAL_FILES:
            counters = replace(counters, has_external_files=True)
        if expiry.task_id == result.task_id:
            expiry, word = _end_round(expiry, result, refused, now_ms)
        return _with_expiry(replace(table, counters=counters), expiry), word

    def after_failure(self, table: Table, task: str, reason: str, now_ms: int) -> tuple[Table, str]:
        if table.work.expiry.task_id != task:
            return table, ""
        return _with_expiry(
            table, expiry_ended(table.work.expiry, 0, reason, now_ms)
        ), "expiry_failed"


def _too_old(given: TableInput) -> int:
    table, now_ms = given.table, given.now_ms
    oldest_ms, known = table.counters.oldest_snapshot_ms, table.counters.snapshot_count
    if oldest_ms is None or known is None or oldest_ms >= now_ms:
        return 0
    share = (now_ms - given.settings.retention_ms - oldest_ms) / (now_ms - oldest_ms)
    return int(known * max(share, 0.0))


def _end_round(
    expiry: ExpiryWork, result: SnapshotsExpired, refused: str, now_ms: int
) -> tuple[ExpiryWork, str]:
    if result.begins_at_ms is not None and not refused:
        return after_announcement(expiry, result, now_ms), "expiry_announced"
    word = "expiry_refused" if refused else "expired"
    return expiry_ended(expiry, result.expired, refused, now_ms), word


def _with_expiry(table: Table, expiry: ExpiryWork) -> Table:
    if expiry == table.work.expiry:
        return table
    return replace(table, work=replace(table.work, expiry=expiry))
