"""The sweep alone on two thousand tables: each commit is seen within the stated delay, and no
minute has more calls than it may."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from firnline_adapters.consumer.threads import Inline
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import TableName
from firnline_domain.records.events import TableChange, TableCommitted
from firnline_iceberg.table.catalog_client import StoredMetadata
from firnline_iceberg.table.loaded_table import TableGone
from firnline_listener.core.call_budget import CallBudget
from firnline_listener.core.known_tables import KnownTables, Place
from firnline_listener.core.queue import LookQueue
from firnline_listener.core.reader import CatalogReader
from firnline_listener.core.source_loop import SourceLoop
from firnline_listener.handlers import CatalogWork, Listener
from firnline_listener.sources.sweep import JITTER, Sweep, SweepTimes

TABLES, BUSY, QUIET_S = 2_000, 50, 7_200.0
PER_MINUTE, STEP_S = 600, 0.5
MINUTES = 6
WAIT_S = 15  # for a call, behind looks that are due at once; in which order, a set's hashes say
Name = tuple[str, ...]


@dataclass
class Clock:
    """Seconds of a world in which time passes as it is told."""

    at: float = 1_000_000.0

    def now(self) -> float:
        return self.at

    def now_ms(self) -> int:
        return int(self.at * 1000)

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Lake:
    """A catalog of metadata alone, that counts its calls."""

    clock: Clock
    budget: CallBudget
    tables: dict[Name, dict[str, Any]] = field(default_factory=dict)
    calls: list[float] = field(default_factory=list)
    uuids: count[int] = field(default_factory=count)
    catalog_path: str = "lake"
    prefix: str = ""

    def commit(self, name: Name, changed_s: float | None = None) -> int:
        """Add a snapshot to a table, which is created if there is none; return its id."""
        table = self.tables.setdefault(
            name, {"table-uuid": str(UUID(int=next(self.uuids))), "snapshots": [], "refs": {}}
        )
        parent = table["snapshots"][-1]["snapshot-id"] if table["snapshots"] else None
        number = sum(len(one["snapshots"]) for one in [table]) + 1
        at_ms = int((self.clock.at if changed_s is None else changed_s) * 1000)
        snapshot = {"snapshot-id": number, "timestamp-ms": at_ms, "parent-snapshot-id": parent}
        table["snapshots"].append(snapshot)
        table["refs"]["main"] = {"snapshot-id": number, "type": "branch"}
        table["last-updated-ms"] = at_ms
        return number

    def _count_call(self) -> None:
        self.budget.take_call()
        self.calls.append(self.clock.at)

    def read_metadata(
        self, name: Name, snapshots: str = "all", etag: str = ""
    ) -> StoredMetadata | None:
        self._count_call()
        if (table := self.tables.get(name)) is None:
            raise TableGone(TableName("", name[:-1], name[-1]))
        version = str(len(table["snapshots"]))
        return None if version == etag else StoredMetadata(version, table, version, 1_000)

    def list_namespace(self, namespace: Name) -> tuple[list[Name], list[Name]]:
        self._count_call()
        self._count_call()
        tables = [one for one in self.tables if one[:-1] == namespace]
        return tables, [] if namespace else sorted({one[:1] for one in self.tables})


class World:
    """A lake, a listener that sweeps it, and who commits."""

    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self.clock, self.broker = Clock(), MemoryBroker()
        budget = CallBudget(per_minute, self.clock.now, self.clock.sleep)
        self.lake, self.known = Lake(self.clock, budget), KnownTables()
        work = CatalogWork(
            CatalogReader("lake", self.lake, self.known), budget, Inline(), LookQueue()
        )
        publisher, log = MemoryPublisher(self.broker), Log("listener")
        clocks = (self.clock.now, self.clock.now_ms)
        self.listener = Listener({"lake": work}, self.known, publisher, log, *clocks)
        self.dice = random.Random(7)
        self.times = SweepTimes(per_minute)
        more = (lambda _: None, self.dice.random)
        sweep = Sweep("lake", (), self.known, self.times, lambda _: True, *clocks, *more)
        self.loop = SourceLoop("sweep", sweep, self.listener.ring, log)

    def step(self) -> None:
        self.clock.at += STEP_S
        self.loop.run_once(0)
        while self.listener.step(0):
            pass

    def most_calls(self, since: float) -> int:
        """Return the most calls of a minute."""
        calls = [at for at in self.lake.calls if at >= since]
        return max(bisect_left(calls, at + 60) - number for number, at in enumerate(calls))


def table(number: int) -> Name:
    return (f"n{number % 20}", f"t{number}")


def new_snapshots(events: Sequence[TableCommitted]) -> set[tuple[Name, int]]:
    return {(one.table.path, new.snapshot_id) for one in events for new in one.snapshots}


def test_two_thousand_tables_within_the_delay_and_the_budget() -> None:
    world = World()
    for number in range(TABLES):
        busy_s = 0.0 if number < BUSY else QUIET_S * (0.5 + world.dice.random())
        world.lake.commit(table(number), world.clock.at - busy_s)
    while len(world.known.by_key) < TABLES:
        world.step()
    # New tables, those that are known, and listings share the calls.
    assert world.clock.at - 1_000_000 < 3 * 60 * TABLES / PER_MINUTE
    began, commits = world.clock.at, dict[tuple[Name, int], tuple[float, float]]()
    for _ in range(int(MINUTES * 60 / STEP_S)):
        if world.dice.random() < BUSY * STEP_S / 30:
            number = world.dice.randrange(BUSY)
        elif world.dice.random() < 0.02:
            number = world.dice.randrange(BUSY, TABLES)
        else:
            number = -1
        if number >= 0 and world.clock.at < began + (MINUTES - 3) * 60:
            name = table(number)
            quiet_s = world.clock.at - world.lake.tables[name]["last-updated-ms"] / 1000
            # Planned by what was seen last: commits since do not bring a look forward.
            quiet_s = max([quiet_s, *(one[1] for key, one in commits.items() if key[0] == name)])
            commits[name, world.lake.commit(name)] = world.clock.at, quiet_s
        world.step()
        for one in new_snapshots(world.broker.records("table-commits")) & commits.keys():
            at, quiet_s = commits.pop(one)
            assert world.clock.at - at <= world.times.table_s(quiet_s) * (1 + JITTER) + WAIT_S
        world.broker.logs.clear()
    now, times = world.clock.at, world.times
    assert [one for one, (at, s) in commits.items() if at + times.table_s(s) * 1.2 < now] == []
    assert world.most_calls(began) <= PER_MINUTE


def test_a_budget_that_is_too_small_is_kept_and_makes_all_late_alike() -> None:
    world = World(per_minute=30)
    for number in range(60):
        world.lake.commit(table(number))
    for _ in range(int(15 * 60 / STEP_S)):
        world.step()
    assert len(world.known.by_key) == 60
    assert world.most_calls(0) <= 30


def test_a_table_that_is_new_dropped_or_moved_is_noticed_by_its_listing() -> None:
    world = World()
    world.lake.commit(table(1))
    world.lake.commit(table(2))
    for _ in range(20):
        world.step()
    world.lake.tables["n1", "moved"] = world.lake.tables.pop(table(1))
    del world.lake.tables[table(2)]
    world.lake.commit(("new", "table"))
    for _ in range(int(5 * 60 / STEP_S)):
        world.step()
    changes = {
        (one.table.path, one.change)
        for one in world.broker.records("table-commits")
        if one.change is not TableChange.COMMITTED
    }
    assert changes == {
        (table(1), TableChange.REGISTERED),
        (table(2), TableChange.REGISTERED),
        (("n1", "moved"), TableChange.RENAMED),
        (table(2), TableChange.DROPPED),
        (("new", "table"), TableChange.REGISTERED),
    }
    assert {one.namespace for one in world.known.namespaces} >= {("n1",), ("new",)}
    assert Place("lake", ("n2",)) not in world.known.namespaces
