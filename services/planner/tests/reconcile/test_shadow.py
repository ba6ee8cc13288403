"""Shadow mode: all is decided and shown, nothing is ordered; leaving it needs no commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope
from firnline_domain.records.orders import ExpireSnapshots
from firnline_domain.records.states import PartitionState, TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.reconcile.table import SHADOW_RECHECK_MS

from tests.kit.planner_world import PlannerWorld, orders, part, table_orders

FLEET = Thresholds(quiet_ms=0, max_age_ms=10**15, shadow=True)
SHADOW, CANARY = {"firnline.shadow": "true"}, {"firnline.shadow": "false"}


@dataclass
class World(PlannerWorld):
    """`limits`: the fleet's."""

    now_ms: int = 10 * DAY_MS
    limits: Thresholds = FLEET

    def append(self, files: int, settings: dict[str, str] | None = None) -> list[Any]:
        return self.commit(part(Scope(0, "[]"), files), settings=settings or {})

    def shown(self) -> tuple[TableState, PartitionState]:
        [state] = [one for one in self.tick(1_000) if isinstance(one, TableState)]
        return state, state.partitions[0]


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_ordered_and_all_is_shown(world: World) -> None:
    assert orders(world.append(8)) == []
    state, partition = world.shown()
    assert state.hold is not None
    assert state.hold.reason == "shadow"
    assert (partition.status, partition.reason) == ("would_order", "fragments")
    assert partition.until_ms is None
    assert partition.numbers["fragments"] == 8


def test_what_would_not_be_ordered_says_why(world: World) -> None:
    world.append(7)
    _, partition = world.shown()
    assert (partition.status, partition.reason) == ("idle", "accumulating")


def test_snapshots_are_not_expired(world: World) -> None:
    world.append(1)
    world.append(1)
    records = world.tick(6 * DAY_MS)
    assert table_orders(records) == []
    assert records[-1].expiry_reason == "shadow"
    world.restart(replace(FLEET, shadow=False))
    sent = table_orders(world.tick(SHADOW_RECHECK_MS))
    assert ExpireSnapshots in {type(one) for one in sent}


def test_a_table_out_of_shadow_mode_is_served(world: World) -> None:
    assert len(orders(world.append(8, CANARY))) == 1


def test_one_table_alone_may_be_in_the_shadow() -> None:
    world = World(limits=replace(FLEET, shadow=False))
    assert orders(world.append(8, SHADOW)) == []
    assert world.shown()[1].status == "would_order"
    assert len(orders(world.append(1))) == 1


def test_after_the_shadow_tables_are_served_without_a_commit(world: World) -> None:
    world.append(8)
    world.restart(replace(FLEET, shadow=False))
    assert orders(world.tick(SHADOW_RECHECK_MS - 1)) == []
    assert len(orders(world.tick(1))) == 1


def test_what_holds_it_anyway_goes_before_the_shadow() -> None:
    world = World(limits=replace(FLEET, window="2000-01-01T00:00Z/2000-01-02T00:00Z"))
    world.append(8)
    state, partition = world.shown()
    assert state.hold is not None
    assert state.hold.reason == partition.reason == "outside_window"
    assert partition.status == "idle"
