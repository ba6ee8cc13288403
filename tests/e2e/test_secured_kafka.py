"""The whole pipeline over SASL_SSL with SCRAM, each service with the rights of its principal alone:
commit, event, order, rewrite, result, commit. Then every service ends as it is told to.

A canary is in every password, setting, credential and header: it sings in no log, topic, file or
process list."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.connection import KafkaConnection, client_config
from firnline_adapters.observability.logs import Log
from firnline_domain.records.parts.summaries import TASK_ID
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import SERVICES, Addresses, Settings, pick_ports
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.stack.state import StackRecord, StateDir
from firnline_local.topics.topics import DEFAULT_BUCKETS, make_topics
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from redis import Redis

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


def canary() -> str:
    return f"{CANARY}-{uuid.uuid4().hex}"


def settings(broker: SecuredKafka, folder: Path, driver: str, where: Addresses) -> Settings:
    """With secrets of all kinds in every service's environment."""
    common = {
        "FIRNLINE_REDIS": where.redis.replace("://", f"://default:{canary()}@"),
        "FIRNLINE_CATALOG_URI": where.gateway.replace("://", f"://someone:{canary()}@"),
        "AWS_ACCESS_KEY_ID": canary(),
        "AWS_SECRET_ACCESS_KEY": canary(),
        "AWS_SESSION_TOKEN": canary(),
        "FIRNLINE_COMPARE_SHARE": "1",  # everything that a worker can be asked to do
    }
    found = {}
    for service in SERVICES:
        connection = broker.scram(PREFIX + service)
        found[service] = {
            **common,
            "FIRNLINE_KAFKA": connection.servers,
            "FIRNLINE_KAFKA_CONFIG": str(written(folder, connection, service)),
            "FIRNLINE_PLANNER_DRIVER": driver,
            "FIRNLINE_LOG_FORMAT": "json" if service == "enricher" else "text",
        }
    found["gateway"] |= {
        "FIRNLINE_CATALOG__LAKE__URI": where.gateway,
        "FIRNLINE_CATALOG__LAKE__TOKEN": canary(),
    }
    return found


@pytest.fixture(scope="module", params=mark_long(("kafka", "faust"), but=("kafka",)))
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("secured")
    state = StateDir.from_path(folder / "stack")
    with secured_kafka(folder / "broker") as broker, pytest.MonkeyPatch.context() as environment:
        environment.delenv("FIRNLINE_SIGNING_KEYS")  # the stack makes a key of its own
        broker.allow_all_services()
        make_topics(broker.plain_tls(f"{PREFIX}local"), DEFAULT_BUCKETS)
        ports = pick_ports({})
        state.write_record(StackRecord(ports=ports))  # picked up by the supervisor
        given = settings(broker, folder, request.param, Addresses(ports))
        with run_stack(state.root, only=PARTS, settings=given) as stack:
            assert stack.record.ports == ports
            yield Fleet(stack, broker, request.param)


@pytest.fixture(scope="module")
def used(fleet: Fleet) -> Fleet:
    """After a table's life: created, written, rewritten, dropped, by a writer with credentials; and
    a catalog that some services could not reach for a while."""
    headers = {"header.X-Api-Key": canary(), "header.Cookie": f"session={canary()}"}
    catalog = RestCatalog("lake", uri=fleet.stack.gateway_uri, token=canary(), **headers)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties=PROPERTIES)
    table.append(ROWS)
    fleet.stack.kill_part("catalog")
    fleet.stack.wait_ready("catalog")
    for _ in range(3):
        table.append(ROWS)
    await_rewrites(table, 1)
    assert table.scan().to_arrow().num_rows == 8
    catalog.drop_table("db.t")
    time.sleep(1.0)
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


def test_the_stacks_own_key_is_its_users_alone(used: Fleet) -> None:
    """And everything was signed with it: the rewrite went through all services."""
    state = used.stack.state
    file = state.signing_keys
    assert file.stat().st_mode & 0o777 == 0o600
    key = file.read_text().strip().partition(":")[2].encode()
    assert len(key) == 64
    files = [path for path in state.root.rglob("*") if path.is_file() and path != file]
    assert [path for path in files if key in content(path)] == []
    assert not [one for one in letters(used) if "sign" in one]


def letters(fleet: Fleet) -> list[str]:
    """Why records were put aside."""
    admin = fleet.broker.plain(ADMIN)
    publisher = KafkaPublisher(admin, DEFAULT_BUCKETS, "test", signer=fleet.stack.signer)
    inbox = KafkaInbox(admin, uuid.uuid4().hex, ["dead-letters"], publisher, Log("test"))
    found = [one.record.reason for _ in range(10) for one in inbox.poll(0.5)]
    inbox.close()
    return found


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # a part has put it away meanwhile
        return b""


def test_no_secret_is_in_logs(used: Fleet) -> None:
    logs = sorted(used.stack.state.log_path("x").parent.iterdir())
    assert {path.stem for path in logs} >= set(PARTS)
    assert [path.name for path in logs if CANARY in path.read_text(errors="replace")] == []


def test_no_secret_is_in_process_lists(used: Fleet) -> None:
    lines = [" ".join(process.cmdline()) for process in stack_processes.find(used.stack.state.root)]
    assert any("SparkSubmit" in line for line in lines)
    assert [line for line in lines if CANARY in line] == []


def test_no_secret_is_in_files(used: Fleet) -> None:
    """Of the gateway's outbox, the planner's state, the catalog, the tables; and of the broker."""
    files = [path for path in used.stack.state.root.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    of_broker = (used.broker.folder / "data").rglob("*")  # its indexes are 10 MB of nothing each
    files += [path for path in of_broker if path.is_file() and "index" not in path.suffix]
    assert [path for path in files if CANARY.encode() in content(path)] == []


def test_no_secret_is_in_topics(used: Fleet) -> None:
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


def test_no_secret_is_in_redis(used: Fleet) -> None:
    with Redis.from_url(used.stack.redis) as client:
        keys = list(client.scan_iter())
        assert keys
        assert [key for key in keys if CANARY in repr((key, value_of(client, key)))] == []


def value_of(client: Any, key: bytes) -> Any:
    readers = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"zset": lambda name: client.zrange(name, 0, -1),
        b"list": lambda name: client.lrange(name, 0, -1),
        b"stream": client.xrange,
    }
    return readers[client.type(key)](key)


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
    catalog = RestCatalog("lake", uri=used.stack.gateway_uri)
    table = catalog.create_table("db.without", ROWS.schema, properties=PROPERTIES)
    for _ in range(3):
        table.append(ROWS)
    await_rewrites(table, 1)
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
