"""Tables move between the buckets of two planners that are killed and frozen meanwhile."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_adapters.kafka.assignments import FollowedAssignments, KafkaAssignments
from firnline_adapters.kafka.client import KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import bucket_of
from firnline_domain.records.assignments import Board
from firnline_domain.records.orders import MoveTable, PauseMaintenance
from firnline_domain.records.pauses import HoldReason
from firnline_local.processes.process import Process

from tests.integration.test_planner_kill import (
    BUCKETS,
    SEED,
    Herd,
    Listener,
    Members,
    Script,
    assert_all_counted,
    assert_once,
    listener,
    script,
    send,
)
from tests.topics import bring_home, forget

__all__ = ["listener", "script"]  # fixtures

pytestmark = pytest.mark.stack

ORDERS = "operator-orders"


@pytest.fixture
def members(kafka: str, tmp_path: Path) -> Iterator[Members]:
    forget(kafka, "file-changes", "maintenance-events", ORDERS, "table-handovers")
    yield Members(kafka, tmp_path)
    bring_home(kafka)


@pytest.fixture
def herd(members: Members) -> Iterator[Herd]:
    made = Herd(members, "ab")
    yield made
    made.end()


def move(kafka: str, script: Script, dice: random.Random) -> dict[str, int]:
    """Four tables, each to any bucket; where they were told to go."""
    publisher = KafkaPublisher(kafka, BUCKETS, "moves")
    told = {}
    for writer in dice.sample(script.writers, 4):
        table, bucket = writer.table, dice.randrange(BUCKETS)
        publisher.publish(ORDERS, table.uuid, MoveTable(table, bucket, "test", 1))
        told[table.uuid] = bucket
    publisher.flush()
    return told


def live_through(herd: Herd, listener: Listener, script: Script) -> dict[str, int]:
    """The script in slices, with moves in each, and with deaths; where tables were last sent."""
    dice, slices, told = random.Random(SEED), 10, dict[str, int]()
    size = -(-len(script.stream) // slices)
    frozen = False
    for number in range(slices):
        send(listener, script.stream[number * size : (number + 1) * size])
        told |= move(herd.members.kafka, script, dice)
        for _ in range(dice.randint(2, 4)):
            listener.listen()
        if frozen:
            herd.go_on("a")
            frozen = False
        elif number % 4 == 1:
            herd.stop("a")
            frozen = True
            for _ in range(10):  # longer than its session: it comes back a zombie
                listener.listen()
        else:
            herd.kill(dice.choice("ab"))
        herd.revive()
    for _ in range(120):
        herd.revive()
        listener.listen()
        if listener.at_the_end():
            break
    return told


def assert_where_told(kafka: str, told: dict[str, int]) -> None:
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        assignments = KafkaAssignments(kafka, Board(BUCKETS))
        assignments.close()
        found = {one: assignments.board.bucket_of_table(one) for one in told}
        if found == told:
            return
        time.sleep(0.5)
    assert found == told


def assert_known(places: FollowedAssignments, told: dict[str, int]) -> None:
    """Soon: a thread of its own follows, up to the oldest transaction that a dead planner has left
    open."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        if {one: places.bucket_of_table(one) for one in told} == told:
            return
        time.sleep(0.2)
    assert {one: places.bucket_of_table(one) for one in told} == told


def assert_paused(listener: Listener, uuid: str) -> None:
    """In the end: what writers did may be read, and shown, before the order on another topic."""
    for _ in range(60):
        state = listener.heard.states.get(uuid)
        if state and state.hold:
            assert state.hold.reason == HoldReason.PAUSED
            return
        listener.listen()
    raise AssertionError("no state says that the table is paused")


def test_tables_move_and_nothing_is_counted_or_ordered_twice(
    herd: Herd, listener: Listener, script: Script
) -> None:
    """Told by publishers that know of no assignment: all goes by the tables' homes, in order, so
    that nobody is even asked for anything again."""
    told = live_through(herd, listener, script)
    assert_all_counted(listener.heard, script)
    assert_once(listener.heard, script)
    assert_where_told(herd.members.kafka, told)


@pytest.mark.long
def test_publishers_that_know_and_know_late(herd: Herd, listener: Listener, script: Script) -> None:
    """What comes round by the home is late, and may be asked for again. Orders are seen once."""
    places = FollowedAssignments(herd.members.kafka, BUCKETS, Log("moves"))
    listener.publisher = KafkaPublisher(herd.members.kafka, BUCKETS, "moves", places)
    told = live_through(herd, listener, script)
    assert_where_told(herd.members.kafka, told)
    assert_known(places, told)
    places.close()
    assert_all_counted(listener.heard, script)
    sent = Counter((order.task_id, order.attempt) for order in listener.heard.orders)
    assert set(sent.values()) == {1}


@pytest.mark.long
def test_faust_does_not_take_tables_that_are_elsewhere(
    members: Members, listener: Listener, script: Script
) -> None:
    """It would count none of their records, and say nothing."""
    [writer, *_] = script.writers
    away = (bucket_of(writer.table.uuid, BUCKETS) + 1) % BUCKETS
    with members.serving("kafka", "a"):
        pause = PauseMaintenance(writer.table, "test", "test", 1)
        listener.publisher.publish(ORDERS, writer.table.uuid, pause)
        order = MoveTable(writer.table, away, "test", 1)
        listener.publisher.publish(ORDERS, writer.table.uuid, order)
        send(listener, [one for one in script.stream if one.table == writer.table])
        assert_paused(listener, writer.table.uuid)
        assert_where_told(members.kafka, {writer.table.uuid: away})
    other = Process(members.command("faust", "f"), members.log("f"))
    try:
        deadline_s = time.monotonic() + 60
        while other.exit_code() is None and time.monotonic() < deadline_s:
            time.sleep(0.2)
        assert other.exit_code() == 2, other.log_tail()
        assert "tables are not where their hash says" in members.log("f").read_text()
    finally:
        other.kill_group()
        other.wait_or_kill()
