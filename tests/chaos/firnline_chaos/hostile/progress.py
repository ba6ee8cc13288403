"""Whether every service goes on: what waits for it is taken, and its process is the same one."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.error import URLError
from urllib.request import urlopen

from confluent_kafka import Consumer, KafkaException, TopicPartition
from firnline_local.stack import Stack

GROUPS: Mapping[str, tuple[tuple[str, ...], float]] = {
    # service: what it reads, and for how long a record may wait without any being taken.
    "enricher": (("table-commits", "resync-requests"), 5.0),
    "planner": (("file-changes", "maintenance-events", "operator-orders", "table-scans"), 5.0),
    "worker": (("rewrite-tasks", "rewrite-tasks-heavy", "expiry-tasks"), 60.0),
    "committer": (("task-results",), 60.0),
}
SLOW = {"worker", "committer"}
"""One of their records is a task or a commit and takes its time, and offsets go by the oldest: they
stand still where nothing moves in any partition."""
GATEWAY_S = 5.0
EVERY_S = 0.5
PATIENCE_S = 10.0


class Newest:
    """The newest record of each partition. A topic's end says less: the marks of transactions
    count there, too, and nobody ever takes those."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "chaos-progress",
             "enable.auto.commit": False, "fetch.message.max.bytes": 16 * 1024 * 1024}
        )  # fmt: skip
        known = self._consumer.list_topics(timeout=PATIENCE_S).topics
        self.places = {
            group: [TopicPartition(name, n) for name in topics for n in known[name].partitions]
            for group, (topics, _) in GROUPS.items()
        }
        self._consumer.assign([one for places in self.places.values() for one in places])
        self._offsets: dict[tuple[str, int], int] = {}

    def read(self) -> None:
        """Take in what has come."""
        while found := self._consumer.consume(500, 0.05):
            for one in found:
                if not one.error():
                    self._offsets[one.topic(), one.partition()] = one.offset()

    def offset(self, topic: str, partition: int) -> int:
        """-1 where nothing was read yet."""
        return self._offsets.get((topic, partition), -1)

    def close(self) -> None:
        self._consumer.close()


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
    """Looks twice a second, on a thread of its own; `longest` standstill by service."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._waiting = Waiting()
        self._stop = threading.Event()
        self._newest = Newest(stack.kafka)
        self._restarts = {name: part.restarts for name, part in stack.record.parts.items()}
        self._consumers = {
            group: Consumer({"bootstrap.servers": stack.kafka, "group.id": group,
                             "enable.auto.commit": False})
            for group in GROUPS
        }  # fmt: skip
        self.longest: dict[str, float] = {}
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for consumer in (self._newest, *self._consumers.values()):
            consumer.close()

    def findings(self) -> list[str]:
        """Services that died, or stood still for longer than they may."""
        allowed = {"gateway": GATEWAY_S, **{name: limit for name, (_, limit) in GROUPS.items()}}
        found = [
            f"{name} stood still for {seconds:.1f} s"
            for name, seconds in self.longest.items()
            if seconds > allowed[name]
        ]
        for name, part in self._stack.record.parts.items():
            if died := part.restarts - self._restarts[name]:
                found.append(f"{name} ended and was started again {died} times")
        return found

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._ask_gateway()
            self._newest.read()
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
        committed = self._consumers[group].committed(self._newest.places[group], timeout=PATIENCE_S)
        now = {
            (one.topic, one.partition): (
                max(one.offset, 0),
                self._newest.offset(one.topic, one.partition),
            )
            for one in committed
        }
        if group in SLOW:
            waiting = any(at <= newest for at, newest in now.values())
            done = sum(at for at, _ in now.values())
            now = {("all", 0): (done, done if waiting else done - 1)}
        for (topic, partition), (at, newest) in now.items():
            place = (group, topic, partition)
            self._note(group, self._waiting.seen(place, at, newest, time.monotonic()))

    def _note(self, service: str, seconds: float) -> None:
        self.longest[service] = max(self.longest.get(service, 0.0), seconds)
