"""Kafka Connect with Iceberg's own sink, a connector for each table. Its jars come from Maven,
pinned in the lock file beside this module (61 MB); Hadoop's are those of the embedded catalog."""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.processes.process import run_process
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_jars, fetch_pins
from firnline_local.servers.java import find_java
from firnline_local.servers.repository import repository_root

from bench.soak.writers import NAMESPACE
from tests.kit.flink import FROM_CATALOG

LOCK = Path(__file__).with_suffix(".lock")
TOPIC = "soak-rows"
FAILED = re.compile(
    r"ommit \S+ failed for task (\S+?)-\d+|WorkerSinkTask\{id=(\S+?)-\d+\} Task threw"
)
WORKER = """bootstrap.servers={kafka}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
offset.storage.file.filename={folder}/offsets
listeners={uri}
plugin.discovery=service_load
"""
SINK = """name={name}
connector.class=org.apache.iceberg.connect.IcebergSinkConnector
tasks.max=1
topics={topic}
consumer.override.auto.offset.reset=earliest
iceberg.tables={table}
iceberg.catalog.type=rest
iceberg.catalog.uri={uri}
iceberg.control.topic={control}
iceberg.control.commit.interval-ms={interval_ms:.0f}
"""


@contextmanager
def connect_worker(
    kafka: str, tables: Mapping[str, str], interval_s: float, folder: Path, log: Path
) -> Iterator[None]:
    """Run a worker with a sink for each table. `tables`: their names and their catalogs."""
    folder.mkdir(parents=True)
    topics = [NewTopic(one, 1, 1) for one in (TOPIC, *map(_control, tables))]
    admin = AdminClient({"bootstrap.servers": kafka})  # without a name its futures never end
    for made in admin.create_topics(topics).values():
        made.result()
    uri, files = f"http://{LOOPBACK}:{free_port()}", [folder / "worker.properties"]
    files[0].write_text(WORKER.format(kafka=kafka, folder=folder, uri=uri))
    for name, catalog in tables.items():
        files.append(folder / f"{name}.properties")
        given = {"name": name, "table": f"{NAMESPACE[0]}.{name}", "uri": catalog}
        given |= {"topic": TOPIC, "control": _control(name)}
        files[-1].write_text(SINK.format(**given, interval_ms=interval_s * 1000))
    pins = [PinnedArtifact(*line.split()) for line in LOCK.read_text().splitlines()]
    ours = [one for one in fetch_jars("catalog") if one.name.startswith(FROM_CATALOG)]
    jars = [*fetch_pins(pins, cache_root(), repository_root), *ours]
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    options = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    paths = os.pathsep.join(map(str, jars))
    argv = (find_java(), *options, "-cp", paths, main, *map(str, files))
    command = Command("connect", argv, folder, lambda: _has_connectors(uri, len(tables)))
    with run_process(command, log):
        yield


def _control(name: str) -> str:
    return f"control-{name}"


def _has_connectors(uri: str, number: int) -> bool:
    try:
        with urllib.request.urlopen(f"{uri}/connectors", timeout=1) as answer:
            return len(json.load(answer)) == number
    except OSError:
        return False


def produce_rows(kafka: str, rows_per_second: int, stop: threading.Event) -> int:
    """Produce rows 0, 1, ... until `stop`; return their number."""
    producer, number = Producer({"bootstrap.servers": kafka}), 0
    while not stop.wait(1.0):
        for _ in range(rows_per_second):
            producer.produce(TOPIC, json.dumps({"id": number, "v": number}).encode())
            number += 1
        producer.flush()
    return number


def read_failed_commits(log: Path, name: str) -> list[str]:
    """Return what the worker said of a connector's commits that failed."""
    return [
        line
        for line in log.read_text().splitlines()
        if (found := FAILED.search(line)) and name in found.groups()
    ]
