"""The embedded stack as a whole: up, again, crash, hold, Ctrl-C, kill -9 (issue 3, item 2)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from firnline_local.processes.ports import is_open
from firnline_local.processes.process import PartNotReady
from firnline_local.stack import stack_processes
from firnline_local.stack.stack import Stack, attach_to_stack, run_stack
from firnline_local.stack.state import AlreadyRunning, StateDir
from firnline_schemas.topics import all_topics
from redis import Redis

pytestmark = pytest.mark.stack

FIRNLINE = (sys.executable, "-m", "firnline_cli")
SERVERS = ("kafka", "redis", "catalog")


def firnline(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FIRNLINE, *map(str, arguments)], capture_output=True, text=True, timeout=200
    )


def events(state: StateDir) -> list[tuple[str, str]]:
    lines = (state.root / "events.jsonl").read_text().splitlines()
    return [(event["part"], event["what"]) for event in map(json.loads, lines)]


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    place = StateDir.from_path(tmp_path / "stack")
    yield place
    firnline("down", "--state", place.root)


@pytest.fixture
def redis_stack(state: StateDir) -> Iterator[Stack]:
    with run_stack(state.root, only=("redis",)) as stack:
        yield stack


def test_a_second_up_says_what_is_running_and_where(state: StateDir) -> None:
    first = firnline("up", "--detach", "--state", state.root, "--only", "redis")
    assert first.returncode == 0, first.stderr
    address = attach_to_stack(state.root).redis
    again = firnline("up", "--state", state.root, "--only", "redis")
    assert again.returncode == 0
    assert "already running" in again.stdout
    assert address in again.stdout


def test_a_second_up_that_wants_more_is_refused(redis_stack: Stack) -> None:
    refused = firnline("up", "--state", redis_stack.state.root, "--only", "redis,catalog")
    assert refused.returncode == 2
    assert "not part of it: catalog" in refused.stdout


def test_running_does_not_share_a_directory(redis_stack: Stack) -> None:
    with pytest.raises(AlreadyRunning), run_stack(redis_stack.state.root, only=("redis",)):
        pass
    with Redis.from_url(redis_stack.redis) as client:
        assert client.ping()


def test_status_and_down(state: StateDir) -> None:
    firnline("up", "--detach", "--state", state.root, "--only", "redis")
    status = firnline("status", "--json", "--state", state.root)
    assert status.returncode == 0
    said = json.loads(status.stdout)
    assert (said["running"], said["phase"], list(said["parts"])) == (True, "ready", ["redis"])
    assert said["ready_s"] > 0
    assert firnline("down", "--state", state.root).stdout == "stopped\n"
    assert not is_open(said["ports"]["redis"])
    assert firnline("status", "--state", state.root).returncode == 1
    assert firnline("down", "--state", state.root).stdout == "nothing was running\n"


def test_a_killed_part_comes_back_at_the_same_address(redis_stack: Stack) -> None:
    address = redis_stack.redis
    pid = redis_stack.kill_part("redis")
    redis_stack.wait_ready("redis")
    assert redis_stack.part_record("redis").pid != pid
    assert redis_stack.part_record("redis").restarts == 1
    assert redis_stack.redis == address
    with Redis.from_url(address) as client:
        assert client.ping()
    assert ("redis", "crashed") in events(redis_stack.state)


def test_ctrl_c_leaves_no_process_and_no_port(state: StateDir) -> None:
    argv = [*FIRNLINE, "up", "--state", str(state.root), "--only", ",".join(SERVERS)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as up:
        until(lambda: up.poll() is not None or state.read_record().phase == "ready")
        ports = state.read_record().ports
        assert all(is_open(ports[name]) for name in SERVERS)
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
        assert up.stdout is not None
        assert "ready in" in up.stdout.read()
    # Parts are asked to stop and waited for; the broker says on its disk that it had the time.
    assert (state.data_path("kafka") / "data" / ".kafka_cleanshutdown").exists()
    assert stack_processes.find(state.root) == []
    assert not any(is_open(port) for port in ports.values())


def test_ctrl_c_while_it_starts_leaves_nothing(state: StateDir) -> None:
    argv = [*FIRNLINE, "up", "--state", str(state.root), "--only", "kafka"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as up:
        until(lambda: "kafka" in state.read_record().parts)
        broker = psutil.Process(state.read_record().parts["kafka"].pid)
        broker.suspend()  # so it cannot become ready
        up.send_signal(signal.SIGINT)
        until(lambda: ("", "stopping") in events(state))
        # Before the JVM handles SIGTERM, the kernel lets it end even a suspended process.
        with suppress(psutil.NoSuchProcess):
            broker.resume()
        assert up.wait(60) == 0
    assert stack_processes.find(state.root) == []


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_killed_supervisor_leaves_nothing(state: StateDir) -> None:
    firnline("up", "--detach", "--state", state.root, "--only", "redis,catalog")
    parts = [psutil.Process(part.pid) for part in state.read_record().parts.values()]
    supervisor = state.read_record().pid
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    for part in parts:
        part.wait(timeout=30)
    until(lambda: stack_processes.find(state.root) == [])
    assert firnline("status", "--state", state.root).returncode == 1


def test_up_removes_what_an_earlier_stack_left_behind(state: StateDir) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    env = {**os.environ, **stack_processes.mark_of(state.root, "worker")}
    stray = subprocess.Popen(argv, env=env, start_new_session=True)
    with run_stack(state.root, only=("redis",)) as stack:
        assert stray.wait(30) == -signal.SIGKILL
        assert ("", "left-overs-killed") in events(stack.state)


@pytest.mark.long
def test_a_stack_keeps_its_ports_and_its_topics(state: StateDir) -> None:
    with run_stack(state.root, only=("kafka",)) as stack:
        address = stack.kafka
        before = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).cluster_id
    with run_stack(state.root, only=("kafka",)) as stack:
        assert stack.kafka == address
        after = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30)
    assert after.cluster_id == before
    assert {topic.name for topic in all_topics()} <= set(after.topics)


@pytest.mark.long
def test_a_broker_can_be_held_and_let_go(state: StateDir) -> None:
    with run_stack(state.root, only=("kafka",)) as stack:
        port = stack.addresses.ports["kafka"]
        stack.stop_part("kafka")
        assert not is_open(port)
        with pytest.raises(PartNotReady):
            stack.kill_part("kafka")
        stack.start_part("kafka")
        assert is_open(port)
        assert stack.part_record("kafka").restarts == 0


def test_a_taken_port_is_not_used(state: StateDir) -> None:
    with run_stack(state.root, only=("redis",)) as stack:
        port = stack.addresses.ports["redis"]
    argv = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as stranger:
        until(lambda: is_open(port))
        with run_stack(state.root, only=("redis",)) as stack:
            assert stack.addresses.ports["redis"] != port
        stranger.terminate()
