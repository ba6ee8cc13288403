"""Commits go through and no event is lost: broker away, gateway killed, two gateways."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog, kafka
from firnline_local.topics.topics import make_topics
from pyiceberg.catalog.rest import RestCatalog

from .conftest import BUCKETS, Events, gateway_command

pytestmark = pytest.mark.stack

ROW = pa.table({"id": pa.array([1], pa.int64())})


def ids(table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.refresh().snapshots()]


def has_all(wanted: list[int]):
    return lambda found: {s.snapshot_id for e in found for s in e.snapshots} >= set(wanted)


def test_writers_go_on_while_the_broker_is_away(
    catalog_uri: str, namespace: str, tmp_path: Path
) -> None:
    port = free_port()
    broker = kafka.command(tmp_path / "kafka", port, free_port(frozenset({port})))
    own = free_port(frozenset({port}))
    address = kafka.bootstrap_servers(port)
    gateway = gateway_command(tmp_path / "gateway", own, catalog_uri, address)
    log = tmp_path / "kafka.log"
    with contextlib.ExitStack() as servers:
        running = servers.enter_context(run_process(broker, log))
        make_topics(address, BUCKETS)
        servers.enter_context(run_process(gateway, tmp_path / "gateway.log"))
        table = RestCatalog("x", uri=catalog.uri(own)).create_table(f"{namespace}.t", ROW.schema)
        table.append(ROW)
        running.terminate()
        running.wait_or_kill()
        for _ in range(10):
            table.append(ROW)
        assert table.refresh().scan().to_arrow().num_rows == 11
        with run_process(broker, log):
            assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=30)
            events = Events(address)
            written = ids(table)
            found = events.until(namespace, has_all(written))
            events.close()
    heads = [event.snapshots[0].snapshot_id for event in found if event.snapshots]
    assert heads == written


class Muffler:
    """A wire between gateway and catalog that can swallow the catalog's answers."""

    def __init__(self, target: str) -> None:
        host, port = target.removeprefix("http://").split(":")
        self._target = host, int(port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.muffled = threading.Event()
        self.swallowed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            threading.Thread(target=self._copy, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, True), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(65536):
                if answers and self.muffled.is_set():
                    self.swallowed.set()
                else:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def wire(catalog_uri: str) -> Iterator[Muffler]:
    found = Muffler(catalog_uri)
    yield found
    found.close()


def test_a_gateway_killed_between_acceptance_and_answer(
    kafka: str,
    lake: RestCatalog,
    gateway_uri: str,
    wire: Muffler,
    namespace: str,
    events: Events,
    tmp_path: Path,
) -> None:
    port = free_port()
    command = gateway_command(tmp_path / "gateway", port, wire.uri, kafka)
    with run_process(command, tmp_path / "one.log") as killed:
        table = RestCatalog("x", uri=catalog.uri(port)).create_table(f"{namespace}.t", ROW.schema)
        table.append(ROW)
        wire.muffled.set()
        since_ms = time.time_ns() // 1_000_000
        writer = threading.Thread(target=attempt, args=(table,))
        writer.start()
        assert wire.swallowed.wait(60)
        # The catalog may be faster than our disk: a commit that is in no log yet is lost here.
        wait_for_intent(tmp_path / "gateway" / "outbox.db", since_ms)
        os.kill(killed.pid, signal.SIGKILL)
        writer.join(60)
    accepted = ids(lake.load_table(f"{namespace}.t"))
    assert len(accepted) == 2
    wire.muffled.clear()
    with run_process(command, tmp_path / "two.log"):
        found = events.until(namespace, has_all(accepted))
    sources = {s.snapshot_id: event.source for event in found for s in event.snapshots}
    assert sources == dict(zip(accepted, ["gateway", "reconciled"], strict=True))


def wait_for_intent(outbox: Path, since_ms: int) -> None:
    """Return when a call that came since then is in the gateway's log."""
    deadline_s = time.monotonic() + 60
    query = "SELECT count(*) FROM calls WHERE received_ms >= ?"
    with closing(sqlite3.connect(outbox)) as log:
        while not log.execute(query, (since_ms,)).fetchone()[0]:
            assert time.monotonic() < deadline_s, "the call was never written"
            time.sleep(0.01)


def attempt(table) -> None:
    try:
        table.append(ROW)
    except Exception as error:
        print(f"the writer saw {error!r}")


def test_two_gateways_side_by_side(
    kafka: str,
    catalog_uri: str,
    gateway_uri: str,
    namespace: str,
    events: Events,
    tmp_path: Path,
) -> None:
    port = free_port()
    command = gateway_command(tmp_path / "second", port, catalog_uri, kafka)
    with run_process(command, tmp_path / "second.log"):
        first = RestCatalog("a", uri=gateway_uri).create_table(f"{namespace}.t", ROW.schema)
        second = RestCatalog("b", uri=catalog.uri(port)).load_table(f"{namespace}.t")
        for _ in range(3):
            first.append(ROW)
            second.refresh().append(ROW)
            first.refresh()
    found = events.until(namespace, has_all(ids(first)))
    assert len([event for event in found if event.snapshots]) == 6
