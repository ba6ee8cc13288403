"""Decide when a table gets another format version: by its owner's word alone
(`firnline.format-version`), and after an announcement, because no engine can take it back.

Who writes a table stands in its snapshots, which no counter has. A worker looks twice: when it is
to be announced, and before it is done."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.policy.cost.dollars import Estimate
from firnline_domain.policy.cost.table_action_cost import look_price
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, TableAction
from firnline_domain.policy.triggers.v2_deletes import UPGRADE, VECTORS
from firnline_domain.records.results import TableResult


class FormatReason(ReasonCode):
    """Reasons why a table gets another format version, or waits."""

    FORMAT_ANNOUNCED = (
        "format_announced",
        "A worker checks the table's writers, for the announcement of the upgrade "
        "(`firnline.format-version`).",
        "checking writers and v2 delete files for the announcement of the upgrade",
    )
    FORMAT_VERSION = (
        "format_version",
        "`firnline.format-version` is higher than the table's format version.",
        "upgrade from format version {format_version} to {wanted_version} "
        "(firnline.format-version)",
    )
    FORMAT_GRACE = (
        "format_grace_period",
        "The upgrade was announced and starts after `firnline.format-version.grace-ms`. It "
        "cannot be undone. `firnline.format-version=2` stops it.",
        "the upgrade was announced and cannot be undone, starts after "
        "firnline.format-version.grace-ms (firnline.format-version=2 stops it)",
    )


class FormatUpgrade(TableAction):
    """Metadata alone: what v2 delete files say is said by deletion vectors later on, a partition at
    a time (`v2_deletes`). Of a table that is v3 already it is ordered once: its files may be
    without row ids, and what was there before is told from what writers bring."""

    name = UPGRADE
    order_reasons = (FormatReason.FORMAT_ANNOUNCED, FormatReason.FORMAT_VERSION)
    wait_reasons = (FormatReason.FORMAT_GRACE,)
    interval_ms = HOUR_MS
    is_promised = True

    def check_due(self, given: TableInput) -> DueCheck:
        settings, version = given.settings, given.table.counters.format_version
        if settings.format_version < VECTORS or not version:
            return NOT_ASKED
        work, numbers, now_ms = self.work_of(given.table), self.order_numbers(given), given.now_ms
        announced, is_due = self.order_reasons
        if version >= VECTORS:
            done = work.done_ms is not None
            return NOT_ASKED if done else DueCheck(is_due, True, numbers=numbers)
        if work.announced_ms is None or work.announced_ms > now_ms:  # the clock was set back since
            return DueCheck(announced, True, numbers={**numbers, "announces": 1.0})
        begins_ms = work.announced_ms + settings.upgrade_grace_ms
        if now_ms < begins_ms:
            return DueCheck(FormatReason.FORMAT_GRACE, until_ms=begins_ms)
        numbers["announced_ms"] = work.announced_ms
        return DueCheck(is_due, True, numbers=numbers)

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate that it spares nothing by itself: conversions do, and they are rewrites."""
        return Estimate(look_price(given.table))

    def order_numbers(self, given: TableInput) -> dict[str, float]:
        settings = given.settings
        return {
            "format_version": given.table.counters.format_version,
            "wanted_version": VECTORS,
            "asked_version": settings.format_version,
            "grace_h": settings.upgrade_grace_ms / HOUR_MS,
            "writer_hours": settings.writer_hours,
        }

    def after_result(self, table: Table, result: TableResult, now_ms: int) -> tuple[Table, str]:
        """Record the result. What was announced is known from now on, and the next order waits for
        no interval beside the grace period. Once it is done all partitions may want a
        conversion."""
        before = table.work.actions.get(self.name, ActionWork())
        after, word = super().after_result(table, result, now_ms)
        if before.task_id != result.task_id or result.refused_reason:
            return after, word
        work = after.work.actions[self.name]
        if result.numbers.get("announced"):
            return self._with_work(
                after, replace(work, announced_ms=now_ms, finished_ms=None)
            ), "announced"
        after = self._with_work(after, replace(work, done_ms=now_ms))
        return replace(after, work=after.work.reconciled_by(now_ms)), word
