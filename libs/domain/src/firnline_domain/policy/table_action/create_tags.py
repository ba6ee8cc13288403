"""Decide when a table's head gets a tag: at the end of a day, a month or another period, by its
owner's word alone (`firnline.tags.create`)."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import MINUTE_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import Table
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.base import DEADLINE_MS, NOT_ASKED, DueCheck, TableAction
from firnline_domain.records.results import TableResult
from firnline_domain.settings.ref_rules import periods_at, periods_ended
from firnline_domain.settings.rule_lists import UnreadableRules

LATE_MS = MINUTE_MS  # after a period's end: commits that are under way, and clocks that differ
TAG_EXISTS = "tag_exists"  # another snapshot has the name: nothing to be tried again


class TagReason(ReasonCode):
    """Reasons why a head gets a tag."""

    PERIOD_ENDED = (
        "period_ended",
        "A period of `firnline.tags.create` (a day, a month ...) has ended.",
        "a period has ended: its last state gets a tag (firnline.tags.create)",
    )


class TagCreation(TableAction):
    """Creation of tags. Of several periods that have passed only the newest with a commit is made
    up for, by each rule. One without gets no tag: its state is that of the one before. So a table
    at rest asks for nothing, and no two tags of a rule are of one snapshot."""

    name = "create_tags"
    order_reasons = (TagReason.PERIOD_ENDED,)
    interval_ms = 5 * MINUTE_MS
    is_promised = True

    def check_due(self, given: TableInput) -> DueCheck:
        table, now_ms, rules = given.table, given.now_ms, given.settings.create_tags
        if not rules:
            return NOT_ASKED
        at_ms, seen_ms = now_ms - LATE_MS, table.counters.observed_ms
        try:
            ended = periods_ended(rules, at_ms, seen_ms)
            current = periods_at(rules, at_ms)
        except UnreadableRules:
            return NOT_ASKED  # the settings say so
        done_ms = self.work_of(table).done_ms
        if done_ms is None or done_ms > now_ms:  # the clock was set back since
            done_ms = 0
        due = [one for one in ended if done_ms < one.end_ms + LATE_MS]
        if due:
            return DueCheck(TagReason.PERIOD_ENDED, True, numbers={"tags": float(len(due))})
        ends = (one.end_ms for one in current if one.start_ms <= seen_ms)
        next_ms = min(ends, default=None)
        return DueCheck(Reason.HEALTHY, until_ms=None if next_ms is None else next_ms + LATE_MS)

    def after_result(self, table: Table, result: TableResult, now_ms: int) -> tuple[Table, str]:
        after, word = super().after_result(table, result, now_ms)
        return (after if result.refused_reason else self._finish_periods(table, after)), word

    def after_failure(self, table: Table, task: str, reason: str, now_ms: int) -> tuple[Table, str]:
        after, word = super().after_failure(table, task, reason, now_ms)
        return (self._finish_periods(table, after) if reason == TAG_EXISTS else after), word

    def _finish_periods(self, before: Table, after: Table) -> Table:
        """Mark all periods as done that were over when the order went out, if it has ended."""
        if after is before:
            return after
        done_ms = self.work_of(before).deadline_ms - DEADLINE_MS
        return self._with_work(after, replace(self.work_of(after), done_ms=done_ms, fruitless=0))
