"""Orders within a budget: most spared for its price first, and nobody starves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.partition.decide import BUDGET_LOOK_MS
from firnline_domain.records.events import ChangeKind, PartitionChange, TickPassed
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import PartitionState, TableState
from firnline_domain.settings.groups import Budget, Group
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner import meters
from firnline_planner.bootstrap import thresholds_of
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.settings import PlannerSettings
from prometheus_client import REGISTRY

from tests.kit.changes import delta
from tests.kit.memory_store import MemoryStore

SCOPE = Scope(0, "[]")
MB = 1 << 20
PRICE = 0.0001234  # GB-hours of eight fragments of a megabyte


def part(scope: Scope, files: int, bytes_each: int = MB) -> PartitionChange:
    added = FileTally(fragments=Tally(files, files * 100, files * bytes_each))
    return PartitionChange(scope, added, FileTally())


@dataclass
class Fleet:
    """A bucket of tables of one partition each."""

    gb_hours: float
    old_share: float = 0.2
    groups: tuple[Group, ...] = ()
    pairs: MemoryStore = field(default_factory=MemoryStore)
    now_ms: int = 10 * HOUR_MS
    shown: dict[str, TableState] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        budget = Budget(self.gb_hours, self.old_share)
        limits = Thresholds(
            quiet_ms=0,
            hot_ms=0,
            max_age_ms=10**15,
            deadline_ms=10**9,
            cheap_bytes=64 * MB,
            budget=budget,
            groups=self.groups,
        )
        self.bucket = PlannerBucket(self.pairs, limits)

    def take(self, record: object, keep: bool = True) -> list[RewriteFiles]:
        outputs = self.bucket.handle(record, self.now_ms).outputs
        if keep:
            self.bucket.commit()
        else:
            self.bucket.discard()
        records: list[Any] = [one.record for one in outputs]
        self.shown |= {one.table.name: one for one in records if isinstance(one, TableState)}
        return [one for one in records if isinstance(one, RewriteFiles)]

    def tick(self, ms: int = 1_000, keep: bool = True) -> list[str]:
        """Names of the tables for which orders go out."""
        self.now_ms += ms
        return [one.table.name for one in self.take(TickPassed(0, self.now_ms), keep)]

    def commit(self, name: str, files: int = 8, bytes_each: int = MB, **more: Any) -> list[Any]:
        head = self.heads.get(name, 0)
        self.heads[name] = head + 1
        self.now_ms += 1
        table, added = TableName(f"u{name}", ("db",), name), part(SCOPE, files, bytes_each)
        more = {"event_id": f"{name}{head}", **more}
        return self.take(delta(table, head + 1, self.now_ms, added, **more))

    def shows(self, name: str) -> PartitionState:
        self.tick(2_000)
        return self.shown[name].partitions[0]


def test_without_a_budget_nothing_waits() -> None:
    assert len(Fleet(0.0).commit("a")) == 1


def test_orders_of_a_table_that_are_paid_in_one_round_share_a_commit() -> None:
    fleet = Fleet(1.0)
    fleet.commit("a", partitions=(part(SCOPE, 8), part(Scope(0, '["x"]'), 8)))
    fleet.commit("b")
    fleet.now_ms += 1_000
    sent = fleet.take(TickPassed(0, fleet.now_ms))
    assert sorted((one.table.name, one.batch_size) for one in sent) == [
        ("a", 2),
        ("a", 2),
        ("b", 1),
    ]


def test_an_order_waits_for_the_next_tick_and_is_the_same_order() -> None:
    fleet = Fleet(1.0)
    assert fleet.commit("a") == []
    assert fleet.bucket.waiting_partition_count == 1
    assert fleet.tick() == ["a"]
    assert fleet.bucket.waiting_partition_count == 0
    shown = fleet.shows("a")
    assert (shown.status, shown.reason) == ("in_flight", "fragments")


def test_an_hour_costs_no_more_than_the_budget() -> None:
    fleet = Fleet(10 * PRICE)
    for number in range(100):
        fleet.commit(f"t{number}")
    spent = fleet.tick()
    assert 8 <= len(spent) <= 10  # an hour's worth is there at first
    assert fleet.tick() == []
    for _ in range(60):
        spent += fleet.tick(HOUR_MS // 60)
    assert 17 <= len(spent) <= 20
    assert len(set(spent)) == len(spent)


def test_who_waits_is_told_why() -> None:
    fleet = Fleet(PRICE / 100)
    fleet.commit("a")
    fleet.tick()
    shown = fleet.shows("a")
    assert (shown.status, shown.reason) == ("idle", "waiting_for_budget")
    assert shown.numbers["rewrite_gb_hours"] == pytest.approx(PRICE, rel=0.01)


def test_most_spared_for_its_price_goes_first_and_the_oldest_is_saved_for() -> None:
    fleet = Fleet(1.0)
    fleet.commit("old", bytes_each=6 * MB)
    fleet.now_ms += 60_000
    for number in range(4):
        fleet.commit(f"y{number}", files=8 + number)
    assert fleet.tick(0) == ["y3", "y2", "y1", "y0", "old"]
    fleet = Fleet(2.5 * PRICE)  # never in one token bucket what the old one costs
    fleet.commit("old", bytes_each=6 * MB)
    ordered = []
    for number in range(40):
        fleet.commit(f"y{number}")
        ordered += fleet.tick(HOUR_MS // 4)
    assert "old" in ordered
    assert ordered[0] == "y0"


def test_tokens_survive_a_restart_and_who_waits_asks_again() -> None:
    fleet = Fleet(2.2 * PRICE, old_share=0.0)
    for number in range(4):
        fleet.commit(f"t{number}")
    assert len(fleet.tick()) == 2
    fleet.restart()
    assert fleet.bucket.waiting_partition_count == 0
    fleet.commit("late")
    assert fleet.tick() == []
    assert len(fleet.tick(BUDGET_LOOK_MS)) == 0  # those that waited bid again here
    assert fleet.bucket.waiting_partition_count == 3
    assert len(fleet.tick(HOUR_MS)) == 2


def test_the_age_of_the_oldest_debt_that_waits_is_a_gauge() -> None:
    def shown(budget: str) -> float | None:
        name = "firnline_oldest_waiting_debt_seconds"
        return REGISTRY.get_sample_value(name, {"budget": budget})

    fleet = Fleet(1.2 * PRICE, 0.0, (Group("etl", PRICE / 9),))
    begun_ms = fleet.now_ms + 1
    fleet.commit("first", settings={"firnline.group": "etl"})
    fleet.now_ms += 50_000
    fleet.commit("second", settings={"firnline.group": "etl"})
    assert fleet.tick() == []
    meters.set_gauges([fleet.bucket])
    assert (shown("etl"), shown("fleet")) == ((fleet.now_ms - begun_ms) / 1000, 0)
    fleet.commit("first", settings={"firnline.group": "default"})
    fleet.commit("second", settings={"firnline.group": "default"})
    fleet.tick()
    meters.set_gauges([fleet.bucket])
    assert shown("etl") == 0
    meters.set_gauges([])
    assert shown("fleet") == 0


def test_a_group_spends_its_own_quota_and_others_what_they_like() -> None:
    fleet = Fleet(0.0, 0.0, (Group("etl", 2.2 * PRICE), Group("adhoc")))
    for number in range(4):
        assert fleet.commit(f"e{number}", settings={"firnline.group": "etl"}) == []
        assert len(fleet.commit(f"a{number}", settings={"firnline.group": "adhoc"})) == 1
        assert len(fleet.commit(f"d{number}")) == 1
    assert len(fleet.tick()) == 2
    fleet.restart()
    assert fleet.tick(BUDGET_LOOK_MS) == []  # its tokens are in the state
    assert len(fleet.tick(HOUR_MS)) == 2


def test_the_fleets_budget_is_for_groups_without_a_quota() -> None:
    fleet = Fleet(1.5 * PRICE, 0.0, (Group("", 2.5 * PRICE), Group("adhoc")))
    for number in range(4):
        fleet.commit(f"a{number}", settings={"firnline.group": "adhoc"})
        fleet.commit(f"d{number}")
    assert sorted(name[0] for name in fleet.tick()) == ["a", "d", "d"]


def test_a_table_that_changes_its_group_waits_no_longer_for_the_old_ones_quota() -> None:
    fleet = Fleet(0.0, 0.0, (Group("etl", PRICE / 9),))
    fleet.commit("a", settings={"firnline.group": "etl"})
    assert fleet.tick() == []
    assert len(fleet.commit("a", files=0, settings={"firnline.group": "default"})) == 1
    assert fleet.bucket.waiting_partition_count == 0


def test_what_is_gone_costs_nothing() -> None:
    fleet = Fleet(1.2 * PRICE, old_share=0.0)
    fleet.commit("a")
    fleet.commit("b", bytes_each=2 * MB)
    fleet.commit("a", kind=ChangeKind.REMOVED, partitions=(), snapshot_id=None)
    assert fleet.bucket.waiting_partition_count == 1
    assert fleet.tick() == []  # b is too dear
    fleet.commit("c")
    assert fleet.tick() == ["c"]


def test_what_came_to_nothing_is_not_paid_for() -> None:
    fleet = Fleet(1.2 * PRICE, old_share=0.0)
    fleet.commit("a")
    assert fleet.tick(keep=False) == ["a"]
    assert fleet.tick() == ["a"]


def test_a_partition_that_is_gone_waits_no_more() -> None:
    """A look at all partitions replaces all budget_requests of the table."""
    fleet = Fleet(PRICE / 9, old_share=0.0)
    fleet.commit("a", partitions=tuple(part(Scope(0, f"[{n}]"), 8) for n in range(3)))
    assert fleet.bucket.waiting_partition_count == 3
    anew = {"kind": ChangeKind.ABSOLUTE, "snapshot_count": 1, "oldest_snapshot_ms": 1}
    fleet.commit("a", partitions=(part(Scope(0, "[1]"), 8),), **anew)
    fleet.tick(BUDGET_LOOK_MS + 60_000)
    assert fleet.bucket.waiting_partition_count == 1


def test_what_failed_to_be_handled_leaves_no_bid() -> None:
    fleet = Fleet(PRICE / 9)
    fleet.commit("a")
    fleet.tick()
    assert fleet.bucket.waiting_partition_count == 1
    fleet.bucket.discard()
    fleet.bucket.commit()
    assert fleet.bucket.waiting_partition_count == 1


def settings(**changed: Any) -> PlannerSettings:
    return PlannerSettings(kafka="k", state_dir="s", buckets=4, **changed)


def test_a_budget_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_BUDGET_GB_HOURS"):
        thresholds_of(settings(budget_gb_hours=-1.0))


def test_each_bucket_has_its_part() -> None:
    limits = thresholds_of(settings(budget_gb_hours=8.0))
    assert limits.budget == Budget(2.0, 0.2)
    groups = thresholds_of(settings(groups="etl=2,adhoc")).groups
    assert groups == (Group("etl", 0.5), Group("adhoc"))
