"""The embedded stack with services that have JVMs and workers of their own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from firnline_local.processes.ports import is_open
from firnline_local.stack import stack_processes
from firnline_local.stack.parts import SERVERS
from firnline_local.stack.stack import start_detached, stop_stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "stack"
    stop_stack(tmp_path / "stack")


def await_end(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + 60
    while any(stack_processes.is_alive(process) for process in processes):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def has_jvm(processes: list[psutil.Process]) -> bool:
    return any("java" in process.name() for process in processes)


@pytest.mark.long
def test_a_killed_worker_takes_spark_along_and_down_leaves_nothing(state_dir: Path) -> None:
    parts = (*SERVERS, "gateway", "worker")
    stack = start_detached(state_dir, only=parts)
    root = stack.state.root
    lives = {name: part.life for name, part in stack.record.parts.items()}
    assert lives == dict.fromkeys(parts, "ready")
    family = stack_processes.find(root, "worker")
    assert has_jvm(family)
    stack.kill_part("worker")
    await_end(family)
    stack.wait_ready("worker")
    ports = stack.record.ports
    assert stop_stack(root)
    assert stack_processes.find(root) == []
    assert [name for name, port in ports.items() if is_open(port)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_killed_supervisor_leaves_no_jvm_of_a_service(state_dir: Path) -> None:
    stack = start_detached(state_dir, only=(*SERVERS, "gateway", "committer"))
    root = stack.state.root
    assert has_jvm(stack_processes.find(root, "committer"))
    family = stack_processes.find(root)
    supervisor = stack.record.pid
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    await_end(family)
    assert stack_processes.find(root) == []
