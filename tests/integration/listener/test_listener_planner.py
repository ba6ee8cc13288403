"""Listener, enricher and planner over one broker in memory and real tables, without a gateway: each
snapshot is folded once, whatever the sources say."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from firnline_domain.identity import TableName
from firnline_domain.records.events import TableChange
from firnline_listener.handlers import GONE_S
from firnline_listener.payloads.registry import PAYLOADS
from firnline_listener.port import Doorbell

from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.memory_flow import SCHEMA, SPEC, TARGET, check_counters, commit, rows
from tests.kit.memory_listener import Capture, meddle
from tests.kit.recorded_events import EVENTS, Message, parse_event

SECONDS_TO_HEAL = 60
SMALL = {"write.target-file-size-bytes": str(TARGET)}
BELL = Doorbell("lake", ("db",), "t")


def make_capture(tmp_path: Path, sweeps: bool = False, **more: float) -> Capture:
    catalog = MemoryCatalog(f"file://{tmp_path}")
    catalog.make("db.t", SCHEMA, SPEC, **SMALL)
    return Capture(catalog, sweeps, **more)


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


@pytest.mark.parametrize("payload", PAYLOADS)
def test_each_products_events_fold_each_snapshot_once(payload: str, tmp_path: Path) -> None:
    dice, capture = random.Random(payload), make_capture(tmp_path)
    capture.ring(BELL)
    waiting = list[Message]()
    for number in range(20):
        table = capture.catalog.load_table("db.t")
        table.append(rows((number % 3, number)))
        waiting.append(EVENTS[payload](table))
        if dice.random() < 0.5:
            told, waiting = meddle(waiting, dice), []
            capture.ring(*(bell for one in told for bell in parse_event(payload, one)))
            capture.second()
    capture.ring(*parse_event(payload, EVENTS[payload](table)))
    for _ in range(SECONDS_TO_HEAL):
        capture.second()
    check_counters(capture)
    assert capture.folded_once()
    assert len(capture.changes()) == 1 + 20
    assert capture.broker.records("resync-requests") == []


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


def test_two_listeners_at_once(tmp_path: Path) -> None:
    """Each has the doorbells in an order of its own, and knows of the other by the topics alone."""
    dice, one = random.Random(11), make_capture(tmp_path)
    other = Capture(one.catalog)
    other.broker, other.publisher = one.broker, one.publisher
    other.restart()
    for number in range(12):
        one.catalog.load_table("db.t").append(rows((number % 3, number)))
        for listener in dice.sample([one, other], 2):
            listener.read_states()
            listener.ring(*meddle([BELL] * 3, dice))
        other.now_ms = one.now_ms
        if dice.random() < 0.5:
            one.second()
    for listener in (one, other):
        listener.ring(BELL)
    seconds(one, SECONDS_TO_HEAL)
    check_counters(one)
    events = one.broker.records("table-commits")
    told = Counter(new.snapshot_id for event in events for new in event.snapshots)
    assert set(told.values()) == {2}


def test_a_flood_of_doorbells_is_held_by_the_budget_and_delays_no_other_source(
    tmp_path: Path,
) -> None:
    dice, capture = random.Random(13), make_capture(tmp_path, per_minute=30)
    take_call, calls = capture.tables.pace, list[float]()

    def note_call() -> None:
        take_call()
        calls.append(capture.now())

    capture.tables.pace = note_call
    forged = [Doorbell("lake", ("db",), f"forged-{number}") for number in range(100)]
    for number in range(5):
        for _ in range(5):
            capture.ring(*dice.sample([*forged, BELL], 101), source="flood")
        capture.catalog.load_table("db.t").append(rows((1, number)))
        capture.ring(BELL)
        seconds(capture, 15)
        check_counters(capture)
    for at in calls:
        assert sum(at <= one < at + 60 for one in calls) <= 30
