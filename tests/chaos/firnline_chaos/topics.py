"""All that was said on the topics since the start: orders, outcomes, states, dead letters."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from firnline_adapters.kafka.schema_topic import SchemaTopic
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.events import (
    DeadLettered,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
)
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.results import RewriteFinished, TableResult, TaskFailed
from firnline_domain.records.signing import FUTURE, STALE
from firnline_domain.records.states import TableState

from firnline_chaos.hostile.records import marked

READ = (
    "rewrite-tasks", "rewrite-tasks-heavy", "table-tasks", "task-results", "maintenance-events",
    "table-states", "dead-letters",
)  # fmt: skip
ENDS = (RewriteCommitted, RewriteConflicted, RewriteSkipped, TaskFailed, TableResult)
UNTIMELY = (STALE, FUTURE)
POLL_S = 0.2
YOUNG_S = 30.0
PATIENCE_S = 30.0  # a broker that was killed needs some seconds
FOREVER = 1 << 62


@dataclass
class Ledger:
    """What the records come to. Tasks by id, in the order of their topics."""

    orders: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    results: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    states: dict[str, TableState] = field(default_factory=dict)  # of main, by table uuid
    letters: list[Any] = field(default_factory=list)
    untimely: set[str] = field(default_factory=set)  # tasks whose order or result is in a letter
    timed: bool = True  # the times in records can be compared

    def take(self, topic: str, record: Any) -> None:
        if isinstance(record, RewriteFiles | TableOrder):
            self.orders[record.task_id].append(record)
        elif topic == "task-results" and isinstance(record, (RewriteFinished, *ENDS)):
            self.results[record.task_id].append(record)
        elif isinstance(record, ENDS):
            self.ends[record.task_id].append(record)
        elif isinstance(record, TableState) and record.ref == "main":
            self.states[record.table.uuid] = record
        elif topic == "dead-letters":
            self.letters.append(record)

    @property
    def open(self) -> list[str]:
        """Tasks whose last order nothing was said of; expiries come all the time, and are meant
        once they are late."""
        young_ms = time.time() * 1000 - YOUNG_S * 1000
        return [
            task
            for task in self.orders.keys() - self.untimely
            if not (last := self.turns(task)[-1]).ends
            and not (isinstance(last.order, TableOrder) and last.order.ordered_at_ms > young_ms)
        ]

    @property
    def attempts(self) -> set[tuple[str, int]]:
        """Tasks and the numbers of their attempts, as they were ordered so far."""
        return {(task, one.attempt) for task, orders in self.orders.items() for one in orders}

    def turns(self, task: str) -> list[Attempt]:
        """A task's attempts with what was said of each: the ends between its order and the next;
        where times say nothing, one end for each, as far as they go."""
        orders, ends = self._attempts(task), self.ends.get(task, [])
        if not self.timed:
            shares = [ends[n : n + 1] for n in range(len(orders))]
        else:
            until = [order.ordered_at_ms for order in orders[1:]] + [FOREVER]
            shares = [
                [end for end in ends if order.ordered_at_ms <= said_at_ms(end) < limit]
                for order, limit in zip(orders, until, strict=True)
            ]
        return [Attempt(*both) for both in zip(orders, shares, strict=True)]

    def _attempts(self, task: str) -> list[Any]:
        """One order of each attempt, in order: a redelivered one is the same one."""
        found: dict[int, Any] = {}
        for order in self.orders[task]:
            found.setdefault(order.attempt, order)
        return [found[number] for number in sorted(found)]


@dataclass(frozen=True)
class Attempt:
    """An order and its ends, in order, with repetitions."""

    order: Any
    ends: list[Any]


def said_at_ms(end: Any) -> int:
    """When a task came to this end."""
    for name in ("committed_at_ms", "conflicted_at_ms", "failed_at_ms", "finished_at_ms", "at_ms"):
        if hasattr(end, name):
            return int(getattr(end, name))
    raise TypeError(type(end).__name__)


class Topics:
    """Reads on where it stopped. One thread."""

    def __init__(self, bootstrap: str) -> None:
        options = {
            "bootstrap.servers": bootstrap, "group.id": f"chaos-{uuid.uuid4()}",
            "enable.auto.commit": False, "enable.partition.eof": True,
            "fetch.message.max.bytes": 16 * 1024 * 1024,
        }  # fmt: skip
        self._consumer = Consumer(options)
        self._codec = RecordCodec(SchemaTopic(bootstrap).find_schema)
        self._seen: dict[tuple[str, int], int] = {}
        self.ledger = Ledger()
        known = self._consumer.list_topics(timeout=30).topics
        self._places = [(name, number) for name in READ for number in known[name].partitions]
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in self._places])

    def close(self) -> None:
        self._consumer.close()

    def read(self, patience_s: float = PATIENCE_S) -> Ledger:
        """Everything up to the end as it is now. Raises TimeoutError where it stops before."""
        ends = {place: self._end(place, patience_s) for place in self._places}
        heard = time.monotonic()
        while behind := [place for place in ends if self._seen.get(place, 0) < ends[place]]:
            if time.monotonic() - heard > patience_s:
                raise TimeoutError(f"nothing comes of {behind}, at {ends[behind[0]]}: {self._seen}")
            if found := self._consumer.consume(500, POLL_S):
                heard = time.monotonic()
            for message in found:
                self._take(message)
        return self.ledger

    def _end(self, place: tuple[str, int], patience_s: float) -> int:
        """A broker that has just come back knows no partition for a moment."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                where = TopicPartition(*place)
                return int(self._consumer.get_watermark_offsets(where, timeout=10)[1])
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)

    def _take(self, message: Any) -> None:
        place = (message.topic(), message.partition())
        if error := message.error():
            if error.code() == KafkaError._PARTITION_EOF:
                self._seen[place] = message.offset()
            return  # else the broker was away
        if message.offset() < self._seen.get(place, 0):
            return
        self._seen[place] = message.offset() + 1
        if message.value() is not None and not marked(message):
            record = self._codec.decode(message.value())
            self.ledger.take(message.topic(), record)
            if isinstance(record, DeadLettered):
                self._take_refused(record)

    def _take_refused(self, letter: DeadLettered) -> None:
        if letter.reason in UNTIMELY and letter.value and letter.value_bytes is None:
            try:
                refused = self._codec.decode(letter.value)
            except PoisonousRecord:  # it was hostile, too
                return
            self.ledger.untimely |= {refused.task_id} if hasattr(refused, "task_id") else set()
