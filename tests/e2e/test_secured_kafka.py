"""The whole pipeline over SASL_SSL with SCRAM, each service with the rights of its principal alone:
commit, event, order, rewrite, result, commit. Then every service ends as it is told to."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from firnline_adapters.kafka.connection import KafkaConnection, client_config
from firnline_domain.records.parts.summaries import TASK_ID
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import SERVICES, Settings
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.topics.topics import DEFAULT_BUCKETS, make_topics
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.kit.long_run import mark_long
from tests.kit.secured_kafka import ADMIN, PREFIX, SecuredKafka, secured_kafka

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]
CANARY = "cAnAry"
PATIENCE_S = 120.0
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
PROPERTIES = {
    "firnline.rewrite.min-fragments": "2",
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "0",
    "format-version": "2",
}
PARTS = ("redis", "catalog", *SERVICES)
COMMITTED_S = 4.0  # Faust commits every 2.8 s, not at its end: what it reads again is known
MAIN_TOPICS = {
    "enricher": "table-commits",
    "committer": "task-results",
    "worker": "rewrite-tasks",
    "planner": "file-changes",
}


@dataclass(frozen=True)
class Fleet:
    stack: Stack
    broker: SecuredKafka
    driver: str


def written(folder: Path, connection: KafkaConnection, service: str) -> Path:
    """A properties file as an operator writes one: the password is in a file of its own."""
    secret = folder / f"{service}.password"
    secret.write_text(f"{connection.properties['sasl.password']}\n")
    properties = {**connection.properties, "sasl.password": f"file:{secret}"}
    path = folder / f"{service}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def settings(broker: SecuredKafka, folder: Path, driver: str) -> Settings:
    found = {}
    for service in SERVICES:
        connection = broker.scram(PREFIX + service)
        found[service] = {
            "FIRNLINE_KAFKA": connection.servers,
            "FIRNLINE_KAFKA_CONFIG": str(written(folder, connection, service)),
            "FIRNLINE_PLANNER_DRIVER": driver,
            "FIRNLINE_LOG_FORMAT": "json" if service == "enricher" else "text",
        }
    return found


@pytest.fixture(scope="module", params=mark_long(("kafka", "faust"), but=("kafka",)))
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("secured")
    with secured_kafka(folder / "broker") as broker:
        broker.allow_all_services()
        make_topics(broker.plain_tls(f"{PREFIX}local"), DEFAULT_BUCKETS)
        given = settings(broker, folder, request.param)
        with run_stack(folder / "stack", only=PARTS, settings=given) as stack:
            yield Fleet(stack, broker, request.param)


@pytest.fixture(scope="module")
def used(fleet: Fleet) -> Fleet:
    """After a table was written and rewritten."""
    catalog = RestCatalog("lake", uri=fleet.stack.gateway_uri)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties=PROPERTIES)
    for _ in range(4):
        table.append(ROWS)
    await_rewrites(table, 1)
    assert table.scan().to_arrow().num_rows == 8
    return fleet


def test_every_service_is_ready_and_says_so(used: Fleet) -> None:
    for service in SERVICES:
        address = f"http://127.0.0.1:{used.stack.record.ports[f'{service}-metrics']}"
        assert json.load(urllib.request.urlopen(f"{address}/healthz")) == {"service": "ok"}
        code, said = ready(used, service)
        deadline = time.monotonic() + PATIENCE_S
        while code != 200 and time.monotonic() < deadline:  # a busy host answers late
            time.sleep(1)
            code, said = ready(used, service)
        assert set(said.values()) == {"ok"}, (service, said)
        assert said.keys() >= {"service", "kafka"}
        assert b"firnline_build_info" in urllib.request.urlopen(f"{address}/metrics").read()


def test_nothing_was_denied(used: Fleet) -> None:
    for service in SERVICES:
        text = used.stack.state.log_path(service).read_text()
        assert "AUTHORIZATION_FAILED" not in text, text
        assert "uthorization failed" not in text, text


def test_lines_of_the_log_are_objects_where_that_was_asked_for(used: Fleet) -> None:
    lines = used.stack.state.log_path("enricher").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert {one["service"] for one in found} == {"enricher"}
    assert "ready" in {one.get("action") for one in found}


def test_no_password_is_in_logs_process_lists_or_files(used: Fleet) -> None:
    root = used.stack.state.root
    lines = [" ".join(process.cmdline()) for process in stack_processes.find(root)]
    assert any("SparkSubmit" in line for line in lines)
    assert [line for line in lines if CANARY in line] == []
    files = [path for path in root.rglob("*") if path.is_file()]
    assert {path.stem for path in files} >= set(SERVICES)
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def test_no_password_is_in_topics(used: Fleet) -> None:
    own = {"group.id": "canary", "enable.partition.eof": True}
    consumer = Consumer(client_config(used.broker.plain(ADMIN), own))
    topics = consumer.list_topics(timeout=10).topics
    places = [
        TopicPartition(name, number, OFFSET_BEGINNING)
        for name, topic in topics.items()
        for number in topic.partitions
    ]
    consumer.assign(places)
    unread, read = {(one.topic, one.partition) for one in places}, 0
    while unread:
        for message in consumer.consume(500, 1.0):
            if message.error():
                unread.discard((message.topic(), message.partition()))  # said at each end
                continue
            read += 1
            assert CANARY not in repr((message.key(), message.value(), message.headers()))
    consumer.close()
    assert read > 20


@pytest.mark.long
@pytest.mark.parametrize("service", ["enricher", "committer", "worker", "planner", "console"])
def test_each_ends_in_order_with_its_offsets_committed(used: Fleet, service: str) -> None:
    time.sleep(COMMITTED_S if used.driver == "faust" else 0.5)
    used.stack.stop_part(service)
    said = used.stack.state.log_path(service).read_text()
    assert "Traceback" not in said
    if service != "console":  # its groups are those of its views
        assert left(used.broker.admin(), service, MAIN_TOPICS[service]) == {}
    used.stack.start_part(service)


@pytest.mark.long
def test_without_redis_all_goes_on_but_leases_and_the_page(used: Fleet) -> None:
    used.stack.stop_part("redis")
    table = RestCatalog("lake", uri=used.stack.gateway_uri).load_table("db.t")
    before = rewrites(table)
    for _ in range(3):
        table.append(ROWS)
    await_rewrites(table, before + 1)
    assert ready(used, "worker")[0] == 200
    assert "refused" in ready(used, "worker")[1]["redis"]
    status, said = ready(used, "console")
    assert (status, said["service"]) == (503, "ok")
    used.stack.start_part("redis")


def rewrites(table: Table) -> int:
    table.refresh()
    return sum(TASK_ID in one.summary.additional_properties for one in table.snapshots())


def await_rewrites(table: Table, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while rewrites(table) < count:
        assert time.monotonic() < deadline, "no rewrite was committed"
        time.sleep(0.2)


def ready(fleet: Fleet, service: str) -> tuple[int, dict[str, str]]:
    port = fleet.stack.record.ports[f"{service}-metrics"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as got:
            return got.status, json.load(got)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def left(admin: AdminClient, group: str, topic: str) -> dict[tuple[str, int], int]:
    """Records that the group has not committed."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    places = [one for one in asked[group].result().topic_partitions if one.topic == topic]
    assert places
    committed = {(one.topic, one.partition): one.offset for one in places}
    ends = admin.list_offsets({one: OffsetSpec.latest() for one in places})
    behind = {
        (one.topic, one.partition): end.result().offset - committed[one.topic, one.partition]
        for one, end in ends.items()
    }
    # The end of a transaction takes an offset, too, and is no record.
    return {place: count for place, count in behind.items() if count > (group == "worker")}
