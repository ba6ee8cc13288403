"""Buckets are added to a fleet beside planners that run, and that die: no table is lost, or counted
twice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from firnline_adapters.kafka.assignments import FollowedAssignments, KafkaAssignments
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.assignments import Board
from firnline_domain.records.orders import MoveTable, PauseMaintenance
from firnline_domain.records.pauses import FLEET
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import kafka as broker
from firnline_local.topics.topics import make_topics
from firnline_schemas.topics import all_topics

from tests.integration.test_planner_kill import (
    BUCKETS,
    Herd,
    Listener,
    Members,
    Script,
    assert_all_counted,
    assert_once,
    script,
    send,
)
from tests.kit.long_run import mark_long

__all__ = ["script"]  # a fixture

pytestmark = pytest.mark.stack

MORE = 12
ORDERS = "operator-orders"


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[str]:
    """A broker of each test alone: its topics become wider."""
    port = free_port()
    command = broker.command(tmp_path / "kafka", port, free_port(frozenset({port})))
    with run_process(command, tmp_path / "kafka.log"):
        address = broker.bootstrap_servers(port)
        make_topics(address, BUCKETS)
        yield address


@pytest.fixture
def herd(own_kafka: str, tmp_path: Path) -> Iterator[Herd]:
    made = Herd(Members(own_kafka, tmp_path), "ab")
    yield made
    made.end()


@pytest.fixture
def listener(own_kafka: str, script: Script) -> Iterator[Listener]:
    made = Listener(own_kafka, script)
    yield made
    made.inbox.close()


def add_buckets(kafka: str) -> None:
    """As an operator does; return when some planner has each."""
    command = (sys.executable, "-m", "firnline_local.topics.topics", "--buckets", str(MORE))
    subprocess.run(command, env={"FIRNLINE_KAFKA": kafka}, check=True, timeout=60)
    deadline_s = time.monotonic() + 60
    while len(board(kafka).expected_loads()) < MORE:
        assert time.monotonic() < deadline_s, board(kafka).expected_loads()
        time.sleep(0.5)


def board(kafka: str) -> Board:
    assignments = KafkaAssignments(kafka, Board(BUCKETS))
    assignments.close()
    return assignments.board


def move(kafka: str, script: Script, first: int) -> dict[str, int]:
    """Two tables to each bucket that was added; where they were told to go."""
    publisher = KafkaPublisher(kafka, BUCKETS, "moves")
    told = {}
    for number, writer in enumerate(script.writers[: 2 * (MORE - BUCKETS)]):
        bucket = BUCKETS + (number + first) % (MORE - BUCKETS)
        order = MoveTable(writer.table, bucket, "test", 1)
        publisher.publish(ORDERS, writer.table.uuid, order)
        told[writer.table.uuid] = bucket
    publisher.flush()
    return told


def slices(script: Script, count: int) -> Iterator[list]:
    size = -(-len(script.stream) // count)
    for number in range(count):
        yield script.stream[number * size : (number + 1) * size]


def listen_to_the_end(herd: Herd, listener: Listener) -> None:
    for _ in range(120):
        herd.revive()
        listener.listen()
        if listener.at_the_end():
            return


def assert_moved(herd: Herd, listener: Listener, kafka: str, told: dict[str, int]) -> None:
    """Every move is carried out in the end: a planner that was just killed may not be there yet."""
    deadline_s = time.monotonic() + 60
    while (found := {one: board(kafka).bucket_of_table(one) for one in told}) != told:
        assert time.monotonic() < deadline_s, (found, told)
        herd.revive()
        listener.listen()


def partitions(kafka: str) -> dict[str, int]:
    found = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=30).topics
    return {name: len(one.partitions) for name, one in found.items()}


@pytest.mark.parametrize("knowing", mark_long([False, True], but=[False]))
def test_tables_in_added_buckets_are_counted_once(
    herd: Herd, listener: Listener, script: Script, own_kafka: str, knowing: bool
) -> None:
    """`knowing`: the enricher follows assignments, and writes to partitions that were not there
    when it started."""
    places = FollowedAssignments(own_kafka, BUCKETS, Log("growth")) if knowing else None
    listener.publisher = KafkaPublisher(own_kafka, BUCKETS, "growth", places)
    first, second, third, fourth = slices(script, 4)
    send(listener, first)
    listener.listen()
    add_buckets(own_kafka)
    told = move(own_kafka, script, first=0)
    send(listener, second)
    listener.listen()
    herd.kill("a")
    send(listener, third)
    listener.listen()
    told |= move(own_kafka, script, first=1)
    herd.kill("b")
    send(listener, fourth)
    listen_to_the_end(herd, listener)
    assert_all_counted(listener.heard, script)
    if not knowing:  # what comes round by the home is late, and may be asked for again
        assert_once(listener.heard, script)
    assert_moved(herd, listener, own_kafka, told)
    wanted = {one.name: one.partitions(BUCKETS, MORE) for one in all_topics()}
    assert partitions(own_kafka).items() >= wanted.items()
    assert partitions(own_kafka)[f"firnline-{herd.members.app}-state"] == MORE
    if places:
        places.close()


@pytest.mark.long
def test_the_fleets_pause_holds_in_buckets_that_are_added_later(
    herd: Herd, listener: Listener, script: Script, own_kafka: str
) -> None:
    publisher = KafkaPublisher(own_kafka, BUCKETS, "people")
    publisher.broadcast(ORDERS, FLEET, PauseMaintenance(None, "so", "me", 1))
    publisher.flush()
    add_buckets(own_kafka)
    told = move(own_kafka, script, first=0)
    send(listener, script.stream)
    listen_to_the_end(herd, listener)
    states = listener.heard.states
    for _ in range(30):
        if all(one.hold and one.hold.reason == "paused" for one in states.values()):
            break
        listener.listen()
    assert {uuid for uuid, one in states.items() if one.hold} >= set(told)
    assert listener.heard.orders == []


@pytest.mark.long
def test_a_group_reads_what_is_ordered_in_added_buckets(
    herd: Herd, listener: Listener, script: Script, own_kafka: str
) -> None:
    """Workers that were there before: the orders of a moved table come to its new partition."""
    group, topics = "workers-of-before", ["rewrite-tasks"]
    inbox = KafkaInbox(own_kafka, group, topics, listener.publisher, Log("growth"))
    inbox.poll(5)
    add_buckets(own_kafka)
    told = move(own_kafka, script, first=0)
    send(listener, script.stream)
    found: dict[str, set[int]] = {}
    for _ in range(60):
        for one in inbox.poll(1.0):
            found.setdefault(one.record.table.uuid, set()).add(one.partition)
        if all(told[uuid] in found.get(uuid, ()) for uuid in told):
            break
    inbox.close()
    assert {uuid: bucket for uuid, bucket in told.items() if bucket in found.get(uuid, ())} == told
