"""The console over a real broker and a real Redis, in its own process and in ours."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis
from confluent_kafka import Producer
from firnline_adapters.kafka.client import Header, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_here
from firnline_console.bootstrap import create_follower, texts_client
from firnline_console.read_model.listing import Query
from firnline_console.read_model.port import Limits
from firnline_console.read_model.redis import RedisReadModel
from firnline_console.read_model.redis_keys import RedisKeys
from firnline_console.settings import ConsoleSettings
from firnline_domain.identity import TableName, bucket_of
from firnline_local.processes.command import Command
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import Process, run_process
from firnline_local.topics.topics import make_topics
from prometheus_client import REGISTRY

from tests.examples import make

pytestmark = pytest.mark.stack
T = TypeVar("T")
BUCKETS = 8
PATIENCE_S = 90.0
MANY = Limits(events=100_000, tasks=100_000, letters=100_000, dropped=100_000)


def eventually(question: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """The first answer that is wanted; the last one, where patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(answer := question()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert wanted(answer), answer
    return answer


@dataclass(frozen=True)
class Story:
    """A table of this test alone, on a shared broker."""

    bootstrap: str
    table: TableName

    def publish(self, topic: str, path: str, **changes: Any) -> None:
        publisher = KafkaPublisher(self.bootstrap, BUCKETS, "story")
        publisher.publish(topic, self.table.uuid, make(path, table=self.table, **changes))
        publisher.flush()

    def tell(self) -> None:
        """A commit, its files, two orders and what became of them, and the planner's state."""
        task, expiry = uuid.uuid4().hex, uuid.uuid4().hex
        self.publish("table-commits", "table_committed/upsert", event_id=uuid.uuid4().hex)
        self.publish("file-changes", "files_changed/upsert", event_id=uuid.uuid4().hex)
        self.publish("rewrite-tasks", "rewrite_files/compact", task_id=task)
        self.publish("maintenance-events", "task_failed/out_of_memory", task_id=task)
        self.publish("rewrite-tasks", "rewrite_files/compact", task_id=task, attempt=3)
        self.publish("maintenance-events", "rewrite_committed/native", task_id=task)
        self.publish("maintenance-events", "rewrite_committed/native", task_id=task)
        self.publish("table-tasks", "expire_snapshots/old_snapshots", task_id=expiry)
        self.publish("table-states", "table_state/in_flight")


@pytest.fixture
def story(kafka: str) -> Story:
    make_topics(kafka, BUCKETS)
    name = f"t{uuid.uuid4().hex[:8]}"
    return Story(kafka, TableName(str(uuid.uuid4()), ("console",), name))


class View:
    """A read model of this test alone, and followers that fill it."""

    def __init__(self, kafka: str, redis_url: str) -> None:
        keys = os.environ["FIRNLINE_SIGNING_KEYS"]
        self.settings = ConsoleSettings(kafka=kafka, redis=redis_url, signing_keys=keys)
        self.model = RedisReadModel(
            texts_client(redis_url), RedisKeys(f"t{uuid.uuid4().hex}:view:"), MANY
        )

    def follow(self, until: Callable[[], bool], rebuild: bool = False) -> None:
        stop = threading.Event()
        run = create_follower(self.settings, self.model, Log("test")).run
        thread = threading.Thread(target=run, args=(stop, rebuild))
        thread.start()
        try:
            eventually(until, bool)
        finally:
            stop.set()
            thread.join()

    def everything(self) -> dict[str, Any]:
        """All that does not depend on the order of arrival."""
        _, tables = self.model.list_tables(Query(limit=10_000))
        return {
            "totals": self.model.read_totals(0),
            "tables": tables,
            "states": [self.model.read_states(one.key) for one in tables],
            "tasks": self.model.list_tasks(10_000),
            "events": [one.event for one in self.model.list_events(None, 10_000)],
            "letters": self.model.list_dead_letters(10_000),
        }


def lag_groups(prefix: str) -> set[str]:
    """The labels of the consumer groups that wait for records in this process."""
    samples = (one for family in REGISTRY.collect() for one in family.samples)
    lags = (one for one in samples if one.name == "firnline_consumer_lag_records")
    return {one.labels["group"] for one in lags if one.labels["group"].startswith(prefix)}


def told(events: list[Any], story: Story) -> list[Any]:
    mine = (one for one in events if one.table_key == story.table.key)
    return sorted(mine, key=lambda one: (one.kind, one.text, str(one.id)))


def test_a_rebuild_gives_the_same_view(story: Story, redis_url: str) -> None:
    story.tell()
    bad = Producer({"bootstrap.servers": story.bootstrap})
    partition = bucket_of(story.table.uuid, BUCKETS)
    key = story.table.uuid.encode()
    headers = list[Header](signer_here().sign_headers("file-changes", partition, key, b"no avro"))
    bad.produce("file-changes", b"no avro", key, partition=partition, headers=headers)
    bad.flush()
    view = View(story.bootstrap, redis_url)

    def is_told() -> bool:
        mine = view.model.list_tasks(10, story.table.uuid)
        table = view.model.find_table(story.table.dotted_name)
        rejected = any(
            one.value_start == b"no avro".hex() for one in view.model.list_dead_letters(1_000)
        )
        return rejected and table is not None and table.summary is not None and len(mine) == 2

    def is_quiet() -> bool:
        before = view.everything()
        time.sleep(2.0)
        # Each generation has a consumer group; metrics have one label for all of them.
        waits = lag_groups("firnline-console") == {"firnline-console"}
        return waits and is_told() and view.everything() == before

    view.follow(is_quiet)
    first = view.everything()
    generation = view.model.current_generation()
    # The bad record is rejected once more, by the new group: the same letter.
    view.follow(is_quiet, rebuild=True)
    assert view.model.current_generation() != generation
    again = view.everything()
    # Between partitions there is no order, and the broker's other tables have their own stories:
    # tests that ran before tell one task of several tables.
    assert told(again.pop("events"), story) == told(first.pop("events"), story)
    assert of(again.pop("tasks"), story) == of(first.pop("tasks"), story)
    assert again == first


def of(tasks: list[Any], story: Story) -> list[Any]:
    return [task for task in tasks if task.table.uuid == story.table.uuid]


def test_a_restart_reads_only_what_is_new(story: Story, redis_url: str) -> None:
    story.tell()
    view = View(story.bootstrap, redis_url)
    view.follow(lambda: len(view.model.list_tasks(9, story.table.uuid)) == 2)
    generation = view.model.current_generation()
    story.publish("rewrite-tasks", "rewrite_files/compact", task_id=uuid.uuid4().hex)
    view.follow(lambda: len(view.model.list_tasks(9, story.table.uuid)) == 3)
    assert view.model.current_generation() == generation


@dataclass(frozen=True)
class Running:
    """The console as a process."""

    uri: str
    process: Process
    store: redis.Redis

    def get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self.uri + path, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return {"status": error.code, **json.load(error)}


@pytest.fixture
def console(story: Story, redis_url: str, tmp_path: Path) -> Iterator[Running]:
    url = redis_url.removesuffix("/0") + "/9"  # a database of its own: keys have their real names
    port, metrics = free_port(), free_port()
    environment = {
        "FIRNLINE_KAFKA": story.bootstrap,
        "FIRNLINE_REDIS": url,
        "FIRNLINE_LISTEN_ADDRESS": str(port),
        "FIRNLINE_METRICS_ADDRESS": str(metrics),
        "FIRNLINE_BUCKETS": str(BUCKETS),
    }
    log = tmp_path / "console.log"
    command = Command(
        name="console",
        argv=(sys.executable, "-m", "firnline_console"),
        cwd=tmp_path,
        ready=lambda: log.exists() and "action=ready" in log.read_text(),
        env=environment,
    )
    with redis.Redis.from_url(url) as store:
        store.flushdb()
        with run_process(command, log) as process:
            yield Running(f"http://127.0.0.1:{port}", process, store)
        store.flushdb()


def test_the_process_serves_what_is_on_the_topics(story: Story, console: Running) -> None:
    story.tell()
    path = f"/api/tables/{story.table.dotted_name}"
    table = eventually(lambda: console.get(path), lambda one: one.get("counted", False))
    assert (table["table_key"], table["debt_files"]) == (story.table.key, 2)
    explained = console.get(path + "/explain")
    assert explained["partitions"][0]["reason"] == "equality_deletes"
    assert console.get("/healthz")["healthy"]


def test_a_redis_that_lost_its_data_is_filled_again(story: Story, console: Running) -> None:
    story.tell()
    path = f"/api/tables/{story.table.dotted_name}"
    eventually(lambda: console.get(path), lambda one: one.get("counted", False))
    console.store.flushdb()
    eventually(lambda: console.get(path), lambda one: one.get("counted", False))
    assert console.get("/healthz")["healthy"]


def test_the_live_tail_tells_what_happens(story: Story, console: Running) -> None:
    """A client that comes back, as browsers do: a Redis that is slow once ends the stream."""
    last, told, seen = "", False, threading.Event()

    def follow() -> None:
        nonlocal last, told
        given = {"Last-Event-ID": last} if last else {}
        request = urllib.request.Request(console.uri + "/api/events/stream", headers=given)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as stream:
            for line in stream:
                if not told:
                    story.tell()
                    told = True
                name, _, text = line.decode().strip().partition(": ")
                last = text if name == "id" else last
                if name == "data" and json.loads(text)["table"] == story.table.dotted_name:
                    seen.set()
                    return

    deadline = time.monotonic() + PATIENCE_S
    while not seen.is_set() and time.monotonic() < deadline:
        follow()
    assert seen.is_set()


def test_it_stops_when_told_with_viewers_still_there(console: Running) -> None:
    with urllib.request.urlopen(console.uri + "/api/events/stream", timeout=PATIENCE_S) as stream:
        assert stream.readline().startswith(b"retry")
        os.kill(console.process.pid, signal.SIGTERM)
        assert eventually(console.process.exit_code, lambda code: code is not None) == 0
