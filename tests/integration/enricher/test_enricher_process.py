"""The enricher as a process between a real broker and a real catalog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import TableName
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    RefMoved,
    TableChange,
    TableCommitted,
)
from firnline_domain.records.orders import ResyncTable
from firnline_enricher.resyncs import to_snapshot_added
from firnline_iceberg.table.catalog_client import Tables
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

pytestmark = pytest.mark.stack
SCHEMA = Schema(NestedField(1, "id", LongType()))
PATIENCE_S = 60.0


@pytest.fixture
def start(kafka: str, catalog_uri: str, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen]]:
    """Starts an enricher; its log is `enricher.log` of the test's directory."""
    running = []

    def run() -> subprocess.Popen:
        environment = {**os.environ, "FIRNLINE_KAFKA": kafka, "FIRNLINE_CATALOG_URI": catalog_uri}
        with (tmp_path / "enricher.log").open("ab") as log:
            command = [sys.executable, "-m", "firnline_enricher"]
            running.append(subprocess.Popen(command, env=environment, stderr=log))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait(10)


@pytest.fixture
def changes(kafka: str) -> Iterator[Callable[[TableName, int], list[FilesChanged]]]:
    """`changes(table, count)`: the table's first `count` different records on `file-changes`."""
    publisher = KafkaPublisher(kafka, 8, "test")
    group = f"t-{uuid.uuid4().hex}"
    inbox = KafkaInbox(kafka, group, ["file-changes"], publisher, Log("test"))
    found: dict[str, FilesChanged] = {}  # after a kill, one may come twice

    def wait(table: TableName, count: int) -> list[FilesChanged]:
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            for one in inbox.poll(0.2):
                if one.key == table.uuid:
                    found.setdefault(one.record.event_id, one.record)
        return list(found.values())[:count]

    yield wait
    inbox.close()


def test_commits_become_changes_over_a_kill_and_a_restart(
    lake, namespace, kafka, catalog_uri, start, changes, tmp_path
) -> None:
    table = lake.create_table(f"{namespace}.t", SCHEMA)
    name = name_of(table, catalog_uri)
    publisher = KafkaPublisher(kafka, 8, "test")
    first = start()
    publish_append(table, publisher, catalog_uri)
    (delta,) = changes(name, 1)
    assert (delta.kind, delta.partitions[0].added.all_data.records) == (ChangeKind.DELTA, 2)
    first.kill()
    publish_append(table, publisher, catalog_uri)
    second = start()
    ids = [one.snapshot_id for one in table.metadata.snapshots]
    assert [one.snapshot_id for one in changes(name, 2)] == ids
    publisher.publish(
        "resync-requests", name.uuid, ResyncTable(name, "main", None, None, "missing_parent", 1)
    )
    publisher.flush()
    assert changes(name, 3)[2].kind is ChangeKind.ABSOLUTE
    second.send_signal(signal.SIGTERM)
    assert second.wait(30) == 0
    log = (tmp_path / "enricher.log").read_text()
    assert log.count("action=ready") == 2
    assert log.count("action=stopped") == 1


def name_of(table, catalog_uri: str) -> TableName:
    *namespace, name = table.name()
    return Tables(catalog_uri).load_named(tuple(namespace), name).identity


def publish_append(table, publisher: KafkaPublisher, catalog_uri: str) -> None:
    """Append two rows, and tell of it as the gateway would."""
    table.refresh()
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    snapshot = to_snapshot_added(table.current_snapshot())
    event = TableCommitted(
        event_id=str(snapshot.snapshot_id),
        table=name_of(table, catalog_uri),
        change=TableChange.COMMITTED,
        snapshots=(snapshot,),
        refs=(RefMoved("main", "branch", snapshot.snapshot_id),),
        expired_snapshot_ids=(),
        metadata_changed=False,
        committed_at_ms=0,
        source="gateway",
    )
    publisher.publish("table-commits", event.table.uuid, event)
    publisher.flush()
