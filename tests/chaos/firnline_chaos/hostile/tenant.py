"""The tenant at work: a record, a request, a property or a forged list at a time."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from firnline_adapters.kafka.client import Header
from firnline_adapters.records.signing import RecordSigner
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError
from pyiceberg.table import Table
from requests import RequestException

from firnline_chaos.deliveries import last_records, write_again
from firnline_chaos.hostile import records, requests, tables
from firnline_chaos.hostile.records import HostileRecord

REPLAYED = ("table-commits", "file-changes", "rewrite-tasks", "task-results", "maintenance-events")
MAX_REPLAYED = 6  # of each partition
BIG = 16 * 1024 * 1024
Place = tuple[str, int, int]  # topic, partition, offset


@dataclass
class Book:
    """What was sent. `owed`: places of records that a dead letter has to answer."""

    sent: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    places: set[Place] = field(default_factory=set)
    owed: dict[Place, HostileRecord] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


@dataclass
class Hostile:
    """A tenant with access to the broker, a gateway and one table. One thread.

    `victims`: files that are nobody's to delete; one lies outside of every table.
    """

    kafka: str
    gateway: str
    catalog: str
    signer: RecordSigner  # the fleet's own: some records come from a service that was taken over
    outside: Path
    victims: Callable[[], list[str]]
    per_s: float
    book: Book = field(default_factory=Book)

    def __post_init__(self) -> None:
        self.outside.parent.mkdir(parents=True, exist_ok=True)
        self.outside.write_bytes(b"nobody's to delete")
        self._producer = Producer({"bootstrap.servers": self.kafka, "message.max.bytes": BIG})
        self._name = "t"
        if self.per_s:
            self._tenant = records.Tenant(tables.create(self.gateway, self._name))

    def work(self, dice: random.Random, stop: threading.Event) -> None:
        """Until told to stop; what it sends is on the broker then."""
        if not self.per_s:
            return
        acts = {
            self._record: 60,
            self._request: 25,
            self._set_properties: 6,
            self._forge_list: 4,
            self._append: 4,
            self._replay: 1,
        }
        while not stop.wait(1 / self.per_s):
            act = dice.choices(list(acts), list(acts.values()))[0]
            try:
                act(dice)
            except (RESTError, RequestException, KafkaException, OSError) as error:
                self.book.answers[type(error).__name__] += 1
            except Exception as error:
                self.book.errors.append(f"{act.__name__}: {error!r}"[:400])
        self._producer.flush(30)

    def _record(self, dice: random.Random) -> None:
        record = records.draw(self._tenant, dice)

        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                place = (record.topic, record.partition, int(message.offset() or 0))
                self.book.places.add(place)
                if record.refused:
                    self.book.owed[place] = record

        self.book.sent[f"record {record.kind}"] += 1
        headers = list[Header]([(records.HEADER, record.kind)])
        if record.signed:
            headers += self.signer.sign_headers(
                record.topic, record.partition, record.key, record.value
            )
        self._producer.produce(
            record.topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=headers,
            on_delivery=told,
        )
        self._producer.flush(10)

    def _request(self, dice: random.Random) -> None:
        request = requests.draw(self._name, dice)
        self.book.sent[f"request {request.kind}"] += 1
        self.book.answers[requests.send(self.gateway, request)[:24]] += 1

    def _set_properties(self, dice: random.Random) -> None:
        self.book.sent["properties"] += 1
        found = tables.properties(dice)
        self._change(action="set-properties", updates=found)

    def _forge_list(self, dice: random.Random) -> None:
        self.book.sent["write-ahead list"] += 1
        uuid = self._tenant.table["uuid"]
        location = tables.location(self.catalog, self._name)
        paths = [f"file:{self.outside}", *self.victims()]
        tables.forge_list(location, uuid, paths, dice)

    def _append(self, dice: random.Random) -> None:
        """An ordinary commit: what was set and forged is then looked at. Whoever has deleted the
        table makes it anew."""
        self.book.sent["append"] += 1
        self._tenant = records.Tenant(tables.create(self.gateway, self._name))
        rows = pa.table({"id": [dice.randrange(9)], "v": ["x"]})
        try:
            self._load().append(rows)
        except (OverflowError, ValueError):  # PyIceberg believes the properties that we have set
            numbers = list(tables.NAMES)
            self._change(action="remove-properties", removals=numbers)
            self._load().append(rows)
            self._change(action="set-properties", updates=tables.properties(dice))

    def _load(self) -> Table:
        return RestCatalog("hostile", uri=self.gateway).load_table((tables.NAMESPACE, self._name))

    def _change(self, **change: Any) -> None:
        tables.update(self.gateway, self._name, **change)

    def _replay(self, dice: random.Random) -> None:
        topic = dice.choice(REPLAYED)
        self.book.sent[f"replay {topic}"] += 1
        found = [
            one for one in last_records(self.kafka, topic, MAX_REPLAYED) if not records.marked(one)
        ]
        dice.shuffle(found)
        write_again(self.kafka, found)


def findings(book: Book, letters: set[Place], outside: Path) -> list[str]:
    """What must hold once everything has come to rest."""
    found = [f"the tenant failed: {one}" for one in book.errors]
    silent = [one for one in book.owed if one not in letters]
    for topic, partition, offset in sorted(silent)[:10]:
        kind = book.owed[topic, partition, offset].kind
        found.append(f"no dead letter for a {kind} record at {topic}/{partition}@{offset}")
    if not outside.exists():
        found.append(f"a file that is nobody's to delete is gone: {outside}")
    return found
