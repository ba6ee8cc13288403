"""The worker's loop on both buses: a long task delays nobody, a death loses nothing."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.policy.fleet.lanes import Lane, lane_topic
from firnline_domain.ports import Inbox, Publisher
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.settings.groups import Group
from firnline_local.topics.topics import make_topics
from firnline_worker.bootstrap import consumer_group, topics_of
from firnline_worker.handlers import HEAVY_REWRITES, REWRITES
from firnline_worker.loop import TaskLoop

BUCKETS = 8
WAIT_S = 90.0  # a member that died is missed after its session timeout, 10 s


@dataclass
class LoopHarness:
    """One table's orders, hence one topic partition; `ran` is what was run, in order."""

    publisher: Publisher
    open_inbox: Callable[[], Inbox]
    committed: Callable[[], int]
    table: TableName
    release: threading.Event = field(default_factory=threading.Event)
    ran: list[str] = field(default_factory=list)

    def send(self, *names: str) -> int:
        """Publish orders; nothing before the first of them is ours."""
        for name in names:
            order = RewriteFiles(
                name, self.table, "main", Scope(0, "[]"), "compact", "r", 1, 1, 0, 10**14
            )
            self.publisher.publish(REWRITES, self.table.uuid, order)
        self.publisher.flush()
        return len(names)

    def work(self, order: RewriteFiles) -> None:
        if order.table != self.table:
            return  # another test's
        if order.task_id == "long":
            assert self.release.wait(WAIT_S)
        self.ran.append(order.task_id)

    def loop(self, executor: ThreadPoolExecutor) -> TaskLoop:
        return TaskLoop(self.open_inbox(), executor, self.work, 4, Log("contract"))


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def harness(request: pytest.FixtureRequest) -> Iterator[LoopHarness]:
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    group, partition = uuid.uuid4().hex, bucket_of(table.uuid, BUCKETS)
    if request.param == "memory":
        broker = MemoryBroker(BUCKETS)
        key = (group, REWRITES, partition)
        yield LoopHarness(
            MemoryPublisher(broker),
            lambda: MemoryInbox(broker, group, [REWRITES]),
            lambda: broker.committed.get(key, 0),
            table,
        )
        return
    bootstrap: str = request.getfixturevalue("kafka")
    publisher = KafkaPublisher(bootstrap, BUCKETS, "contract")
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    place = TopicPartition(REWRITES, partition)
    start = reader.get_watermark_offsets(place)[1]

    def committed() -> int:
        (found,) = reader.committed([place])
        return max(0, found.offset - start)

    yield LoopHarness(
        publisher,
        lambda: KafkaInbox(bootstrap, group, [REWRITES], publisher, Log("contract")),
        committed,
        table,
    )
    reader.close()


def poll_until(loop: TaskLoop, done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, "the loop never got there"
        loop.poll_once(0.05)


SHORT = [f"short-{number}" for number in range(20)]


def test_a_long_task_before_twenty_short_ones(harness: LoopHarness) -> None:
    harness.send("long", *SHORT)
    with ThreadPoolExecutor(4) as executor:
        loop = harness.loop(executor)
        poll_until(loop, lambda: len(harness.ran) == 20)
        loop.poll_once(0.05)
        assert "long" not in harness.ran
        assert harness.committed() == 0
        harness.release.set()
        poll_until(loop, lambda: harness.committed() == 21)
        loop.inbox.close()
    assert sorted(harness.ran) == sorted([*SHORT, "long"])


def test_what_a_member_had_not_finished_goes_to_the_next(harness: LoopHarness) -> None:
    harness.send("first", "long", "last")
    with ThreadPoolExecutor(4) as executor:
        gone = harness.loop(executor)
        poll_until(gone, lambda: set(harness.ran) == {"first", "last"})
        poll_until(gone, lambda: harness.committed() == 1)
        gone.inbox.close()  # it ends while its long task runs
        harness.ran.clear()
        harness.release.set()
        heir = harness.loop(executor)
        poll_until(heir, lambda: harness.committed() == 3)
        heir.inbox.close()
    assert {"long", "last"} <= set(harness.ran)
    assert "first" not in harness.ran


@pytest.mark.stack
def test_a_second_member_takes_part_and_nothing_is_lost(kafka: str) -> None:
    """A rebalance in the middle: every order is run, and all offsets are committed at the end."""
    group, run = uuid.uuid4().hex, uuid.uuid4().hex
    publisher = KafkaPublisher(kafka, BUCKETS, "contract")
    ran: list[str] = []

    def work(order: RewriteFiles) -> None:
        if order.table.name == run:
            time.sleep(0.01)
            ran.append(order.task_id)
            if len(ran) > 20:
                enough.set()

    def opened() -> TaskLoop:
        inbox = KafkaInbox(kafka, group, [REWRITES], publisher, Log("contract"))
        return TaskLoop(inbox, executor, work, 4, Log("contract"))

    names = [f"task-{number}" for number in range(200)]
    for number, name in enumerate(names):
        table = TableName(f"{run}-{number % 16}", ("db",), run)
        order = RewriteFiles(name, table, "main", Scope(0, "[]"), "compact", "r", 1, 1, 0, 10**14)
        publisher.publish(REWRITES, table.uuid, order)
    publisher.flush()
    enough, stop = threading.Event(), threading.Event()

    def member() -> None:
        loop = opened()
        loop.run(lambda: stop.is_set() and not loop.running_count)
        loop.inbox.close()

    with ThreadPoolExecutor(8) as executor, ThreadPoolExecutor(2) as members:
        first = members.submit(member)
        assert enough.wait(WAIT_S)
        second = members.submit(member)
        deadline = time.monotonic() + WAIT_S
        while set(ran) != set(names) and time.monotonic() < deadline:
            time.sleep(0.05)
        stop.set()
        first.result(WAIT_S)
        second.result(WAIT_S)
    assert set(ran) == set(names)


@dataclass
class Tenants:
    """Two groups of this test alone, and the default one; a loop of each, on one bus."""

    publisher: Publisher
    open_inbox: Callable[[str], Inbox]  # of a resource group
    names: tuple[str, str]
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    begun: dict[str, list[str]] = field(default_factory=dict)  # tasks by the group of their worker

    def send(self, topic: str, *tasks: str) -> None:
        table = TableName(self.run, ("db",), "t")
        for name in tasks:
            order = RewriteFiles(
                name, table, "main", Scope(0, "[]"), "compact", "r", 1, 1, 0, 10**14
            )
            self.publisher.publish(topic, table.uuid, order)
        self.publisher.flush()

    def loop(self, group: str, executor: ThreadPoolExecutor) -> TaskLoop:
        begun = self.begun.setdefault(group, [])

        def work(order: RewriteFiles) -> None:
            if order.table.uuid == self.run:
                begun.append(order.task_id)

        return TaskLoop(self.open_inbox(group), executor, work, 1, Log("contract"))


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.stack)])
def tenants(request: pytest.FixtureRequest) -> Tenants:
    mark = uuid.uuid4().hex[:8]
    names, worker = (f"etl-{mark}", f"adhoc-{mark}"), uuid.uuid4().hex
    if request.param == "memory":
        broker = MemoryBroker(BUCKETS)

        def in_memory(group: str) -> Inbox:
            own = consumer_group(worker, group)
            return MemoryInbox(broker, own, topics_of("ordinary,heavy", group))

        return Tenants(MemoryPublisher(broker), in_memory, names)
    bootstrap: str = request.getfixturevalue("kafka")
    make_topics(bootstrap, BUCKETS, [Group(name) for name in names])
    publisher = KafkaPublisher(bootstrap, BUCKETS, "contract")

    def on_kafka(group: str) -> Inbox:
        own, topics = consumer_group(worker, group), topics_of("ordinary,heavy", group)
        return KafkaInbox(bootstrap, own, topics, publisher, Log("contract"))

    return Tenants(publisher, on_kafka, names)


def test_orders_of_a_group_are_taken_by_its_workers_and_by_nobody_else(tenants: Tenants) -> None:
    etl, adhoc = tenants.names
    wanted = {"": {"own", "own-heavy"}, etl: {"e1", "e2", "e-heavy"}, adhoc: {"a1", "a-heavy"}}
    for group, tasks in wanted.items():
        for lane in Lane:
            of_lane = [one for one in tasks if one.endswith("heavy") is (lane is Lane.HEAVY)]
            tenants.send(lane_topic(lane, group), *of_lane)
    assert {REWRITES, HEAVY_REWRITES} == {lane_topic(lane, "") for lane in Lane}
    with ThreadPoolExecutor(3) as executor:
        loops = [tenants.loop(group, executor) for group in wanted]
        deadline = time.monotonic() + WAIT_S
        while {group: set(found) for group, found in tenants.begun.items()} != wanted:
            assert time.monotonic() < deadline, tenants.begun
            for loop in loops:
                loop.poll_once(0.05)
        for _ in range(10):  # nobody takes anything twice, or later
            for loop in loops:
                loop.poll_once(0.05)
        for loop in loops:
            loop.inbox.close()
    assert {group: sorted(found) for group, found in tenants.begun.items()} == {
        group: sorted(tasks) for group, tasks in wanted.items()
    }


def test_two_of_ten_orders_of_a_group_are_heavy_while_both_lanes_wait(tenants: Tenants) -> None:
    etl, _ = tenants.names
    tenants.send(lane_topic(Lane.HEAVY, etl), *(f"heavy-{n}" for n in range(10)))
    tenants.send(lane_topic(Lane.ORDINARY, etl), *(f"ordinary-{n}" for n in range(10)))
    gate = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(gate.wait, WAIT_S)  # one place, taken until both lanes have been read
        loop = tenants.loop(etl, executor)
        poll_until(loop, lambda: len(loop._waiting) == 19)
        gate.set()
        poll_until(loop, lambda: len(tenants.begun[etl]) == 20)
        loop.inbox.close()
    later = tenants.begun[etl][1:]  # the first one was begun when only its lane had been read
    assert sum(one.startswith("heavy") for one in later[:10]) == 2
    assert later[-7:] == [one for one in later if one.startswith("heavy")][-7:]
