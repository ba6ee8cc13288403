"""Whether every service goes on: what waits for it is taken, and its process is the same one.

The planner is judged by its group's offsets, all others by ordinary tables: an offset goes by the
oldest record, which may be of a hostile table that cannot be read now, or that is paused. The
enricher is judged by how long a commit waits for its changes, worker and committer by how long no
task of theirs comes to its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from confluent_kafka import Consumer, KafkaException, TopicPartition
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.events import DeadLettered, FilesChanged, TableCommitted
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.results import RewriteFinished
from firnline_domain.records.signing import FUTURE, STALE
from firnline_local.stack.stack import Stack

from firnline_chaos.hostile.records import marked
from firnline_chaos.tables import BUSY, NAMESPACE
from firnline_chaos.topics import ENDS

GROUPS: Mapping[str, tuple[str, ...]] = {
    # service: topics whose records may not wait for LIMIT_S without any being taken.
    "planner": ("file-changes", "maintenance-events", "operator-orders", "table-scans"),
}
BY_TASKS = ("worker", "committer")
TASK_TOPICS = (
    "rewrite-tasks", "rewrite-tasks-heavy", "table-tasks", "task-results", "maintenance-events",
)  # fmt: skip
READ_TOPICS = {*TASK_TOPICS, "table-commits", "file-changes", "dead-letters"}
LIMIT_S = 5.0
WORKER_LIMIT_S = 30.0  # an expiry takes up to 12 s beside others, and is no standstill
OTHER_CLOCK = {FUTURE, STALE}  # why an order of an ordinary table is set aside
EVERY_S = 0.5
PATIENCE_S = 10.0
Head = tuple[str, str, int | None]


class Reader:
    """Reads every topic that a service is judged by. One thread."""

    def __init__(self, bootstrap: str, tasks: OpenTasks, commits: OpenCommits) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "chaos-progress",
             "enable.auto.commit": False, "fetch.message.max.bytes": 16 * 1024 * 1024,
             "auto.offset.reset": "earliest"}
        )  # fmt: skip
        known = self._consumer.list_topics(timeout=PATIENCE_S).topics

        def partitions(topics: Iterable[str]) -> list[TopicPartition]:
            return [TopicPartition(name, n) for name in topics for n in known[name].partitions]

        self.partitions = {group: partitions(topics) for group, topics in GROUPS.items()}
        self._consumer.assign(partitions({*READ_TOPICS, *chain(*GROUPS.values())}))
        self._codec = RecordCodec(SchemaTopic(bootstrap).find_schema)
        self._told = (tasks, commits)
        self._offsets: dict[tuple[str, int], int] = {}

    def read(self) -> None:
        """Take in what has come."""
        while found := self._consumer.consume(500, 0.05):
            for one in found:
                if not one.error():
                    self._offsets[one.topic(), one.partition()] = one.offset()
                    if one.topic() in READ_TOPICS and one.value() and not marked(one):
                        self._take(self._codec.decode(one.value()))

    def _take(self, record: Any) -> None:
        if isinstance(record, DeadLettered):
            if record.topic in TASK_TOPICS and record.reason in OTHER_CLOCK:
                with suppress(PoisonousRecord):  # a hostile one, of no task
                    self._told[0].set_aside(self._codec.decode(record.value), time.monotonic())
            return
        table = getattr(record, "table", None)
        if table is not None and table.namespace == (NAMESPACE,):
            for told in self._told:
                told.take(record, time.monotonic())

    def newest(self, topic: str, partition: int) -> int:
        """Offset of the newest record, -1 where nothing was read yet. A topic's end says less: the
        marks of transactions count there, too, and nobody ever takes those."""
        return self._offsets.get((topic, partition), -1)

    def close(self) -> None:
        self._consumer.close()


@dataclass
class OpenTasks:
    """Tasks that a service has to do something for. A later attempt of a task counts as ended."""

    waiting: dict[str, set[str]] = field(
        default_factory=lambda: {service: set() for service in BY_TASKS}
    )
    since_s: dict[str, float] = field(default_factory=dict)
    _warm: set[str] = field(default_factory=set)
    _ended: dict[str, set[str]] = field(
        default_factory=lambda: {service: set() for service in BY_TASKS}
    )

    def take(self, record: Any, now_s: float) -> None:
        match record:
            case RewriteFiles() | TableOrder():
                self._begin("worker", record.task_id, now_s)
            case RewriteFinished():
                self._end("worker", record.task_id, now_s)
                # Into the busy table writers commit five times a second: its results wait for them,
                # and no other table's behind it.
                if record.table.name != BUSY.name:
                    self._begin("committer", record.task_id, now_s)
            case _ if isinstance(record, ENDS):
                for service in self.waiting:
                    self._end(service, record.task_id, now_s)

    def set_aside(self, record: Any, now_s: float) -> None:
        """A service has put the record of a task on `dead-letters`."""
        for service, tasks in self.waiting.items():
            if getattr(record, "task_id", "") in tasks:
                self._end(service, record.task_id, now_s)

    def standstill_s(self, service: str, now_s: float) -> float:
        """Since a task waits, and none of them has come to its end. The first one of all may take
        its time: a JVM that loads its classes for it."""
        judged = self.waiting[service] and service in self._warm
        return now_s - self.since_s[service] if judged else 0.0

    def _begin(self, service: str, task: str, now_s: float) -> None:
        if task in self._ended[service]:
            return
        if not self.waiting[service]:
            self.since_s[service] = now_s
        self.waiting[service].add(task)

    def _end(self, service: str, task: str, now_s: float) -> None:
        self._ended[service].add(task)
        if task in self.waiting[service]:
            self._warm.add(service)
        self.waiting[service].discard(task)
        self.since_s[service] = now_s


@dataclass
class OpenCommits:
    """Heads of branches whose changes are not there yet: table, ref, snapshot."""

    since_s: dict[Head, float] = field(default_factory=dict)
    _changed: set[Head] = field(default_factory=set)

    def take(self, record: Any, now_s: float) -> None:
        match record:
            case TableCommitted():
                for moved in record.refs:
                    head = (record.table.dotted_name, moved.ref, moved.snapshot_id)
                    if moved.kind != "tag" and head not in self._changed:
                        self.since_s.setdefault(head, now_s)
            case FilesChanged():
                head = (record.table.dotted_name, record.ref, record.snapshot_id)
                self._changed.add(head)
                self.since_s.pop(head, None)

    def longest_s(self, now_s: float) -> float:
        """For how long the oldest has waited."""
        return now_s - min(self.since_s.values(), default=now_s)


@dataclass
class Waiting:
    """How long each partition has had records that nobody takes."""

    since: dict[tuple[str, str, int], tuple[int, float]] = field(default_factory=dict)

    def seen(self, place: tuple[str, str, int], committed: int, newest: int, now_s: float) -> float:
        """Seconds for which the oldest waiting record of a group's partition has been the same.
        `committed`: the group's next offset; `newest`: of the last record."""
        if committed > newest:
            self.since.pop(place, None)
            return 0.0
        at, since = self.since.get(place, (-1, now_s))
        if at != committed:
            self.since[place] = (committed, now_s)
            return 0.0
        return now_s - since


class Progress:
    """Looks twice a second, on a thread of its own; `worst` standstill by service."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._waiting = Waiting()
        self._stop = threading.Event()
        self._tasks = OpenTasks()
        self._commits = OpenCommits()
        self._reader = Reader(stack.kafka, self._tasks, self._commits)
        self._restarts = {name: part.restarts for name, part in stack.record.parts.items()}
        self._consumers = {
            group: Consumer({"bootstrap.servers": stack.kafka, "group.id": group,
                             "enable.auto.commit": False})
            for group in GROUPS
        }  # fmt: skip
        self.longest: dict[str, float] = {}
        self.worst: dict[str, float] = {}
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._reader.close()
        for consumer in self._consumers.values():
            consumer.close()

    def findings(self, judged: bool = True) -> list[str]:
        """Services that died, or stood still for longer than they may since the last call.
        `judged`: a standstill counts."""
        seen, self.longest = self.longest, {}
        found = [
            f"{name} stood still for {seconds:.1f} s"
            for name, seconds in seen.items()
            if judged and seconds > (WORKER_LIMIT_S if name == "worker" else LIMIT_S)
        ]
        for name, seconds in seen.items() if judged else ():
            self.worst[name] = max(self.worst.get(name, 0.0), seconds)
        if not self._thread.is_alive():
            found.append("nobody watches the services any more: the watching thread has ended")
        for name, part in self._stack.record.parts.items():
            if died := part.restarts - self._restarts[name]:
                found.append(f"{name} ended and was started again {died} times")
        return found

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._ask_gateway()
            self._reader.read()
            self._note("enricher", self._commits.longest_s(time.monotonic()))
            for service in self._tasks.waiting:
                self._note(service, self._tasks.standstill_s(service, time.monotonic()))
            for group in GROUPS:
                try:
                    self._look(group)
                except KafkaException:
                    continue  # a busy broker; the next look says how long it was

    def _ask_gateway(self) -> None:
        began = time.monotonic()
        try:
            with urlopen(f"{self._stack.gateway_uri}/v1/config", timeout=PATIENCE_S) as answer:
                answer.read()
        except (URLError, OSError):
            self._note("gateway", PATIENCE_S)
            return
        self._note("gateway", time.monotonic() - began)

    def _look(self, group: str) -> None:
        partitions = self._reader.partitions[group]
        for one in self._consumers[group].committed(partitions, timeout=PATIENCE_S):
            place = (group, one.topic, one.partition)
            newest = self._reader.newest(one.topic, one.partition)
            waited_s = self._waiting.seen(place, max(one.offset, 0), newest, time.monotonic())
            self._note(group, waited_s)

    def _note(self, service: str, seconds: float) -> None:
        self.longest[service] = max(self.longest.get(service, 0.0), seconds)
