"""Actions on whole tables under the budget of rewrites: ranked with them, and what is promised is
never late because of a price."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS, MINUTE_MS
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, PartitionChange, TickPassed
from firnline_domain.records.orders import RewriteFiles, RunAction, TableOrder
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import SnapshotsExpired, TableResult
from firnline_domain.records.states import TableState
from firnline_domain.settings.groups import Budget
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.changes import delta
from tests.kit.memory_store import MemoryStore

MB = 1 << 20
SCOPE = Scope(0, "[]")
MANIFESTS = {"manifests": 400, "manifest_bytes": 400 * 8_000}
STATISTICS = {"settings": {"firnline.statistics": "id"}}
SORTED = {"settings": {"firnline.sort": "id"}}
MANIFEST_GB_HOURS = 0.0005  # of 400


@dataclass
class Fleet:
    """A bucket of tables of one partition each, of 40 files of 100 MB; days pass in it."""

    gb_hours: float
    pairs: MemoryStore = field(default_factory=MemoryStore)
    now_ms: int = 100 * DAY_MS
    heads: dict[str, int] = field(default_factory=dict)
    shown: dict[str, TableState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        limits = Thresholds(
            quiet_ms=0,
            hot_ms=0,
            max_age_ms=10**15,
            max_wait_ms=10**13,
            budget=Budget(self.gb_hours),
        )
        self.bucket = PlannerBucket(self.pairs, limits)

    def take(self, record: object) -> list[tuple[str, str, float]]:
        """(Table, action, price in GB-hours) of each order, in turn."""
        outputs = self.bucket.handle(record, self.now_ms).outputs
        self.bucket.commit()
        records: list[Any] = [one.record for one in outputs]
        self.shown |= {one.table.name: one for one in records if isinstance(one, TableState)}
        self.orders = [one for one in records if isinstance(one, RewriteFiles | TableOrder)]
        return [(one.table.name, one.action, _price(one)) for one in self.orders]

    def tick(self, ms: int = 1_000) -> list[tuple[str, str, float]]:
        self.now_ms += ms
        return self.take(TickPassed(0, self.now_ms))

    def ordered(self, ms: int = 1_000) -> list[tuple[str, str]]:
        return [(name, action) for name, action, _ in self.tick(ms)]

    def commit(self, name: str, files: int = 40, **more: Any) -> list[tuple[str, str, float]]:
        head = self.heads.get(name, 0)
        self.heads[name] = head + 1
        self.now_ms += 1
        size = Tally(files, files * 1_000, files * 100 * MB)
        table, more = TableName(f"u{name}", ("db",), name), {"event_id": f"{name}{head}", **more}
        part = PartitionChange(SCOPE, FileTally(on_target=size), FileTally())
        return self.take(delta(table, head + 1, self.now_ms, part, **more))

    def done(self, **numbers: float) -> list[tuple[str, str, float]]:
        """The last order has ended."""
        order = self.orders[-1]
        of = (order.task_id, order.table, order.action, None, "w", self.now_ms, numbers)
        return self.take(TableResult(*of))


def _price(order: RewriteFiles | TableOrder) -> float:
    numbers = order.numbers
    return numbers.get("price_gb_hours", numbers.get("rewrite_gb_hours", 0.0))


def test_a_cheap_manifest_rewrite_that_spares_more_goes_before_a_sort_that_is_dear() -> None:
    fleet = Fleet(1.0)
    fleet.commit("sorted", **SORTED)
    fleet.commit("plain", **MANIFESTS)
    assert fleet.ordered() == [("plain", "rewrite_manifests"), ("sorted", "sort")]
    [price] = [one.numbers["rewrite_gb_hours"] for one in fleet.orders if one.action == "sort"]
    scarce = Fleet(price * 1.001 / 0.8)  # the sort alone could be paid, but not after the other
    scarce.commit("sorted", **SORTED)
    scarce.commit("plain", **MANIFESTS)
    assert scarce.ordered() == [("plain", "rewrite_manifests")]
    scarce.tick(2_000)
    [part] = scarce.shown["sorted"].partitions
    assert part.reason == "waiting_for_budget"


def test_an_action_waits_for_the_budget_and_is_told_so() -> None:
    fleet = Fleet(MANIFEST_GB_HOURS)  # four fifths of it are for those that spare most
    assert fleet.commit("plain", **MANIFESTS) == []
    assert fleet.ordered() == []
    fleet.tick(2_000)
    assert fleet.shown["plain"].actions == {"rewrite_manifests": "waiting_for_budget"}
    numbers = fleet.shown["plain"].action_numbers["rewrite_manifests"]
    assert numbers["price_gb_hours"] == pytest.approx(MANIFEST_GB_HOURS, rel=0.02)
    assert numbers["gain_dollars_a_day"] > 0
    fleet.restart()
    found = [one for _ in range(24 * 4) for one in fleet.ordered(HOUR_MS // 4)]
    assert found[:1] == [("plain", "rewrite_manifests")]


def test_what_spares_nothing_that_is_counted_does_not_starve() -> None:
    """Statistics: others that spare more come hour after hour, and take all but the reserve."""
    fleet, found = Fleet(2 * MANIFEST_GB_HOURS), set[str]()
    fleet.commit("joined", **STATISTICS)
    for hour in range(100):
        for number in range(3):
            fleet.commit(f"t{hour}-{number}", **MANIFESTS)
        found |= {action for _, action in fleet.ordered(HOUR_MS)}
        if "compute_statistics" in found:
            break
    assert found == {"rewrite_manifests", "compute_statistics"}


def test_a_first_sort_is_the_oldest_some_day_though_no_counter_says_since_when() -> None:
    fleet, hour, found = Fleet(0.02), 0, list[tuple[str, str]]()
    fleet.commit("sorted", **SORTED)
    while ("sorted", "sort") not in found and hour < 40:
        for number in range(5):  # four fifths of the budget pay for three of them
            fleet.commit(f"t{hour}-{number}", manifests=4_000, manifest_bytes=4_000 * 8_000)
        found += fleet.ordered(HOUR_MS)
        hour += 1
    assert 18 <= hour < 25  # 0.074 GB-hours, out of a reserve of 0.004 an hour


def crowded(gb_hours: float) -> Fleet:
    """Many tables want what there is no budget for."""
    fleet = Fleet(gb_hours)
    for number in range(5):
        fleet.commit(f"t{number}", **MANIFESTS)
        fleet.commit(f"s{number}", **SORTED)
    return fleet


BUDGETS = st.floats(1e-9, 1e-4)


@given(BUDGETS, st.integers(1, 72))
@settings(max_examples=20)
def test_rows_leave_when_their_grace_period_ends_at_any_price(budget: float, grace_h: int) -> None:
    fleet = crowded(budget)
    owner = {"firnline.partitions.ttl-hours": "24"}
    owner["firnline.partitions.grace-ms"] = str(grace_h * HOUR_MS)
    sent = fleet.commit("old", settings=owner)
    assert [one[:2] for one in sent] == [("old", "expire_partitions")]
    fleet.done(going_files=3.0, going_bytes=300.0, ttl_h=24.0)
    assert ("old", "expire_partitions") not in fleet.ordered(grace_h * HOUR_MS - 1)
    assert ("old", "expire_partitions") in fleet.ordered(1)


@given(BUDGETS)
@settings(max_examples=10)
def test_tags_and_expiries_are_in_time_at_any_price(budget: float) -> None:
    fleet = crowded(budget)
    known = {"snapshot_count": 9, "oldest_snapshot_ms": fleet.now_ms - 30 * DAY_MS}
    anew = {"kind": ChangeKind.ABSOLUTE, **known}
    assert ("old", "expire") in [one[:2] for one in fleet.commit("old", **anew)]
    order = fleet.orders[-1]
    fleet.take(
        SnapshotsExpired(
            order.task_id, order.table, "expire", None, "w", fleet.now_ms,
            expired=0, remaining=9, oldest_snapshot_ms=known["oldest_snapshot_ms"],
            deleted_files=0, begins_at_ms=fleet.now_ms + DAY_MS, going_snapshots=5,
        )
    )  # fmt: skip
    assert ("old", "expire") in fleet.ordered(DAY_MS)
    midnight = -(-fleet.now_ms // DAY_MS) * DAY_MS
    fleet.commit("tagged", settings={"firnline.tags.create": "daily-{date}"})
    assert ("tagged", "create_tags") in fleet.ordered(midnight + MINUTE_MS - fleet.now_ms)


def test_what_a_person_asks_for_waits_for_no_budget_and_is_charged() -> None:
    fleet = Fleet(2 * MANIFEST_GB_HOURS)
    fleet.commit("calm", manifests=4_000, manifest_bytes=4_000 * 8_000)
    asked = RunAction(fleet_name("calm"), "main", "rewrite_manifests", None, False, "me", 0)
    assert [one[:2] for one in fleet.take(asked)] == [("calm", "rewrite_manifests")]
    fleet.commit("plain", **MANIFESTS)
    assert fleet.ordered() == []  # the other has taken ten hours of the budget
    assert fleet.ordered(HOUR_MS) == []
    assert fleet.ordered(11 * HOUR_MS) == [("plain", "rewrite_manifests")]


def test_a_rewrite_that_a_person_asks_for_waits_for_no_budget_and_is_charged() -> None:
    fleet = Fleet(2 * MANIFEST_GB_HOURS)
    fleet.commit("calm")
    asked = RunAction(fleet_name("calm"), "main", "full", None, True, "me", 0)
    [(name, action, price)] = fleet.take(asked)
    assert (name, action) == ("calm", "full")
    assert price > 20 * MANIFEST_GB_HOURS
    fleet.commit("plain", **MANIFESTS)
    assert fleet.ordered(10 * HOUR_MS) == []


def fleet_name(name: str) -> TableName:
    return TableName(f"u{name}", ("db",), name)


@given(
    st.floats(MANIFEST_GB_HOURS / 2, 20 * MANIFEST_GB_HOURS),
    st.lists(st.tuples(st.sampled_from(["manifests", "sort", "none"]), st.integers(1, 240))),
)
@settings(max_examples=40)
def test_no_more_is_spent_than_the_budget(budget: float, steps: list[tuple[str, int]]) -> None:
    fleet, spent, begun_ms = Fleet(budget), 0.0, 100 * DAY_MS
    for number, (kind, minutes) in enumerate(steps):
        if kind != "none":
            fleet.commit(f"t{number}", **(MANIFESTS if kind == "manifests" else SORTED))
        spent += sum(price for _, _, price in fleet.tick(minutes * MINUTE_MS))
        hours = (fleet.now_ms - begun_ms) / HOUR_MS
        assert spent <= budget * (hours + 1) + 1e-5  # an hour's worth is there at first
