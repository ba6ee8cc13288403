"""A canary in every setting, credential and header: it sings in no log, topic, file or process
list."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.records.parts.summaries import TASK_ID
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import (
    CAPTURE,
    SERVICES,
    Addresses,
    Settings,
    parts_with,
    pick_ports,
)
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.stack.state import StackRecord, StateDir
from pyiceberg.catalog.rest import RestCatalog
from redis import Redis

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
CANARY = "cAnAry"
PATIENCE_S = 120.0
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
PROPERTIES = {
    "firnline.rewrite.min-fragments": "2",
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "0",
    "format-version": "2",
}


def canary() -> str:
    return f"{CANARY}-{uuid.uuid4().hex}"


def planted(where: Addresses) -> Settings:
    """Secrets of all kinds, in every service's environment."""
    common = {
        "FIRNLINE_REDIS": where.redis.replace("://", f"://default:{canary()}@"),
        "FIRNLINE_CATALOG_URI": where.gateway.replace("://", f"://someone:{canary()}@"),
        "AWS_ACCESS_KEY_ID": canary(),
        "AWS_SECRET_ACCESS_KEY": canary(),
        "AWS_SESSION_TOKEN": canary(),
        "FIRNLINE_COMPARE_SHARE": "1",  # everything that a worker can be asked to do
    }
    ours = {"FIRNLINE_CATALOG__LAKE__URI": where.gateway, "FIRNLINE_CATALOG__LAKE__TOKEN": canary()}
    return {**dict.fromkeys(SERVICES, common), "gateway": {**common, **ours}}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    state = StateDir.from_path(tmp_path_factory.mktemp("secrets") / "stack")
    ports = pick_ports({})
    state.write_record(StackRecord(ports=ports))  # picked up by the supervisor
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("FIRNLINE_SIGNING_KEYS")  # the stack makes a key of its own
        with run_stack(state.root, settings=planted(Addresses(ports))) as stack:
            assert stack.record.ports == ports
            yield stack


@pytest.fixture(scope="module")
def used(stack: Stack) -> Stack:
    """After a table's life: created, written, rewritten, dropped, by a writer with credentials; and
    a catalog that some services could not reach for a while."""
    headers = {"header.X-Api-Key": canary(), "header.Cookie": f"session={canary()}"}
    catalog = RestCatalog("lake", uri=stack.gateway_uri, token=canary(), **headers)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties=PROPERTIES)
    table.append(ROWS)
    stack.kill_part("catalog")
    stack.wait_ready("catalog")
    for _ in range(3):
        table.append(ROWS)
    deadline = time.monotonic() + PATIENCE_S
    while not any(TASK_ID in one.summary.additional_properties for one in table.snapshots()):
        assert time.monotonic() < deadline, "no rewrite was committed"
        time.sleep(0.2)
        table.refresh()
    catalog.drop_table("db.t")
    time.sleep(1.0)
    return stack


def test_the_stacks_own_key_is_its_users_alone(used: Stack) -> None:
    """And everything was signed with it: the rewrite went through all services."""
    file = used.state.signing_keys
    assert file.stat().st_mode & 0o777 == 0o600
    key = file.read_text().strip().partition(":")[2].encode()
    assert len(key) == 64
    files = [path for path in used.state.root.rglob("*") if path.is_file() and path != file]
    assert [path for path in files if key in _bytes(path)] == []
    assert not [one for one in letters(used) if "sign" in one]


def letters(stack: Stack) -> list[str]:
    """Why records were put aside."""
    publisher = KafkaPublisher(stack.kafka, 8, "test", signer=stack.signer)
    inbox = KafkaInbox(stack.kafka, uuid.uuid4().hex, ["dead-letters"], publisher, Log("test"))
    found = [one.record.reason for _ in range(10) for one in inbox.poll(0.5)]
    inbox.close()
    return found


def test_not_in_logs(used: Stack) -> None:
    logs = sorted(used.state.log_path("x").parent.iterdir())
    assert {path.stem for path in logs} >= set(parts_with(CAPTURE))
    assert [path.name for path in logs if CANARY in path.read_text(errors="replace")] == []


def test_not_in_process_lists(used: Stack) -> None:
    lines = [" ".join(process.cmdline()) for process in stack_processes.find(used.state.root)]
    assert any("SparkSubmit" in line for line in lines)
    assert [line for line in lines if CANARY in line] == []


def test_not_in_files(used: Stack) -> None:
    """Of the gateway's outbox, the planner's state, the broker, the catalog, the tables."""
    files = [path for path in used.state.root.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    found = [path for path in files if CANARY.encode() in _bytes(path)]
    assert found == []


def _bytes(path: Any) -> bytes:
    try:
        return bytes(path.read_bytes())
    except FileNotFoundError:  # a part has put it away meanwhile
        return b""


def test_not_in_topics(used: Stack) -> None:
    consumer = Consumer({"bootstrap.servers": used.kafka, "group.id": uuid.uuid4().hex,
                         "enable.partition.eof": True})  # fmt: skip
    topics = consumer.list_topics(timeout=10).topics
    places = [TopicPartition(name, number, OFFSET_BEGINNING)
              for name, topic in topics.items() for number in topic.partitions]  # fmt: skip
    consumer.assign(places)
    left, read, singing = len(places), 0, set()
    while left:
        for message in consumer.consume(500, 1.0):
            if message.error():
                left -= 1
                continue
            read += 1
            whole = repr((message.key(), message.value(), message.headers()))
            if CANARY in whole:
                singing.add(message.topic())
    consumer.close()
    assert read > 20
    assert singing == set()


def test_not_in_redis(used: Stack) -> None:
    with Redis.from_url(used.redis) as client:
        keys = list(client.scan_iter())
        assert keys
        assert [key for key in keys if CANARY in repr((key, _whole(client, key)))] == []


def _whole(client: Any, key: bytes) -> Any:
    readers = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"zset": lambda name: client.zrange(name, 0, -1),
        b"list": lambda name: client.lrange(name, 0, -1),
        b"stream": client.xrange,
    }
    return readers[client.type(key)](key)
