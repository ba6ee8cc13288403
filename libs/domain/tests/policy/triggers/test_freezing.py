"""A partition that nobody writes to is rewritten once more, and then left alone."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.debt import debt_added_by, debt_of
from firnline_domain.counters.state.work import Partition, PartitionWork, Table
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import order_for, with_numbers
from firnline_domain.policy.partition.outcomes import after_change, after_order, after_success
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import decide, policy_input

MB = 1 << 20
NOW = 1_795_000_000_000
WAIT_MS = 48 * HOUR_MS
TARGET = 128 * MB
# nobody reads it, and no count is ever enough: what is ordered is the freeze alone
LIMITS = Thresholds(
    freeze_after_h=48, target_bytes=TARGET, reads_per_hour=0.0, min_fragments=1_000,
    min_equality_deletes=1_000, min_position_deletes=1_000, max_age_ms=10**12,
    max_wait_ms=10**12, max_size_error=0.0,
)  # fmt: skip
TABLE = Table(TableCounters(TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=7))
LARGE = FileTally(on_target=Tally(9, 9_000_000, 9 * TARGET))
TIDY = LARGE + FileTally(undersized=Tally(1, 100_000, 50 * MB))
SMALL = FileTally(fragments=Tally(3, 3_000, 3 * MB))
DELETE = FileTally(equality_deletes=Tally(1, 10, 1_000))


class Life:
    """Of one partition; a rewrite leaves `TIDY`."""

    def __init__(self, limits: Thresholds = LIMITS, holds: FileTally = LARGE + SMALL) -> None:
        self.limits, self.holds, self.now_ms, self.changed_ms = limits, holds, NOW, NOW
        self.work, self.table, self.orders = PartitionWork(), TABLE, list[Decision]()

    @property
    def partition(self) -> Partition:
        counters = PartitionCounters(
            Scope(1, '["a"]'), 1, 1, self.holds, changed_ms=self.changed_ms
        )
        return Partition(counters, self.work)

    def decision(self) -> Decision:
        return decide(self.table, self.partition, self.limits, self.now_ms)

    def commit(self, added: FileTally) -> None:
        self.holds, self.changed_ms = self.holds + added, self.now_ms
        debt = debt_of(self.holds, TARGET)
        self.work = after_change(self.work, debt, debt_added_by(added), self.now_ms)

    def rewrite(
        self, meanwhile: FileTally | None = None, left: FileTally = TIDY, part: Slice | None = None
    ) -> None:
        decision = self.decision()
        assert decision.order, decision.reason
        self.orders.append(decision)
        _, task = order_for(
            policy_input(self.table, self.partition, self.limits, self.now_ms), decision
        )
        self.work = after_order(self.work)
        self.now_ms += HOUR_MS // 2
        self.holds, self.changed_ms = left, self.now_ms
        if meanwhile is not None:
            self.commit(meanwhile)
        debt, done = debt_of(self.holds, TARGET), replace(task, slice=part)
        self.work = after_success(
            self.work, debt, done, self.limits, self.now_ms, changed_ms=self.changed_ms
        )

    def pass_(self, days: float) -> None:
        """Time, with an order whenever one is wanted."""
        end_ms = self.now_ms + int(days * DAY_MS)
        while self.now_ms < end_ms:
            self.now_ms += HOUR_MS
            if self.decision().order:
                self.rewrite()


def test_nobody_who_has_said_nothing_has_it_frozen() -> None:
    life = Life(replace(LIMITS, freeze_after_h=0.0))
    life.pass_(10)
    assert life.orders == []
    assert life.decision().reason is not Reason.FROZEN


def test_it_is_closed_when_nothing_was_committed_for_as_long() -> None:
    life = Life()
    life.now_ms = NOW + WAIT_MS - 1
    decision = life.decision()
    assert (decision.order, decision.until_ms) == (False, NOW + WAIT_MS)
    life.now_ms += 1
    decision = life.decision()
    assert (decision.order, decision.reason, decision.action) == (
        True,
        TriggerReason.CLOSED,
        Action.FULL,
    )
    told = with_numbers(policy_input(life.table, life.partition, LIMITS, life.now_ms), decision)
    assert told.numbers["freeze_after_h"] == 48


def test_once_and_ten_days_later_not_again_whatever_readers_pay() -> None:
    life = Life(replace(LIMITS, reads_per_hour=100_000.0, max_size_error=0.2, max_age_ms=HOUR_MS))
    life.now_ms += WAIT_MS
    life.rewrite(left=LARGE + SMALL)  # even where it could not do better
    life.pass_(10)
    assert [one.reason for one in life.orders] == [TriggerReason.CLOSED]
    decision = life.decision()
    assert (decision.reason, decision.order, decision.until_ms) == (Reason.FROZEN, False, None)


@pytest.mark.parametrize("late", [SMALL, DELETE, FileTally(position_deletes=Tally(1, 9, 100))])
def test_what_comes_late_thaws_it_and_it_is_frozen_after_the_same_wait(late: FileTally) -> None:
    life = Life()
    life.pass_(10)
    life.commit(late)
    thawed_ms = life.now_ms
    assert life.decision().reason is not Reason.FROZEN
    assert life.decision().until_ms == thawed_ms + WAIT_MS
    life.now_ms = thawed_ms + WAIT_MS - 1
    assert not life.decision().order
    life.pass_(10)
    assert [one.reason for one in life.orders] == [TriggerReason.CLOSED] * 2
    assert life.decision().reason is Reason.FROZEN


def test_what_comes_during_the_rewrite_makes_it_wait_anew() -> None:
    life = Life()
    life.now_ms += WAIT_MS
    life.rewrite(meanwhile=SMALL)
    assert life.decision().reason is not Reason.FROZEN
    life.pass_(1.9)
    assert len(life.orders) == 1
    life.pass_(8)
    assert len(life.orders) == 2


@pytest.mark.parametrize("holds", [LARGE, TIDY])
def test_where_nothing_is_to_be_gained_it_is_frozen_as_it_is(holds: FileTally) -> None:
    life = Life(holds=holds)
    life.pass_(10)
    assert life.orders == []
    assert life.decision().reason is Reason.FROZEN


def test_thawed_it_is_merged_as_any_other() -> None:
    limits = replace(LIMITS, min_fragments=3, reads_per_hour=1_000.0)
    life = Life(limits)
    life.pass_(10)
    count = len(life.orders)
    life.commit(SMALL + SMALL)
    life.pass_(1)
    assert [one.reason for one in life.orders[count:]] == [TriggerReason.FRAGMENTS]
    assert life.decision().reason is not Reason.FROZEN


def test_a_frozen_partition_is_sorted_once_more_and_stays_frozen() -> None:
    life = Life(replace(LIMITS, sort="id"))
    life.now_ms += WAIT_MS
    left = LARGE + SMALL  # by which it would be closed once more if it were not frozen still
    life.rewrite(left=left)
    life.now_ms += HOUR_MS
    life.rewrite(left=left)
    life.pass_(20)
    assert [one.reason for one in life.orders] == [TriggerReason.CLOSED, TriggerReason.UNSORTED]
    assert life.decision().reason is Reason.FROZEN


def test_a_change_that_no_event_has_told_thaws_it() -> None:
    """Counters that were read anew."""
    life = Life()
    life.pass_(10)
    life.holds, life.changed_ms = LARGE + SMALL, life.now_ms
    assert life.decision().reason is not Reason.FROZEN
    life.pass_(3)
    assert len(life.orders) == 2


def test_global_deletes_reach_it_without_a_change_and_thaw_it() -> None:
    life = Life()
    life.pass_(10)
    totals = Totals(partitioned=1, unpartitioned_equality_deletes=2)
    life.table = replace(TABLE, counters=replace(TABLE.counters, totals=totals))
    assert life.decision().reason is not Reason.FROZEN


def test_a_large_one_is_frozen_in_slices() -> None:
    life = Life()
    life.now_ms += WAIT_MS
    life.rewrite(left=LARGE + SMALL, part=Slice("full", "closed", 7, left_files=3, left_bytes=9))
    decision = life.decision()
    assert (decision.reason, decision.action, decision.order) == (
        TriggerReason.CLOSED,
        Action.FULL,
        True,
    )
    life.rewrite()
    life.pass_(10)
    assert len(life.orders) == 2
    life.limits = replace(LIMITS, freeze_after_h=0.0)
    assert life.decision().reason is not Reason.FROZEN


def test_a_person_gets_what_they_ask_for() -> None:
    life = Life()
    life.pass_(10)
    life.work = replace(life.work, requested="full")
    assert life.decision().reason is Reason.REQUESTED
