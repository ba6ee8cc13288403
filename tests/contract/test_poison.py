"""No record blocks a partition, in no service: not bytes that are no record, not a record that has
no business on its topic, not one on which the handlers fail. It goes aside and the next is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryLeases, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_committer import handlers as committing
from firnline_committer.pump import CommitterPump
from firnline_console.handlers import TOPICS as CONSOLE_TOPICS
from firnline_console.handlers import on_deliveries, topics_read
from firnline_console.read_model.port import Built
from firnline_console.read_model.redis import RedisReadModel
from firnline_domain.identity import bucket_of
from firnline_domain.policy.fleet.lanes import Lane, lane_topic
from firnline_domain.settings.groups import parse_groups
from firnline_domain.settings.thresholds import Thresholds
from firnline_enricher.handlers import EnricherHandlers
from firnline_enricher.pump import EnricherPump
from firnline_listener.sources.own_commits import EVENTS, OwnCommits
from firnline_planner.bucket.inputs import InputReader
from firnline_planner.handlers.dispatch import FACTS
from firnline_schemas.topics import Topic, topic
from firnline_worker.bootstrap import topics_of
from firnline_worker.handlers import WorkerHandlers
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import TaskLeases
from firnline_worker.loop import MAX_INTERRUPTIONS, TaskLoop
from redis import Redis

from tests.examples import FOLDER, make
from tests.kit.console_model import TestReadModel
from tests.kit.memory_driver import MemoryDriver

UUID = "6f1d9c1e-5d0a-4b7e-9a4e-0d3c1f2b3a49"  # the table of all examples
BUCKET = bucket_of(UUID, 8)


def example(folder: Any) -> Any:
    first = min(entry.name for entry in folder.iterdir())
    return make(f"{folder.name}/{first.removesuffix('.json')}")


RECORDS = [example(folder) for folder in sorted(FOLDER.iterdir(), key=lambda one: one.name)]


class Service(Protocol):
    """A service at work on the topics of a broker in memory."""

    topics: Sequence[str]

    def run(self, broker: MemoryBroker) -> None:
        """Until it has read everything."""

    def read(self, broker: MemoryBroker, name: str) -> int:
        """Offset up to which it is done with our partition of a topic."""


@dataclass
class Grouped:
    """What services with a consumer group have in common."""

    group: str
    topics: Sequence[str]

    def read(self, broker: MemoryBroker, name: str) -> int:
        return broker.committed.get((self.group, name, BUCKET), 0)

    def inbox(self, broker: MemoryBroker) -> MemoryInbox:
        return MemoryInbox(broker, self.group, list(self.topics))


class Enricher(Grouped):
    """Its tables fail in a way that nobody thought of."""

    def __init__(self) -> None:
        super().__init__("enricher", ("table-commits", "resync-requests"))

    def run(self, broker: MemoryBroker) -> None:
        handlers = EnricherHandlers(Broken(), lambda: 1)
        EnricherPump(self.inbox(broker), MemoryPublisher(broker), handlers, Log("t")).step(0)


class Committer(Grouped):
    def __init__(self) -> None:
        super().__init__("committer", ("task-results",))

    def run(self, broker: MemoryBroker) -> None:
        handlers = committing.CommitterHandlers(Broken(), Broken(), lambda: 1)
        CommitterPump(self.inbox(broker), MemoryPublisher(broker), handlers, Log("t")).step(0)


class Worker(Grouped):
    """Every order fails, and what it says of that cannot be sent."""

    def __init__(self) -> None:
        super().__init__("worker", topics_of("ordinary,heavy"))

    def run(self, broker: MemoryBroker) -> None:
        publisher, seconds = Unwilling(broker), [0.0]
        leases = TaskLeases(MemoryLeases(), "w", 30.0, Log("t"))
        handlers = WorkerHandlers(
            Broken(),
            Broken(),
            Broken(),
            leases,
            publisher,
            "w",
            lambda: 1,
            Log("t"),
            lambda: False,
            Heartbeats(publisher, "w", lambda: 1),
        )
        loop = TaskLoop(
            self.inbox(broker), AtOnce(), handlers.handle, 20, Log("t"), now=lambda: seconds[0]
        )
        loop.dead_letter, loop.max_running_heavy = handlers.dead_letter, 20
        for _ in range(MAX_INTERRUPTIONS + 2):
            loop.poll_once(0)
            seconds[0] += 10.0


class TenantsWorker(Worker):
    """Of a group: no topic of anybody else's."""

    def __init__(self) -> None:
        Grouped.__init__(self, "worker.etl", topics_of("ordinary,heavy", "etl"))


class Console(Grouped):
    """Of a fleet with groups."""

    def __init__(self) -> None:
        super().__init__("console", topics_read(parse_groups("etl")))

    def run(self, broker: MemoryBroker) -> None:
        inbox = self.inbox(broker)
        on_deliveries(Failing(Redis()), "g", inbox, inbox.poll(0), Log("t"))


class Listener(Grouped):
    def __init__(self) -> None:
        super().__init__("listener", (EVENTS,))

    def run(self, broker: MemoryBroker) -> None:
        source = OwnCommits(self.inbox(broker))
        for doorbell in source.poll(0):
            source.settle(doorbell.position)


class Planner:
    topics = FACTS

    def run(self, broker: MemoryBroker) -> None:
        self._driver = MemoryDriver(
            broker, InputReader(RecordCodec(), Log("t")), Limits(), lambda: 1
        )
        self._driver.run()

    def read(self, broker: MemoryBroker, name: str) -> int:
        return self._driver.buckets[BUCKET].next_offset(name)


class Limits(Thresholds):
    """Makes every decision fail."""

    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError("a bug")


class Broken:
    """Stands for tables, swaps, rewrites and expiries: whatever is asked for is a bug."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def broken(*_: Any) -> Any:
            raise ZeroDivisionError("a bug")

        return broken


class Failing(RedisReadModel):
    def apply(self, generation: str, facts: Sequence[Any]) -> None:
        raise ZeroDivisionError("a bug")


class Unwilling(MemoryPublisher):
    """A broker that takes no results."""

    def publish(self, topic: str, key: str, record: Any) -> bool:
        if topic == "task-results":
            raise ValueError("too big")
        return super().publish(topic, key, record)


class AtOnce(Executor):
    def submit(self, call: Any, /, *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **more))
        except Exception as error:
            future.set_exception(error)
        return future


SERVICES = {
    one.__name__.lower(): one
    for one in (Enricher, Planner, Worker, TenantsWorker, Committer, Console, Listener)
}
PATTERNS = {lane_topic(lane, "etl"): lane_topic(lane) for lane in Lane}


def described(name: str) -> Topic:
    """By its file; a group's topic by that of the topic that it is like."""
    return topic(PATTERNS.get(name, name))


@pytest.fixture(params=sorted(SERVICES))
def service(request: pytest.FixtureRequest) -> Service:
    made: Service = SERVICES[request.param]()
    return made


@pytest.fixture
def broker(service: Service) -> MemoryBroker:
    """On each topic: bytes that are nothing, every record there is, and bytes once more."""
    broker = MemoryBroker(8)
    for name in service.topics:
        log = broker.logs[name, BUCKET]
        log.append((UUID, b"not avro at all"))
        log.extend((UUID, encode_record(record)) for record in RECORDS)
        log.append((UUID, b""))
    return broker


def test_every_inbox_goes_on_after_whatever_comes(service: Service, broker: MemoryBroker) -> None:
    sent = {name: len(broker.logs[name, BUCKET]) for name in service.topics}
    service.run(broker)
    # The console reads `dead-letters`, which grows by what is put aside there.
    assert all(service.read(broker, name) >= sent[name] for name in service.topics)


# The console shows what it knows of, and changes nothing by it.
@pytest.mark.parametrize("service", sorted(SERVICES.keys() - {"console"}), indirect=True)
def test_what_has_no_business_on_a_topic_goes_to_dead_letters(broker, service) -> None:
    service.run(broker)
    letters = [one for one in broker.records("dead-letters") if one.reason == "unexpected_record"]
    every = {type(record).__name__ for record in RECORDS}
    for name in service.topics:
        aside = [one.value for one in letters if one.topic == name]
        kinds = {type(RecordCodec().decode(value)).__name__ for value in aside}
        assert kinds == every - set(described(name).records)


@pytest.mark.stack
def test_the_console_shows_every_record_that_there_is(redis_url: str) -> None:
    model = TestReadModel(redis_url)
    model.begin_generation(Built("g", 1), replace=False)
    for record in RECORDS:
        model.apply("g", [record])
    assert {one.event.kind for one in model.list_events(None, 99)} >= {"swept", "operator", "order"}


def test_no_service_with_an_inbox_is_left_out(service: Service) -> None:
    readers = {name for one in service.topics for name in described(one).read_by}
    assert type(service).__name__.lower().removeprefix("tenants") in readers
    every = {name for one in FACTS + tuple(CONSOLE_TOPICS) for name in topic(one).read_by}
    assert every <= set(SERVICES)
