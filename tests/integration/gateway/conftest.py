"""A real gateway process between real clients, a real catalog and a real broker."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.records.events import TableCommitted
from firnline_local.processes.command import Command
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from firnline_local.topics.topics import make_topics
from pyiceberg.catalog.rest import RestCatalog

BUCKETS = 8
WAIT_S = 60.0


class Events:
    """What stands on `table-commits`, read from the beginning on one consumer."""

    def __init__(self, kafka: str) -> None:
        self._codec = RecordCodec()
        self._consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex})
        self._consumer.assign(
            [TopicPartition("table-commits", p, OFFSET_BEGINNING) for p in range(BUCKETS)]
        )
        self.all: list[TableCommitted] = []
        self.astray: set[str] = set()  # under another key than their table's

    def read(self, timeout_s: float) -> None:
        for message in self._consumer.consume(1000, timeout_s):
            if message.error():
                continue
            event = self._codec.decode(message.value())
            self.all.append(event)
            if message.key() != event.table.uuid.encode():
                self.astray.add(event.event_id)

    def of(self, namespace: str) -> list[TableCommitted]:
        """Events of one namespace so far; of two with the same id, the first."""
        found: dict[str, TableCommitted] = {}
        for event in self.all:
            if event.table.namespace == (namespace,):
                assert event.event_id not in self.astray
                found.setdefault(event.event_id, event)
        return list(found.values())

    def until(
        self, namespace: str, done: Callable[[list[TableCommitted]], bool]
    ) -> list[TableCommitted]:
        """Read until the events of a namespace satisfy `done`, then say them."""
        deadline = time.monotonic() + WAIT_S
        while not done(self.of(namespace)):
            assert time.monotonic() < deadline, f"only {self.of(namespace)}"
            self.read(0.5)
        return self.of(namespace)

    def close(self) -> None:
        self._consumer.close()


def gateway_command(directory: Path, port: int, upstream: str, kafka: str) -> Command:
    """A gateway whose outbox lives in `directory`."""
    environment = {
        "FIRNLINE_UPSTREAM_URI": upstream,
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_LISTEN_ADDRESS": str(port),
        "FIRNLINE_STATE_DIR": str(directory),
        "FIRNLINE_BUCKETS": str(BUCKETS),
        "FIRNLINE_SCAN_REPORT_SECONDS": "0.5",
    }
    return Command(
        name="gateway",
        argv=(sys.executable, "-m", "firnline_gateway"),
        cwd=directory,
        ready=catalog.make_probe(catalog.uri(port)),
        env=environment,
    )


@pytest.fixture(scope="session")
def gateway_uri(kafka: str, catalog_uri: str, servers: Path) -> Iterator[str]:
    """The URI that writers know."""
    make_topics(kafka, BUCKETS)
    port = free_port()
    command = gateway_command(servers / "gateway", port, catalog_uri, kafka)
    with run_process(command, servers / "gateway.log"):
        yield catalog.uri(port)


@pytest.fixture
def events(kafka: str, gateway_uri: str) -> Iterator[Events]:
    found = Events(kafka)
    yield found
    found.close()


@pytest.fixture
def through(gateway_uri: str) -> RestCatalog:
    """A PyIceberg client that knows only the gateway."""
    return RestCatalog("through", uri=gateway_uri)
