"""The servers of other tests as containers: on loopback only, and gone with their test process.

`FIRNLINE_TEST_CONTAINERS=1 pytest -m long` runs it where an engine answers."""

from __future__ import annotations

import os
import subprocess
import sys

import docker
import pytest

from tests.kit import containers

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def engine() -> None:
    if not containers.containers_wanted():
        pytest.skip("set FIRNLINE_TEST_CONTAINERS=1, and DOCKER_HOST to an engine that answers")


def of_process(pid: int) -> list[object]:
    label = f"{containers.OWNER}={pid}"
    found: list[object] = docker.from_env().containers.list(all=True, filters={"label": label})
    return found


def test_a_server_is_open_on_loopback_only() -> None:
    with containers.serving(containers.redis_container()):
        (one,) = of_process(os.getpid())
        bound = [each for ports in one.ports.values() for each in ports or []]  # type: ignore[attr-defined]
        assert {each["HostIp"] for each in bound} == {"127.0.0.1"}
    assert of_process(os.getpid()) == []


def test_the_server_of_a_killed_test_is_removed_by_the_next() -> None:
    code = (
        "import os, signal; from tests.kit import containers as c\n"
        "with c.serving(c.redis_container()): os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code])
    killed.wait()
    assert len(of_process(killed.pid)) == 1
    containers.remove_orphans()
    assert of_process(killed.pid) == []
