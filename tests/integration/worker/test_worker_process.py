"""The worker as a process: from an order on the topic to its result, and its end."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import Scope, TableName, task_id
from firnline_domain.policy.fleet.lanes import Lane, lane_topic, topics_of_group
from firnline_domain.records.orders import CompareRows, PauseMaintenance, RewriteFiles
from firnline_domain.records.results import RewriteFinished
from firnline_domain.settings.groups import Group
from firnline_local.processes.command import Command
from firnline_local.processes.process import PartNotReady, Process, run_process
from firnline_local.topics.topics import make_topics

from tests.kit.long_run import mark_long
from tests.kit.with_constants import with_constants
from tests.topics import forget

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(600)]
WAIT_S = 240.0  # a cold start takes 10 s on idle cores


@pytest.fixture
def consumer_group() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def command(
    kafka: str,
    redis_url: str,
    catalog_uri: str,
    iceberg_jar: Path,
    tmp_path: Path,
    consumer_group: str,
) -> Command:
    forget(kafka, "rewrite-tasks", "table-tasks", "compare-tasks")  # of tables that are gone
    log = tmp_path / "worker.log"
    plain = Command(
        "worker",
        (sys.executable, "-m", "firnline_worker"),
        tmp_path / "cwd",
        lambda: log.exists() and b"action=ready" in log.read_bytes(),
        {
            "FIRNLINE_KAFKA": kafka,
            "FIRNLINE_REDIS": redis_url,
            "FIRNLINE_CATALOG_URI": catalog_uri,
            "FIRNLINE_ICEBERG_JAR": str(iceberg_jar),
            "FIRNLINE_STATE_DIR": str(tmp_path / "state"),
            "FIRNLINE_SPARK_MASTER": "local[2]",
        },
    )
    return with_constants(plain, "worker", group=consumer_group)


@pytest.fixture
def worker(command: Command, tmp_path: Path) -> Iterator[Process]:
    with run_process(command, tmp_path / "worker.log", WAIT_S) as process:
        yield process


@pytest.fixture
def results(kafka: str) -> Iterator[Callable[[str], Any]]:
    """Waits for the result of a task."""
    publisher = KafkaPublisher(kafka, 8, "test")
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, ["task-results"], publisher, Log("test"))

    def wait(task: str) -> Any:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for delivery in inbox.poll(0.5):
                if delivery.record.task_id == task:
                    return delivery.record
        raise AssertionError(f"no result of {task}")

    yield wait
    inbox.close()


def ordered(
    kafka: str, table: TableName, head: int, attempt: int = 1, topic: str = "rewrite-tasks"
) -> str:
    now = int(time.time() * 1000)
    name, scope = task_id(table.uuid, "main", "[]", "compact", attempt), Scope(0, "[]")
    order = RewriteFiles(
        name, table, "main", scope, "compact", "test", head, attempt, now, now + 600_000
    )
    publisher = KafkaPublisher(kafka, 8, "test")
    publisher.publish(topic, table.uuid, order)
    publisher.flush()
    return name


def paused(kafka: str, table: TableName) -> None:
    """Somebody pulls the table's switch, and the worker has had time to hear of it."""
    publisher = KafkaPublisher(kafka, 8, "test")
    publisher.publish("operator-orders", table.uuid, PauseMaintenance(table, "migration", "ops", 1))
    publisher.flush()
    time.sleep(5.0)


def looked_at(kafka: str, table: TableName, snapshot_id: int) -> str:
    name, scope = task_id(table.uuid, "main", "[]", "compare", 1), Scope(0, "[]")
    order = CompareRows(name, table, "main", scope, (snapshot_id,), 1, "test", 1)
    publisher = KafkaPublisher(kafka, 8, "test")
    publisher.publish("compare-tasks", table.uuid, order)
    publisher.flush()
    return name


def test_an_order_becomes_a_result_and_sigterm_ends_all(
    worker, command, kafka, lake, namespace, results, tmp_path
):
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "s": ["a", None]})
    table = lake.create_table(f"{namespace}.t", rows.schema)
    for _ in range(4):
        table.append(rows)
    name = TableName(str(table.metadata.table_uuid), (namespace,), "t")
    head = table.refresh().current_snapshot().snapshot_id
    result = results(ordered(kafka, name, head))
    assert [len(group.inputs) for group in result.groups] == [2, 2]
    assert sum(group.rows_out for group in result.groups) == 8
    assert result.start_snapshot_id == head
    assert all(os.path.exists(_local(o.path)) for g in result.groups for o in g.outputs)
    found = results(looked_at(kafka, name, result.start_snapshot_id))
    assert (found.outcome, found.before.rows, found.after.rows) == ("differ", 0, 2)  # an append
    nothing = TableName("no-such", (namespace,), "nothing")
    gone = results(ordered(kafka, nothing, head, topic="rewrite-tasks-heavy"))
    assert (gone.reason, gone.retryable) == ("table_gone", False)
    paused(kafka, name)
    held = results(ordered(kafka, name, head, attempt=2))
    assert (held.reason, held.retryable) == ("paused", True)
    assert "by ops: migration" in held.message
    worker.terminate()
    worker._popen.wait(30)
    assert worker.exit_code() == 0
    assert list((tmp_path / "state").glob("sets-*")) == []


@pytest.mark.long
def test_a_worker_that_nothing_runs_on_leaves_when_it_is_asked_to(worker):
    """As whoever gives it another size does: SIGUSR1."""
    worker.stop_when_idle()
    worker._popen.wait(30)
    assert worker.exit_code() == 0


def test_a_worker_whose_jvm_is_killed_ends_and_the_next_one_does_its_work(
    command, kafka, lake, namespace, results, tmp_path
):
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = lake.create_table(f"{namespace}.k", rows.schema)
    for _ in range(4):
        table.append(rows)
    name = TableName(str(table.metadata.table_uuid), (namespace,), "k")
    head = table.refresh().current_snapshot().snapshot_id
    with run_process(command, tmp_path / "worker.log", WAIT_S) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        [java] = [child for child in children if child.name() == "java"]
        java.kill()
        task = ordered(kafka, name, head)
        process._popen.wait(60)
        assert process.exit_code() == 75
    (tmp_path / "worker.log").unlink()
    with run_process(command, tmp_path / "worker.log", WAIT_S):
        assert isinstance(results(task), RewriteFinished)


@pytest.mark.long
def test_a_killed_workers_task_is_done_by_its_next_life_without_waiting_for_the_lease(
    command, consumer_group, kafka, lake, namespace, results, tmp_path
):
    """Its lease would last for ten minutes yet; nobody else may have it so soon."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = lake.create_table(f"{namespace}.l", rows.schema)
    for _ in range(4):
        table.append(rows)
    name = TableName(str(table.metadata.table_uuid), (namespace,), "l")
    head = table.refresh().current_snapshot().snapshot_id
    command = with_constants(command, "worker", group=consumer_group, lease_s=600.0)
    log = tmp_path / "worker.log"
    with run_process(command, log, WAIT_S) as process:
        task = ordered(kafka, name, head)
        while b"action=task_started" not in log.read_bytes():
            time.sleep(0.01)
        killed = [
            *psutil.Process(process.pid).children(recursive=True),
            psutil.Process(process.pid),
        ]
        for one in killed:
            one.kill()
        process._popen.wait(60)
    assert b"action=task_finished" not in log.read_bytes()
    log.unlink()
    with run_process(command, log, WAIT_S):
        assert isinstance(results(task), RewriteFinished)


@pytest.mark.long
def test_a_groups_worker_takes_the_orders_of_its_group_and_no_others(
    command, consumer_group, kafka, namespace, results, tmp_path
):
    group = f"g-{uuid.uuid4().hex[:8]}"
    env = {**command.env, "FIRNLINE_RESOURCE_GROUP": group}
    nothing = [TableName(f"no-such-{n}", (namespace,), "nothing") for n in range(3)]
    with pytest.raises(PartNotReady, match=rf"rewrite-tasks\.{group} is not there"):
        start_and_stop(replace(command, env=env), tmp_path)
    make_topics(kafka, 8, [Group(group)])
    with run_process(replace(command, env=env), tmp_path / "worker.log", WAIT_S):
        others = ordered(kafka, nothing[0], 1)
        for table, lane in zip(nothing[1:], Lane, strict=True):
            assert results(ordered(kafka, table, 1, topic=lane_topic(lane, group)))
        admin = AdminClient({"bootstrap.servers": kafka})
        members = subscribed(admin, f"{consumer_group}.{group}")
        assert members == {*topics_of_group(group)}
    assert others not in seen(kafka, "task-results")


def subscribed(admin: AdminClient, group: str) -> set[str]:
    """Topics of which a living member of the group has a partition."""
    [answer] = admin.describe_consumer_groups([group]).values()
    members = answer.result(WAIT_S).members
    return {place.topic for one in members for place in one.assignment.topic_partitions}


def start_and_stop(command: Command, at: Path) -> None:
    with run_process(command, at / "worker.log", WAIT_S):
        pass


def seen(kafka: str, topic: str) -> set[str]:
    """Tasks of all records that are on a topic."""
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, [topic], KafkaPublisher(kafka, 8, "test"), Log("t"))
    found: set[str] = set()
    quiet = 0
    while quiet < 6:
        batch = inbox.poll(0.5)
        found |= {one.record.task_id for one in batch}
        quiet = 0 if batch else quiet + bool(found)
    inbox.close()
    return found


def _local(path: str) -> str:
    return "/" + path.removeprefix("file:").lstrip("/")


@pytest.mark.parametrize("grace_s", mark_long([30, 0], but=[30]))
def test_a_worker_that_is_told_to_stop_finishes_its_task_or_gives_it_back(
    command, kafka, lake, namespace, results, tmp_path, grace_s
):
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = lake.create_table(f"{namespace}.g{grace_s}", rows.schema)
    for _ in range(4):
        table.append(rows)
    name = TableName(str(table.metadata.table_uuid), (namespace,), f"g{grace_s}")
    head = table.refresh().current_snapshot().snapshot_id
    patient = {**command.env, "FIRNLINE_GRACE_SECONDS": str(grace_s)}
    log = tmp_path / "worker.log"
    with run_process(replace(command, env=patient), log, WAIT_S) as process:
        task = ordered(kafka, name, head)
        while b"action=task_started" not in log.read_bytes():
            time.sleep(0.01)
        process.terminate()
        process._popen.wait(60)
        assert process.exit_code() == 0
    assert (b"action=task_finished" in log.read_bytes()) == (grace_s > 0)
    if grace_s == 0:
        log.unlink()
        with run_process(command, log, WAIT_S):
            assert isinstance(results(task), RewriteFinished)
    else:
        assert isinstance(results(task), RewriteFinished)
