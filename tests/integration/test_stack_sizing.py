"""The planner's wishes for its workers, on a real broker, and the stack that obeys them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from firnline_adapters.kafka.client import Header
from firnline_adapters.kafka.worker_directives import KafkaDirectives
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import encode_record
from firnline_adapters.records.signing import VARIABLE, signer_here
from firnline_adapters.service import ServiceSettings
from firnline_domain.policy.fleet.worker_memory import VALID_MS, Steps
from firnline_domain.records.orders import SizeWorkers
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.topics.topics import DEFAULT_BUCKETS
from firnline_local.workers.__main__ import make_keeper
from firnline_local.workers.kubernetes import ApiServer, WorkerDeployment
from firnline_worker.settings import WorkerSettings

from tests.kit.kubernetes_server import KubernetesServer
from tests.kit.kubernetes_server import kubernetes as kubernetes
from tests.kit.kubernetes_server import kubernetes_api as kubernetes_api

pytestmark = pytest.mark.stack

# Stands in for the worker: what counts here is when it ends, and with what it is started again.
STAND_IN = """
import pathlib, signal, sys, time
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda *_: sys.exit(0))
print("action=ready", flush=True)
time.sleep(600)
"""
GB, MB = 1 << 30, 1 << 20


def tell(
    bootstrap: str, bucket: int, heap: int, overhead: int = 0, age_ms: int = 0, group: str = ""
) -> None:
    now = int(time.time() * 1000) - age_ms
    order = SizeWorkers("heavy", bucket, heap, overhead, "short", {}, now, group)
    producer = Producer({"bootstrap.servers": bootstrap})
    key = f"heavy/{bucket}/{group}".rstrip("/").encode()
    headers = list[Header](
        signer_here().sign_headers("worker-directives", bucket, key, encode_record(order))
    )
    producer.produce(
        "worker-directives", encode_record(order), key, partition=bucket, headers=headers
    )
    assert producer.flush(30) == 0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    package = tmp_path / "stand-in" / "firnline_worker"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STAND_IN)
    return tmp_path


def stack(home: Path, **more: str) -> AbstractContextManager[Stack]:
    given = {"PYTHONPATH": str(home / "stand-in"), "FIRNLINE_HEAP_BYTES": str(512 * MB), **more}
    return run_stack(home / "stack", ("kafka", "worker"), {"worker": given})


def environment(stack: Stack) -> Mapping[str, str]:
    """What the worker was started with."""
    pid = stack.part_record("worker").pid
    try:
        return psutil.Process(pid).environ() if pid is not None else {}
    except psutil.Error:  # it has just ended
        return {}


def heap(stack: Stack) -> str:
    """In MB; '' while there is no worker."""
    given = environment(stack).get("FIRNLINE_HEAP_BYTES")
    return f"{int(given) // MB}m" if given else ""


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def told(stack: Stack, what: str) -> list[str]:
    lines = (stack.state.root / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["part"] == "worker"]
    return [event["detail"] for event in events if event["what"] == what]


def test_a_wish_makes_the_worker_larger_and_its_end_makes_it_what_it_was(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_WORKER_MEMORY_SHARE", str(5 * GB / psutil.virtual_memory().total))
    with stack(home) as up:
        assert heap(up) == "512m"
        first = up.part_record("worker").pid
        tell(up.kafka, 3, heap=1)
        until(lambda: heap(up) == "2560m")
        up.wait_ready("worker")
        assert up.part_record("worker").pid != first
        assert up.part_record("worker").restarts == 0
        assert told(up, "sized") == ["heap=2560m tasks-at-once=4"]
        tell(up.kafka, 5, heap=0, overhead=1)  # another bucket's: the most of both holds
        sized = ("2", str(2560 * MB))
        names = ("FIRNLINE_TASKS_AT_ONCE", "FIRNLINE_HEAP_BYTES")
        until(lambda: tuple(map(environment(up).get, names)) == sized)
        up.wait_ready("worker")
        up.stop_part("kafka")  # no answer is no wish for less
        time.sleep(3)
        assert (up.part_record("worker").life, heap(up)) == ("ready", "2560m")
        up.start_part("kafka")
        starts = len(told(up, "started"))
    with stack(home) as up:  # whoever starts again reads the topic first
        assert heap(up) == "2560m"
        assert len(told(up, "started")) == starts + 1
        tell(up.kafka, 3, heap=0)
        tell(up.kafka, 5, heap=0)
        until(lambda: heap(up) == "512m")
        assert told(up, "sized")[-1] == "heap=512m tasks-at-once=4"


@pytest.mark.long
def test_it_never_asks_for_more_than_the_machines_share(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_WORKER_MEMORY_SHARE", str(2 * GB / psutil.virtual_memory().total))
    with stack(home) as up:
        tell(up.kafka, 0, heap=4)
        until(lambda: heap(up) not in ("512m", ""))
        assert 2000 <= int(heap(up).removesuffix("m")) <= 2048
        [detail] = told(up, "sized")
        up.wait_ready("worker")
        assert "(asked for 8704m: more than the machine's share)" in detail
        grown = up.part_record("worker").pid
        tell(up.kafka, 0, heap=3)  # it could not have had either: no reason to begin anew
        until(lambda: len(told(up, "sized")) == 2)
        time.sleep(1)
        assert up.part_record("worker").pid == grown


@pytest.mark.long
def test_a_worker_of_a_group_has_the_groups_size(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_WORKER_MEMORY_SHARE", str(5 * GB / psutil.virtual_memory().total))
    with stack(home, FIRNLINE_RESOURCE_GROUP="etl") as up:
        tell(up.kafka, 0, heap=4)
        tell(up.kafka, 0, heap=1, group="etl")
        until(lambda: heap(up) not in ("512m", ""))
        assert heap(up) == "2560m"


@pytest.mark.long
def test_it_is_switched_off_by_a_share_of_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_WORKER_MEMORY_SHARE", "0")
    with stack(home) as up:
        tell(up.kafka, 0, heap=4)
        time.sleep(3)
        assert heap(up) == "512m"


def test_the_newest_word_of_each_bucket_counts_for_three_days(kafka: str) -> None:
    for bucket in range(DEFAULT_BUCKETS):  # other tests' planners have had their wishes
        tell(kafka, bucket, heap=0)
    tell(kafka, 1, heap=4)
    tell(kafka, 1, heap=2)
    tell(kafka, 2, heap=3, age_ms=VALID_MS)
    directives = KafkaDirectives(kafka)
    now_ms = int(time.time() * 1000)
    assert directives.requested_steps(now_ms) == Steps(heap=2)
    tell(kafka, 1, heap=0)
    until(lambda: directives.requested_steps(now_ms) == Steps())
    directives.close()


def test_the_scaler_of_a_cluster_gives_a_deployment_what_is_requested(
    kafka: str, kubernetes: KubernetesServer, kubernetes_api: ApiServer
) -> None:
    for bucket in range(DEFAULT_BUCKETS):
        tell(kafka, bucket, heap=0, group="etl")
    settings = ServiceSettings(kafka=kafka, signing_keys=os.environ[VARIABLE])
    workers = WorkerDeployment(kubernetes_api, "heavy")
    keeper = make_keeper(workers, settings, Log("scaler"))
    tell(kafka, 1, heap=1, group="etl")
    tell(kafka, 1, heap=4)  # another group's

    def changes() -> list[Any]:
        keeper.run_due_actions()
        return [change for _, change in kubernetes.patches]

    until(lambda: len(changes()) == 1)
    annotations = {"firnline/memory-steps": "heap=1 overhead=0"}
    assert changes()[0]["metadata"] == {"annotations": annotations}
    assert kubernetes.replicas == 0  # no console says how many there should be


def test_the_sizes_that_growth_begins_with_are_the_workers_own() -> None:
    from firnline_local.stack.worker_size import DEFAULTS

    assert {
        "FIRNLINE_HEAP_BYTES": str(WorkerSettings.heap_bytes),
        "FIRNLINE_TASKS_AT_ONCE": str(WorkerSettings.tasks_at_once),
    } == DEFAULTS
