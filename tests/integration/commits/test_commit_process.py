"""The committer as a process: results on a real broker in, commits and events out, over a kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_here
from firnline_domain.base.values import replace
from firnline_domain.records.events import OutputsSwept, RewriteCommitted
from firnline_domain.records.results import RewriteFinished, TaskFailed
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.write_ahead_list import OutputList

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
PATIENCE_S = 180.0
Start = Callable[..., subprocess.Popen[bytes]]
Events = Callable[[str, int], list[Any]]


@pytest.fixture
def start(kafka: str, catalog_uri: str, iceberg_jar: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a committer, on the real catalog or another; its log is `committer.log`."""
    running: list[subprocess.Popen[bytes]] = []

    def run(catalog: str = catalog_uri) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "FIRNLINE_KAFKA": kafka,
            "FIRNLINE_CATALOG_URI": catalog,
            "FIRNLINE_ICEBERG_JAR": str(iceberg_jar),
        }
        with (tmp_path / "committer.log").open("ab") as log:
            command = [sys.executable, "-m", "firnline_committer"]
            running.append(subprocess.Popen(command, env=environment, stderr=log))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait(10)


@pytest.fixture
def events(kafka: str) -> Iterator[Events]:
    """`events(table uuid, count)`: the table's first `count` records on `maintenance-events`."""
    publisher = KafkaPublisher(kafka, 8, "test")
    group = f"t-{uuid.uuid4().hex}"
    inbox = KafkaInbox(kafka, group, ["maintenance-events"], publisher, Log("test"))
    found: list[Any] = []

    def wait(table: str, count: int) -> list[Any]:
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found.extend(one.record for one in inbox.poll(0.2) if one.key == table)
        return found[:count]

    yield wait
    inbox.close()


def fresh(table: Table, p: str | None = None) -> RewriteFinished:
    """A rewrite that began now: the process has the real clock, and commits no old ones."""
    return replace(table.rewrite(p), started_at_ms=int(time.time() * 1000))


def test_a_killed_committer_leaves_no_jvm_and_the_next_one_goes_on(
    table: Table, kafka: str, start: Start, events: Events, tmp_path: Path
) -> None:
    publisher = KafkaPublisher(kafka, 8, "test")
    table.append((1, 1), (2, 1))
    table.delete_ids(1)
    first = fresh(table)
    process = start()
    publisher.publish("task-results", table.name.uuid, first)
    publisher.flush()
    (event,) = events(table.name.uuid, 1)
    assert isinstance(event, RewriteCommitted)
    children = psutil.Process(process.pid).children()
    os.kill(process.pid, signal.SIGKILL)
    assert not psutil.wait_procs(children, timeout=20)[1]

    table.append((3, 1))
    second = fresh(table)
    for result in (first, second):
        publisher.publish("task-results", table.name.uuid, result)
    publisher.flush()
    again = start()
    told = {one.task_id: one for one in events(table.name.uuid, 3)[1:]}
    assert told[first.task_id].redelivered
    assert not told[second.task_id].redelivered
    assert table.rows() == [(2, 1), (3, 1)]
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == 0
    assert "action=ready" in (tmp_path / "committer.log").read_text()


def test_what_was_ordered_together_is_one_snapshot(
    make_table: Any, kafka: str, start: Start, events: Events
) -> None:
    """The last result comes while the one before waits for it."""
    publisher, table = KafkaPublisher(kafka, 8, "test"), make_table(partitioned=True)
    for p in "abc":
        table.append((1, 1), p=p)
        table.append((2, 1), p=p)
    alone, *both = [fresh(table, p) for p in "abc"]
    start()
    publisher.publish("task-results", table.name.uuid, alone)
    publisher.flush()
    events(table.name.uuid, 1)  # it is in its group, and idle
    for one in both:
        slow = replace(one, batch_size=2, finished_at_ms=one.started_at_ms + 60_000)
        publisher.publish("task-results", table.name.uuid, slow)
        publisher.flush()
        time.sleep(2)
    first, second, third = events(table.name.uuid, 3)
    assert len(second.snapshot_ids) == 1
    assert second.snapshot_ids == third.snapshot_ids != first.snapshot_ids


@pytest.fixture
def slow_catalog() -> Iterator[str]:
    """Hangs up on its callers after a while."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    caller = server.accept()[0]
                except OSError:
                    return
                time.sleep(4)
                caller.close()

        threading.Thread(target=hang_up, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_catalog_that_hangs_up_is_waited_for(
    start: Start, slow_catalog: str, tmp_path: Path
) -> None:
    """No consumer is in its group by then: it would hold the process for ever, and a supervisor
    would wait with it."""
    process, log = start(slow_catalog), tmp_path / "committer.log"
    deadline = time.monotonic() + PATIENCE_S
    while "catalog_unreached" not in log.read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_what_a_killed_worker_left_is_swept_when_its_task_counts_as_failed(
    table: Table, kafka: str, start: Start, events: Events
) -> None:
    table.append((1, 1), (2, 1))
    (group,) = table.rewrite(task="t").groups
    output, days_ago = group.outputs[0].path, time.time() - 2 * 86_400
    folder = table.loaded.metadata_location.rsplit("/", 1)[0]
    place = f"{folder}/{table.run.list_name}"
    listed = OutputList("t", 1, table.name.uuid, "w", int(days_ago * 1000), (output,))
    write_ahead_list.write_list(table.loaded.io, place, listed, signer_here().keys)
    os.utime(place.removeprefix("file:"), (days_ago, days_ago))
    failed = TaskFailed("t", table.name, "main", None, "rewrite", 1, "w", "oom", "", True, 1)
    publisher = KafkaPublisher(kafka, 8, "test")
    publisher.publish("task-results", table.name.uuid, failed)
    publisher.flush()
    start()
    told, swept = events(table.name.uuid, 2)
    assert told == failed
    assert isinstance(swept, OutputsSwept)
    assert (swept.files_removed, swept.lists_removed) == (1, 1)
    assert not Path(output.removeprefix("file:")).exists()
    assert table.rows() == [(1, 1), (2, 1)]
