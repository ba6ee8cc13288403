"""Commits go through and no event is lost: broker away, two gateways, both killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from confluent_kafka.admin import AdminClient
from firnline_domain.records.events import TableCommitted
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.processes.command import Command
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog, kafka
from firnline_local.topics.topics import make_topics
from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from tests.kit.memory_flow import SCHEMA, SPEC, TARGET, Flow, check_counters, rows

from .conftest import BUCKETS, Events, gateway_command

pytestmark = pytest.mark.stack

ROW = pa.table({"id": pa.array([1], pa.int64())})
SECONDS_TO_HEAL = 20


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


def wait_for_intent(outbox: Path, since_ms: int) -> None:
    """Return when a call that came since then is in the gateway's log."""
    deadline_s = time.monotonic() + 60
    query = "SELECT count(*) FROM calls WHERE received_ms >= ?"
    with closing(sqlite3.connect(outbox)) as log:
        while not log.execute(query, (since_ms,)).fetchone()[0]:
            assert time.monotonic() < deadline_s, "the call was never written"
            time.sleep(0.01)


class Recorder(HTTPAdapter):
    """Remembers the last commit of a client, whatever becomes of it."""

    last: PreparedRequest

    def send(self, request: PreparedRequest, **more: Any) -> Response:
        if request.method == "POST":
            self.last = request
        return super().send(request, **more)


@dataclass
class KillableGateway:
    """A gateway that can be killed between the catalog's answer and its record."""

    command: Command
    wire: Muffler
    uri: str
    process: Any = None

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        with run_process(self.command, self.command.cwd.with_suffix(".log")) as self.process:
            yield

    def kill_during(self, commit: Callable[[], object]) -> None:
        """Return when the catalog has answered the commit and nobody but the catalog knows."""
        self.wire.muffled.set()
        since_ms = time.time_ns() // 1_000_000
        writer = threading.Thread(target=attempt, args=(commit,))
        writer.start()
        assert self.wire.swallowed.wait(60)
        # The catalog may be faster than our disk: a commit that is in no log yet is lost here.
        wait_for_intent(self.command.cwd / "outbox.db", since_ms)
        os.kill(self.process.pid, signal.SIGKILL)
        writer.join(60)
        self.wire.muffled.clear()


def attempt(commit: Callable[[], object]) -> None:
    try:
        commit()
    except Exception as error:
        print(f"the writer saw {error!r}")


@pytest.fixture
def gateways(kafka: str, gateway_uri: str, catalog_uri: str, tmp_path: Path) -> Iterator[Any]:
    """Two that share a catalog and a broker. `gateway_uri`: has made the topics."""
    found = []
    for name in ("one", "other"):
        wire, port = Muffler(catalog_uri), free_port()
        command = gateway_command(tmp_path / name, port, wire.uri, kafka)
        found.append(KillableGateway(command, wire, catalog.uri(port)))
    yield found
    for one in found:
        one.wire.close()


def records_of(events: Events, snapshot_id: int) -> list[TableCommitted]:
    return [one for one in events.all if snapshot_id in {new.snapshot_id for new in one.snapshots}]


def test_two_gateways_and_a_commit_that_both_have_sent(
    gateways: list[KillableGateway],
    catalog_uri: str,
    lake: RestCatalog,
    namespace: str,
    events: Events,
) -> None:
    """Either is killed before it has recorded the commit. All records but one come once, and in
    whatever order they come, the counters are the table's."""
    one, other = gateways
    name, small = f"{namespace}.t", {"write.target-file-size-bytes": str(TARGET)}
    with one.run(), other.run():
        clients = [RestCatalog("x", uri=gateway.uri) for gateway in gateways]
        clients[0].create_table(name, SCHEMA, partition_spec=SPEC, properties=small)
        for number in range(6):
            clients[number % 2].load_table(name).append(rows((number % 3, number)))
        recorder, table = Recorder(), clients[0].load_table(name)
        clients[0]._session.mount("http://", recorder)
        one.kill_during(lambda: table.append(rows((1, 7))))
        sent = recorder.last
        url, parts = other.uri + sent.path_url, {"data": sent.body, "headers": dict(sent.headers)}
        again = partial(requests.post, url, **parts, timeout=60)
        assert again().status_code == 409
        other.kill_during(again)
    accepted = ids(lake.load_table(name))
    assert len(accepted) == 7
    with one.run(), other.run():
        clients[1].load_table(name).append(rows((2, 8)))
        events.until(namespace, has_all(ids(lake.load_table(name))))
        events.until(namespace, lambda _: len(records_of(events, accepted[-1])) == 2)
    found = [one for one in events.all if one.table.namespace == (namespace,)]
    of_snapshot = {s.snapshot_id: event.source for event in found for s in event.snapshots}
    assert [of_snapshot[key] for key in accepted] == ["gateway"] * 6 + ["reconciled"]
    dice = random.Random(7)
    for order in (found, found[::-1], dice.sample(found, len(found))):
        flow = Flow(Tables(catalog_uri))
        for event in order:
            flow.tell(event)
            flow.second()
        for _ in range(SECONDS_TO_HEAL):
            flow.second()
        check_counters(flow, "t", namespace)
