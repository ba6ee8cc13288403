"""An action on a table as a whole: when the planner orders it, and what it makes of the result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import Value, field, replace
from firnline_domain.counters.state.work import ActionWork, Table
from firnline_domain.identity import MAIN, task_id
from firnline_domain.policy.cost.dollars import COMMIT_PRICE, PACE, Estimate
from firnline_domain.policy.fleet.holds import find_hold
from firnline_domain.policy.partition.decide import BUDGET_LOOK_MS
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_domain.settings.policies import split_policies
from firnline_domain.settings.thresholds import Thresholds

DEADLINE_MS = HOUR_MS  # an order without an answer counts as lost then
SHADOW_RECHECK_MS = 10 * 60_000  # nothing tells a table that its fleet has left shadow mode

Work = TypeVar("Work", bound=ActionWork)
Ended = tuple[ActionWork, str]
"""The work after a round, and its result in one word, for the metrics."""
NOT_NEEDED = ActionWork(reason=Reason.HEALTHY)


class DueCheck(Value):
    """`until_ms`: when time alone may change it; None = only an event can."""

    reason: str
    order: bool = False
    until_ms: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


NOT_ASKED = DueCheck(Reason.HEALTHY)


class TableAction(ABC):
    """One action. The planner keeps its `ActionWork`, and sends at most one order of it at a time;
    one that needs more than that overrides all but `check_due`."""

    name: str
    interval_ms = DAY_MS  # from one order's end to the next order, where no property says it
    # Whether it is due at a moment that people were told of, or have told: no price delays it.
    is_promised = False
    # Of its own: why it is ordered, and why it is not yet.
    order_reasons: tuple[ReasonCode, ...] = ()
    wait_reasons: tuple[ReasonCode, ...] = ()
    # Numbers of its results: files that go, and their bytes.
    found: tuple[tuple[str, str], ...] = ()

    @abstractmethod
    def check_due(self, given: TableInput) -> DueCheck:
        """Check whether the table's counters ask for it; pauses, windows and orders that are out
        are not considered here."""

    def plan_order(
        self, given: TableInput, *, is_granted: bool = False
    ) -> tuple[Table, TableOrder | None]:
        """Return the table with the decision, and the order, if one is to go out. `is_granted`: the
        budget pays for it."""
        table, now_ms = given.table, given.now_ms
        known, asked = table.work.actions.get(self.name), self.check_due(given)
        if known is None and (asked is NOT_ASKED or asked == NOT_ASKED):
            return table, None  # mostly: asked with every change of every table
        before = known or ActionWork()
        if asked.reason != Reason.HEALTHY or before.task_id:
            asked = self._blocking_check(given, before) or asked
        if (
            asked.order
            and not self.is_promised
            and given.settings.paying_budget[1].is_limited
            and not is_granted
        ):
            until_ms = now_ms + BUDGET_LOOK_MS
            asked = replace(asked, reason=Reason.WAITING_FOR_BUDGET, order=False, until_ms=until_ms)
        if asked.order:
            return self._make_order(given, asked, before)
        wanted_ms = None if asked.reason == Reason.HEALTHY else before.wanted_ms
        if asked.reason == Reason.WAITING_FOR_BUDGET:
            wanted_ms = now_ms if wanted_ms is None else min(wanted_ms, now_ms)
        work = replace(before, reason=asked.reason, due_ms=asked.until_ms, wanted_ms=wanted_ms)
        unchanged = work == (NOT_NEEDED if known is None else before)
        return (table if unchanged else self._with_work(table, work)), None

    def estimate(self, given: TableInput) -> Estimate:
        """Estimate what its next order takes and spares, at the pace that was measured."""
        return Estimate(COMMIT_PRICE)

    def weighed_here(self, given: TableInput) -> Estimate:
        """Return the estimate at the pace of the action's own tasks."""
        measured = self.estimate(given)
        cpu_s = measured.price.cpu_s * given.costs.action_factor(self.name)
        return replace(measured, price=replace(measured.price, cpu_s=cpu_s))

    def estimate_numbers(self, given: TableInput) -> dict[str, float]:
        """Return the price and the gain of the next order by the names of `Estimate.to_numbers`, to
        show and to compare with the order's result, and the pace that they were estimated with."""
        costs, reads_per_hour = given.costs, given.settings.reads_per_hour
        numbers = self.weighed_here(given).to_numbers(costs, reads_per_hour)
        return {**numbers, PACE: round(costs.action_factor(self.name), 3)}

    def pause_ms(self, settings: Thresholds) -> int:
        """Return the pause from one order's end to the next order, of this table."""
        return self.interval_ms

    def work_of(self, table: Table) -> ActionWork:
        """Return what the planner keeps of this action on a table; an empty record before its first
        order."""
        return table.work.actions.get(self.name, ActionWork())

    def is_under_way(self, table: Table, now_ms: int) -> bool:
        """Return True if an order of it is out."""
        work = self.work_of(table)
        return work.task_id is not None and now_ms < work.deadline_ms

    def order_requested(self, given: TableInput) -> tuple[Table, TableOrder]:
        """Order it as a user requests, without waiting for the counters."""
        asked = DueCheck(Reason.REQUESTED, order=True, numbers=self.order_numbers(given))
        return self._make_order(given, asked, self.work_of(given.table))

    def order_numbers(self, given: TableInput) -> dict[str, float]:
        """Return the numbers that its tasks contain: those behind the decision, and those that the
        worker needs."""
        return {}

    def _check_announced(
        self, given: TableInput, grace_ms: int, age_h: float = math.inf
    ) -> DueCheck:
        """Order the announcement, for this age or a longer one, and after the grace period the
        action itself."""
        announces, is_due = self.order_reasons
        work, numbers = self.work_of(given.table), self.order_numbers(given)
        announced_ms = work.announced_ms or 0
        if not work.is_announced(given.now_ms) or work.announced_h > age_h:
            return DueCheck(announces, True, numbers={**numbers, "announces": 1.0})
        if given.now_ms < announced_ms + grace_ms:
            return DueCheck(self.wait_reasons[0], until_ms=announced_ms + grace_ms)
        return DueCheck(is_due, True, numbers={**numbers, "announced_ms": announced_ms})

    def _make_order(
        self, given: TableInput, asked: DueCheck, before: ActionWork
    ) -> tuple[Table, TableOrder]:
        order = self._build_order(given, asked, before)
        due_ms = order.deadline_ms
        work = replace(
            before,
            reason=asked.reason,
            task_id=order.task_id,
            deadline_ms=due_ms,
            due_ms=due_ms,
            wanted_ms=None,
        )
        return self._with_work(given.table, work), order

    def after_result(self, table: Table, result: TableResult, now_ms: int) -> tuple[Table, str]:
        """Return the table after an order's result, and the result in one word, for the metrics. A
        result that is reported twice, or after its deadline, changes nothing."""
        refused, before = result.refused_reason or "", self.work_of(table)
        word = "refused" if refused else "done"
        if before.task_id != result.task_id:
            return table, word
        work = end_round(before, not refused, refused, now_ms)
        for files, size in self.found:
            if files in result.numbers:
                freed = result.numbers.get(size, 0.0)
                work = replace(work, found_files=result.numbers[files], found_bytes=freed)
        if refused:
            return self._with_work(table, work), word
        work, word = self.after_success(work, result, now_ms)
        return self._with_work(table, work), word

    def after_success(self, work: ActionWork, result: TableResult, now_ms: int) -> Ended:
        """Return the work with what else a success leaves, and the result in one word."""
        return work, "done"

    def after_failure(self, table: Table, task: str, reason: str, now_ms: int) -> tuple[Table, str]:
        """Return the same where a task came to no result."""
        if (work := self.work_of(table)).task_id == task:
            table = self._with_work(table, end_round(work, False, reason, now_ms))
        return table, "failed"

    def _with_work(self, table: Table, work: ActionWork) -> Table:
        """Set the work. A million tables keep nothing of an action that none of them has needed."""
        actions = {**table.work.actions, self.name: work}
        if work == NOT_NEEDED:
            del actions[self.name]
        return replace(table, work=replace(table.work, actions=actions))

    def _blocking_check(self, given: TableInput, work: ActionWork) -> DueCheck | None:
        table, settings, now_ms = given.table, given.settings, given.now_ms
        if table.counters.removed:
            return DueCheck(Reason.REMOVED)
        if not settings.enabled:
            return DueCheck(Reason.DISABLED)
        if work.task_id and now_ms < work.deadline_ms:
            return DueCheck(Reason.IN_FLIGHT, until_ms=work.deadline_ms)
        if table.counters.head_snapshot_id is None:
            return DueCheck(Reason.HEALTHY)
        if (again := again_ms(work, self.pause_ms(settings), now_ms)) > now_ms:
            return DueCheck(work.refused or Reason.COOLING, until_ms=again)
        if hold := find_hold(given):
            shadow_ms = now_ms + SHADOW_RECHECK_MS if settings.shadow else None
            return DueCheck(hold.reason, until_ms=hold.until_ms or shadow_ms)
        return None

    def _build_order(self, given: TableInput, asked: DueCheck, work: ActionWork) -> TableOrder:
        counters, now_ms = given.table.counters, given.now_ms
        name, head = counters.table, counters.head_snapshot_id
        assert head is not None  # else barred
        return TableOrder(
            task_id=task_id(name.key, MAIN, str(work.rounds), self.name, head),
            table=name,
            action=self.name,
            reason=asked.reason,
            trigger_snapshot_id=head,
            attempt=1,
            ordered_at_ms=now_ms,
            deadline_ms=now_ms + DEADLINE_MS,
            numbers={**asked.numbers, **self.estimate_numbers(given)},
            policies=split_policies(counters.settings),
        )


def end_round(work: Work, useful: bool, refused: str, now_ms: int) -> Work:
    """End a round, by its result or without one."""
    return replace(
        work,
        task_id=None,
        deadline_ms=0,
        rounds=work.rounds + 1,
        finished_ms=now_ms,
        fruitless=0 if useful else work.fruitless + 1,
        refused=refused,
    )


def again_ms(work: ActionWork, interval_ms: int, now_ms: int) -> int:
    """Return when a round may be repeated: after one that did nothing the pause doubles, up to a
    day or the interval."""
    if work.finished_ms is None or work.finished_ms > now_ms:  # the clock was set back since
        return 0
    pause = interval_ms << min(work.fruitless, 12)
    return work.finished_ms + min(pause, max(DAY_MS, interval_ms))
