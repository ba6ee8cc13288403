"""Listener, enricher and planner over one broker in memory and real tables, without a gateway: each
snapshot is folded once, whatever the sources say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from firnline_adapters.consumer.threads import Inline
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import TableName
from firnline_domain.records.events import ChangeKind, TableChange
from firnline_domain.records.parts.tallies import FileTally
from firnline_listener.core.call_budget import CallBudget
from firnline_listener.core.known_tables import STATES, KnownTables
from firnline_listener.core.queue import LookQueue
from firnline_listener.core.reader import CatalogReader
from firnline_listener.core.settlements import Settlements
from firnline_listener.handlers import GONE_S, CatalogWork, Listener
from firnline_listener.port import Doorbell
from firnline_listener.sources.sweep import Sweep, SweepTimes

from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.memory_flow import SCHEMA, SPEC, TARGET, Flow, commit, recount, rows

SECONDS_TO_HEAL = 60
SMALL = {"write.target-file-size-bytes": str(TARGET)}
BELL = Doorbell("lake", ("db",), "t")


class Capture(Flow):
    """The flow behind a listener that has one source and, for `second`, a sweep."""

    def __init__(self, catalog: MemoryCatalog, sweeps: bool = False) -> None:
        self._sweeps = sweeps
        super().__init__(catalog)

    def restart(self) -> None:
        super().restart()
        self.known, self.looks = KnownTables(), LookQueue()
        self.states_read = Counter[tuple[str, int]]()
        self.read_states()
        budget = CallBudget(1e9, self.now)
        reader = CatalogReader("lake", self.tables, self.known)
        work = CatalogWork(reader, budget, Inline(), self.looks)
        parts = (self.known, self.publisher, Log("listener"), self.now, lambda: self.now_ms)
        self.listener = Listener({"lake": work}, *parts)
        self.open = Settlements()
        dice = random.Random(1)
        times = SweepTimes(600, shortest_s=2.0, listing_s=5.0)
        clocks = (self.now, lambda: 0, lambda _: None, dice.random)  # all tables are busy
        self.sweep = Sweep("lake", (), self.known, times, lambda _: True, *clocks)

    def now(self) -> float:
        return self.now_ms / 1000

    def read_states(self) -> None:
        for place, log in self.broker.logs.items():
            if place[0] == STATES:
                for key, value in log[self.states_read[place] :]:
                    self.known.fold_state(key, self.codec.decode(value))
                self.states_read[place] = len(log)

    def ring(self, *doorbells: Doorbell) -> None:
        """Doorbells of a source, dealt with before this returns."""
        for one in doorbells:
            self.listener.ring("test", one, self.open.begin(None))
        self.work_off()

    def work_off(self) -> None:
        while self.listener.step(0) or len(self.open):
            self.open.take_settled()

    def second(self) -> None:
        super().second()
        self.read_states()
        if self._sweeps:
            for one in self.sweep.poll(0):
                self.listener.ring("sweep", one, self.open.begin(None))
            self.sweep.settle(1 << 60)
        self.work_off()

    def changes(self) -> list[TableChange]:
        return [one.change for one in self.broker.records("table-commits")]

    def folded_once(self) -> bool:
        """Return whether each snapshot's files were read for the planner once, at the most."""
        deltas = Counter(
            (one.snapshot_id, one.chunk)
            for one in self.broker.records("file-changes")
            if one.kind is ChangeKind.DELTA and one.snapshot_id is not None
        )
        return set(deltas.values()) <= {1}


def make_capture(tmp_path: Path, sweeps: bool = False) -> Capture:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC, **SMALL)
    return Capture(catalog, sweeps)


def check_counters(capture: Capture, name: str = "t") -> None:
    table = capture.tables.load_named(("db",), name)
    state = capture.state(table.identity.key)
    assert not state.waiting_for_resync
    assert state.head_snapshot_id == table.head_id("main")
    holds = {one.scope: one.holds for one in state.partitions if one.holds != FileTally()}
    assert holds == recount(table)
    assert capture.broker.records("dead-letters") == []


def meddle(doorbells: Sequence[Doorbell], dice: random.Random) -> list[Doorbell]:
    """A tenth is lost, a tenth comes twice, all of it out of order."""
    kept = [one for one in doorbells for _ in range(dice.choices([0, 1, 2], [1, 8, 1])[0])]
    return dice.sample(kept, len(kept))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_source_loses_the_counters_are_the_tables(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    capture = make_capture(tmp_path)
    waiting = list[Doorbell]()
    for number in range(20):
        commit(capture.catalog.load_table("db.t"), dice, number)
        waiting.append(BELL)
        if dice.random() < 0.5:
            capture.ring(*meddle(waiting, dice))
            waiting.clear()
            capture.second()
        if dice.random() < 0.1:
            capture.restart()
    capture.catalog.load_table("db.t").append(rows((9, 99)))
    capture.ring(BELL)
    for _ in range(SECONDS_TO_HEAL):
        capture.second()
    check_counters(capture)


def test_each_snapshot_is_folded_once(tmp_path: Path) -> None:
    dice, capture = random.Random(3), make_capture(tmp_path)
    capture.ring(BELL)
    for number in range(12):
        capture.catalog.load_table("db.t").append(rows((number % 3, number)))
        capture.ring(*meddle([BELL] * 3, dice))
        capture.second()
    capture.ring(BELL)
    capture.second()
    check_counters(capture)
    assert capture.folded_once()
    assert capture.changes() == [TableChange.CREATED] + [TableChange.COMMITTED] * 12
    assert capture.broker.records("resync-requests") == []


def early(location: str) -> Doorbell:
    return Doorbell("lake", metadata_location=location, is_early=True)


def test_a_metadata_file_is_waited_for_until_the_catalog_names_it(tmp_path: Path) -> None:
    capture = make_capture(tmp_path)
    capture.ring(BELL)
    table = capture.catalog.load_table("db.t")
    folder = table.metadata_location.rpartition("/")[0]
    capture.ring(early(f"{folder}/00099-of-a-failed-commit.metadata.json"))
    table.append(rows((1, 1)))  # between the file and its event nobody else rings
    for _ in range(3):
        capture.second()
    assert capture.changes() == [TableChange.CREATED, TableChange.COMMITTED]
    looks = capture.tables.loads
    for _ in range(SECONDS_TO_HEAL):
        capture.second()
    assert looks < capture.tables.loads <= looks + 5  # then it gives up
    check_counters(capture)


def test_a_metadata_file_of_a_new_table_rings_for_its_namespace(tmp_path: Path) -> None:
    capture = make_capture(tmp_path)
    capture.ring(BELL)
    capture.catalog.make("db.new", SCHEMA, SPEC, **SMALL)
    capture.ring(early(capture.catalog.load_table("db.new").metadata_location))
    assert capture.changes() == [TableChange.CREATED] * 2
    capture.catalog.rename_table("db.new", "db.newer")
    capture.ring(Doorbell("lake", ("db",), "newer"))
    renamed = capture.catalog.load_table("db.newer")
    renamed.append(rows((1, 1)))
    capture.ring(early(renamed.metadata_location))
    changes = Counter(capture.changes())
    created, committed = changes[TableChange.CREATED], changes[TableChange.COMMITTED]
    assert (created, changes[TableChange.RENAMED], committed) == (2, 1, 1)


def test_a_sweep_alone_finds_every_commit(tmp_path: Path) -> None:
    dice, capture = random.Random(5), make_capture(tmp_path, sweeps=True)
    for number in range(20):
        commit(capture.catalog.load_table("db.t"), dice, number)
        for _ in range(3):
            capture.second()
    for _ in range(SECONDS_TO_HEAL):
        capture.second()
    check_counters(capture)


def test_forged_doorbells_change_nothing(tmp_path: Path) -> None:
    capture = make_capture(tmp_path)
    capture.catalog.load_table("db.t").append(rows((1, 1)))
    capture.ring(BELL)
    capture.second()
    before = len(capture.broker.records("table-commits"))
    forged = [
        Doorbell("lake", ("db",), "t", snapshot_id=666),
        Doorbell("lake", ("db",), "t", metadata_location="s3://evil/metadata.json"),
        Doorbell("lake", ("db",), "other"),
        Doorbell("lake", ("db",), ".."),
        Doorbell("lake", ("no", "such"), "table"),
        Doorbell("elsewhere", ("db",), "t"),
        Doorbell("lake", uuid="00000000-0000-0000-0000-000000000000"),
        Doorbell(""),
    ]
    for _ in range(3):
        capture.ring(*forged)
        capture.second()
    assert len(capture.broker.records("table-commits")) == before
    check_counters(capture)


def test_a_doorbell_with_a_version_that_is_known_costs_no_call(tmp_path: Path) -> None:
    capture = make_capture(tmp_path)
    capture.catalog.load_table("db.t").append(rows((1, 1)))
    capture.ring(BELL)
    table = capture.tables.load_named(("db",), "t")
    [known] = capture.known.by_key.values()
    calls = capture.tables.loads
    capture.ring(
        Doorbell("lake", ("db",), "t", snapshot_id=table.head_id("main")),
        Doorbell("lake", ("db",), "t", metadata_location=known.location),
    )
    assert capture.tables.loads == calls


def seconds(capture: Capture, count: int) -> None:
    for _ in range(count):
        capture.second()


def test_new_renamed_dropped_and_made_again(tmp_path: Path) -> None:
    capture = make_capture(tmp_path, sweeps=True)
    capture.catalog.load_table("db.t").append(rows((1, 1)))
    seconds(capture, 20)
    check_counters(capture)
    first: TableName = capture.tables.load_named(("db",), "t").identity
    capture.catalog.rename_table("db.t", "db.u")
    capture.catalog.load_table("db.u").append(rows((2, 2)))
    seconds(capture, 90)
    check_counters(capture, "u")
    assert capture.state(first.key).table.name == "u"
    capture.catalog.drop_table("db.u")
    capture.catalog.make("db.u", SCHEMA, SPEC, **SMALL).append(rows((3, 3)))
    seconds(capture, 30 + int(GONE_S) * 2)
    check_counters(capture, "u")
    assert capture.state(first.key).removed
    changes = Counter(capture.changes())
    assert changes[TableChange.RENAMED] == 1
    assert changes[TableChange.DROPPED] == 1


def test_a_table_that_is_missing_for_a_moment_is_kept(tmp_path: Path) -> None:
    capture = make_capture(tmp_path, sweeps=True)
    capture.catalog.load_table("db.t").append(rows((1, 1)))
    seconds(capture, 20)
    capture.catalog.rename_table("db.t", "hidden.t")
    capture.ring(BELL)
    capture.catalog.rename_table("hidden.t", "db.t")
    seconds(capture, int(GONE_S) * 3)
    check_counters(capture)
    assert TableChange.DROPPED not in capture.changes()


def test_what_was_committed_during_a_restart_is_found_from_the_planners_state(
    tmp_path: Path,
) -> None:
    capture = make_capture(tmp_path)
    capture.catalog.load_table("db.t").append(rows((1, 1)))
    capture.ring(BELL)
    seconds(capture, 3)
    for number in range(3):
        capture.catalog.load_table("db.t").append(rows((number, number)))
    capture.restart()
    capture.ring(BELL)
    seconds(capture, 3)
    check_counters(capture)
    assert capture.folded_once()
    events = capture.broker.records("table-commits")
    assert [len(one.snapshots) for one in events[1:]] == [1, 1, 1]
    assert not any(one.metadata_changed for one in events[1:])
