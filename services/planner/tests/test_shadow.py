"""Shadow mode: all is decided and shown, nothing is ordered; leaving it needs no commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange, TickPassed
from firnline_domain.records.orders import ExpireSnapshots, RewriteFiles
from firnline_domain.records.states import PartitionState, TableState
from firnline_domain.records.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.times import DAY_MS
from firnline_domain.values import replace
from firnline_planner.bucket import Bucket
from firnline_planner.reconcile.table import SHADOW_RECHECK_MS
from firnline_planner.state.stores import MemoryStore

TABLE = TableName("u1", ("db",), "t")
FLEET = Thresholds(quiet_ms=0, max_age_ms=10**15, shadow=True)
SHADOW, CANARY = {"firnline.shadow": "true"}, {"firnline.shadow": "false"}


@dataclass
class World:
    """A bucket of a fleet, a clock, and a table."""

    fleet: Thresholds = FLEET
    pairs: MemoryStore = field(default_factory=MemoryStore)
    now_ms: int = 10 * DAY_MS
    head: int = 0

    def __post_init__(self) -> None:
        self.restart(self.fleet)

    def restart(self, fleet: Thresholds) -> None:
        self.bucket = Bucket(self.pairs, fleet)

    def take(self, record: object) -> list[Any]:
        outputs = self.bucket.handle(record, self.now_ms).outputs
        self.bucket.commit()
        return [one.record for one in outputs]

    def tick(self, ms: int) -> list[Any]:
        self.now_ms += ms
        return self.take(TickPassed(0, self.now_ms))

    def commit(self, files: int, settings: dict[str, str] | None = None) -> list[Any]:
        self.head += 1
        added = FileTally(fragments=Tally(files, files, files))
        return self.take(
            FilesChanged(
                event_id=f"e{self.head}",
                table=TABLE,
                ref="main",
                kind=ChangeKind.DELTA,
                snapshot_id=self.head,
                parent_snapshot_id=self.head - 1 or None,
                sequence_number=self.head,
                timestamp_ms=self.now_ms,
                operation="append",
                partitions=(PartitionChange(Scope(0, "[]"), added, FileTally()),),
                format_version=2,
                settings=settings or {},
                observed_at_ms=self.now_ms,
            )
        )

    def shown(self) -> tuple[TableState, PartitionState]:
        [state] = [one for one in self.tick(1_000) if isinstance(one, TableState)]
        return state, state.partitions[0]


def orders(records: list[Any]) -> list[Any]:
    return [one for one in records if isinstance(one, RewriteFiles | ExpireSnapshots)]


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_ordered_and_all_is_shown(world: World) -> None:
    assert orders(world.commit(8)) == []
    state, partition = world.shown()
    assert state.hold is not None
    assert state.hold.reason == "shadow"
    assert (partition.status, partition.reason) == ("would_order", "fragments")
    assert partition.until_ms is None
    assert partition.numbers["fragments"] == 8


def test_what_would_not_be_ordered_says_why(world: World) -> None:
    world.commit(7)
    _, partition = world.shown()
    assert (partition.status, partition.reason) == ("idle", "accumulating")


def test_snapshots_are_not_expired(world: World) -> None:
    world.commit(1)
    world.commit(1)
    records = world.tick(6 * DAY_MS)
    assert orders(records) == []
    assert records[-1].expiry_reason == "shadow"
    world.restart(replace(FLEET, shadow=False))
    sent = orders(world.tick(SHADOW_RECHECK_MS))
    assert ExpireSnapshots in {type(one) for one in sent}


def test_a_table_of_the_canary_is_served(world: World) -> None:
    assert len(orders(world.commit(8, CANARY))) == 1


def test_one_table_alone_may_be_in_the_shadow() -> None:
    world = World(replace(FLEET, shadow=False))
    assert orders(world.commit(8, SHADOW)) == []
    assert world.shown()[1].status == "would_order"
    assert len(orders(world.commit(1))) == 1


def test_after_the_shadow_tables_are_served_without_a_commit(world: World) -> None:
    world.commit(8)
    world.restart(replace(FLEET, shadow=False))
    assert orders(world.tick(SHADOW_RECHECK_MS - 1)) == []
    assert len(orders(world.tick(1))) == 1


def test_what_holds_it_anyway_goes_before_the_shadow() -> None:
    world = World(replace(FLEET, window="2000-01-01T00:00Z/2000-01-02T00:00Z"))
    world.commit(8)
    state, partition = world.shown()
    assert state.hold is not None
    assert state.hold.reason == partition.reason == "outside_window"
    assert partition.status == "idle"
