"""Decide when a table gets another format version: by its owner's word alone
(`firnline.format-version`), and after an announcement, because no engine can take it back.

Who writes a table stands in its snapshots, which no counter has. A worker looks twice: when it is
to be announced, and before it is done."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.policy.cost.dollars import Estimate, look_price
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.table_action.base import NOT_ASKED, DueCheck, Ended, TableAction
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
        if version < VECTORS:
            return self._check_announced(given, settings.upgrade_grace_ms)
        if self.work_of(given.table).done_ms is not None:
            return NOT_ASKED
        return DueCheck(FormatReason.FORMAT_VERSION, True, numbers=self.order_numbers(given))

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
        """Record the result. Once it is done all partitions may want a conversion."""
        after, word = super().after_result(table, result, now_ms)
        if after is table or word != "done":
            return after, word
        return replace(after, work=after.work.reconciled_by(now_ms)), word

    def after_success(self, work: ActionWork, result: TableResult, now_ms: int) -> Ended:
        if result.numbers.get("announced"):
            return replace(work, announced_ms=now_ms, finished_ms=None), "announced"
        return replace(work, done_ms=now_ms), "done"
