"""Planners are killed and stopped in the middle of a stream: nothing is lost or counted twice.

A script of commits (with the commits that the planner's own orders lead to) is written by running
the twin; the drivers then read the same records from a real broker.
"""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_adapters.service import AGAIN
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import FilesChanged
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.settings.thresholds import Thresholds
from firnline_local.processes.process import Process
from firnline_planner.bucket.inputs import InputReader

from tests.kit.memory_driver import MemoryDriver
from tests.kit.planner_processes import (
    BUCKETS,
    COMMITS,
    NOW_MS,
    SEED,
    TABLES,
    Heard,
    Listener,
    Members,
    Script,
    Writer,
    next_commit,
)
from tests.topics import forget

pytestmark = pytest.mark.stack


@pytest.fixture
def script() -> Script:
    """Fresh tables for each test, for the topics keep those of the last one."""
    dice = random.Random(20261121)
    broker = MemoryBroker(BUCKETS)
    twin = MemoryDriver(
        broker, InputReader(RecordCodec(), Log("planner")), Thresholds(), lambda: NOW_MS
    )
    publisher = MemoryPublisher(broker)
    writers = [Writer(TableName(str(uuid.uuid4()), ("db",), f"t{n}")) for n in range(TABLES)]
    done: set[str] = set()
    made = Script([], writers, {})
    for _ in range(COMMITS):
        for writer in writers:
            made.stream.append(next_commit(writer, made.orders, done, dice))
            publisher.publish("file-changes", writer.table.uuid, made.stream[-1])
        twin.run()
        made.orders |= {one.task_id: one for one in broker.records("rewrite-tasks")}
    return made


@pytest.fixture
def members(kafka: str, tmp_path: Path) -> Members:
    """Members of a fleet of their own. A planner that is new reads a switch that another test has
    pulled and let go, and between the two it holds back orders of these tables."""
    forget(kafka, "file-changes", "maintenance-events", "operator-orders")
    return Members(kafka, tmp_path)


@pytest.fixture
def listener(kafka: str, script: Script) -> Iterator[Listener]:
    made = Listener(kafka, script)
    yield made
    made.inbox.close()


def killed_while_reading(
    planner: AbstractContextManager[Process], listener: Listener, part: list[FilesChanged]
) -> None:
    """Send a part of the stream and kill the planner when it has sent something of it."""
    with planner as process:
        send(listener, part)
        before = len(listener.heard.orders)
        while len(listener.heard.orders) == before:
            listener.listen()
        process.kill_group()


def send(listener: Listener, part: list[FilesChanged]) -> None:
    for change in part:
        listener.publisher.publish("file-changes", change.table.uuid, change)
    listener.publisher.flush()


def listen_to_the_end(listener: Listener, planner: Process) -> None:
    deadline_s = time.monotonic() + 180
    while not listener.at_the_end():
        assert time.monotonic() < deadline_s, planner.log_tail(200)
        listener.listen()


@pytest.mark.long
@pytest.mark.parametrize("driver", ["faust", "kafka"])
def test_counters_and_orders_survive_two_kills(
    driver: str, members: Members, listener: Listener, script: Script
) -> None:
    third = len(script.stream) // 3
    killed_while_reading(members.serving(driver, "a"), listener, script.stream[:third])
    killed_while_reading(members.serving(driver, "a"), listener, script.stream[third : 2 * third])
    with members.serving(driver, "a") as planner:
        send(listener, script.stream[2 * third :])
        listen_to_the_end(listener, planner)
    assert_all_counted(listener.heard, script)
    if driver == "faust":
        assert members.log("a").read_text().count("action=restoring") == 2
        # Under Faust state, orders and offsets become durable one after the other (0021): an order
        # that died with the planner comes with the next event, whose snapshot it names. Where a
        # resync healed a lost event it may have another reason, too.
        healed = {request.table for request in listener.heard.requests}
        assert served(listener.heard.orders, healed) == served(script.orders.values(), healed)
    else:
        assert_once(listener.heard, script)


class Herd:
    """Planners that are killed, or stopped until the group has given them up, and come back."""

    def __init__(self, members: Members, names: str) -> None:
        self.members = members
        self.lives = {name: self._started(name) for name in names}

    def _started(self, name: str) -> Process:
        return Process(self.members.command("kafka", name), self.members.log(name))

    def kill(self, name: str) -> None:
        self.lives[name].kill_group()
        self.lives[name].wait_or_kill()
        self.lives[name] = self._started(name)

    def stop(self, name: str) -> None:
        os.kill(self.lives[name].pid, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        os.kill(self.lives[name].pid, signal.SIGCONT)

    def revive(self) -> None:
        """As a supervisor does: whoever found itself fenced has ended."""
        for name, life in self.lives.items():
            if life.exit_code() is not None:
                self.lives[name] = self._started(name)

    def end(self) -> None:
        for life in self.lives.values():
            life.kill_group()
            life.wait_or_kill()


@pytest.fixture
def herd(members: Members) -> Iterator[Herd]:
    made = Herd(members, "ab")
    yield made
    made.end()


def test_two_planners_killed_and_frozen_at_random_repeat_nothing(
    herd: Herd, listener: Listener, script: Script
) -> None:
    """Every event counts once and every order is seen once, whatever dies when."""
    dice, slices = random.Random(SEED), 12
    size = -(-len(script.stream) // slices)
    frozen: str | None = None
    for number in range(slices):
        send(listener, script.stream[number * size : (number + 1) * size])
        for _ in range(dice.randint(2, 5)):
            listener.listen()
        if frozen:
            herd.go_on(frozen)
            frozen = None
        elif dice.random() < 0.5:
            herd.kill(dice.choice("ab"))
        else:
            frozen = dice.choice("ab")
            herd.stop(frozen)
            for _ in range(10):  # longer than its session: it comes back a zombie
                listener.listen()
        herd.revive()
    if frozen:
        herd.go_on(frozen)
    for _ in range(120):
        herd.revive()
        listener.listen()
        if listener.at_the_end():
            break
    assert_all_counted(listener.heard, script)
    assert_once(listener.heard, script)


@pytest.mark.long
@pytest.mark.parametrize(("first", "then"), [("faust", "kafka"), ("kafka", "faust")])
@pytest.mark.parametrize("gone", [False, True])
def test_a_change_of_drivers_heals_by_itself(
    first: str, then: str, gone: bool, members: Members, listener: Listener, script: Script
) -> None:
    """The other's changelog knows nothing: what the topic still has is read again, and what it has
    not is asked for. Orders may repeat, under ids of their own tables' states then."""
    half = len(script.stream) // 2
    with members.serving(first, "a"):
        send(listener, script.stream[:half])
        while len(listener.heard.states) < len(script.writers):
            listener.listen()
    if gone:
        forget(members.kafka, "file-changes")
    with members.serving(then, "a") as planner:
        send(listener, script.stream[half:])
        listen_to_the_end(listener, planner)
    assert_all_counted(listener.heard, script)
    assert bool(listener.heard.requests) >= (gone and then == "kafka")


@pytest.mark.long
def test_planners_of_both_drivers_never_work_together(members: Members) -> None:
    """Each would keep counters of its own, and send orders of its own."""
    with members.serving("faust", "a"):
        other = Process(members.command("kafka", "b"), members.log("b"))
        try:
            deadline_s = time.monotonic() + 60
            while other.exit_code() is None and time.monotonic() < deadline_s:
                time.sleep(0.2)
            assert other.exit_code() == AGAIN, other.log_tail()
            assert "planners of the other driver run here" in members.log("b").read_text()
        finally:
            other.kill_group()
            other.wait_or_kill()


def assert_all_counted(heard: Heard, script: Script) -> None:
    assert {writer.table.name: held(heard, writer.table) for writer in script.writers} == {
        writer.table.name: dict(writer.holds) for writer in script.writers
    }
    assert not any(state.waiting_for_resync for state in heard.states.values())


def assert_once(heard: Heard, script: Script) -> None:
    """No order lost, none sent twice, and nobody was asked for anything."""
    sent = Counter((order.task_id, order.attempt) for order in heard.orders)
    assert set(sent.values()) == {1}
    assert order_set(heard.orders, set()) == order_set(script.orders.values(), set())
    assert heard.requests == []


def held(heard: Heard, table: TableName) -> dict[Scope, int]:
    state = heard.states[table.uuid]
    return {one.scope: one.holds.fragments.files for one in state.partitions}


def order_set(
    orders: Iterable[RewriteFiles], without: set[TableName]
) -> set[tuple[str, Scope, str]]:
    """Orders without their repetitions and moments."""
    return {
        (order.task_id, order.scope, order.reason) for order in orders if order.table not in without
    }


def served(
    orders: Iterable[RewriteFiles], without: set[TableName]
) -> set[tuple[TableName, Scope, str]]:
    """What was ordered, and why, at whatever snapshot."""
    return {
        (order.table, order.scope, order.reason) for order in orders if order.table not in without
    }
