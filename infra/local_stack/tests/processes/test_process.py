"""Processes do not outlive whoever started them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from firnline_local.processes.command import Command
from firnline_local.processes.process import PartNotReady, Process, run_process

SLEEPER = "import time; print('alive', flush=True); time.sleep(600)"
STARTER = f"""
import sys, time
from pathlib import Path
from firnline_local.processes.command import Command
from firnline_local.processes.process import Process
root = Path(sys.argv[1])
command = Command("part", (sys.executable, "-c", {SLEEPER!r}), root, lambda: True)
process = Process(command, root / "part.log")
while "alive" not in process.log_tail():  # past the check of its launcher of its parent
    time.sleep(0.02)
print(process.pid, flush=True)
time.sleep(600)
"""


def sleeper(tmp_path: Path, **changes: object) -> Command:
    fields = {
        "name": "part",
        "argv": (sys.executable, "-c", SLEEPER),
        "cwd": tmp_path,
        "ready": lambda: True,
        **changes,
    }
    return Command(**fields)  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_child_dies_with_its_killed_parent(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        child = psutil.Process(int(starter.stdout.readline()))
        starter.kill()
        child.wait(timeout=30)
    assert not child.is_running()


def test_a_part_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True);"
    process = Process(
        sleeper(tmp_path, argv=(sys.executable, "-c", deaf + "time.sleep(600)")),
        tmp_path / "part.log",
    )
    while "deaf" not in process.log_tail():
        assert process.exit_code() is None
    process.terminate()
    process.wait_or_kill(grace_s=0.2)
    assert process.exit_code() == -9


def test_serving_says_why_a_part_did_not_come_up(tmp_path: Path) -> None:
    code = "print('port is taken'); raise SystemExit(4)"
    command = sleeper(tmp_path, argv=(sys.executable, "-c", code), ready=lambda: False)
    with (
        pytest.raises(PartNotReady, match=r"(?s)part exited with 4.*port is taken"),
        run_process(command, tmp_path / "part.log"),
    ):
        pass


def test_serving_stops_what_does_not_become_ready(tmp_path: Path) -> None:
    command = sleeper(tmp_path, ready=lambda: False, env={"FIRNLINE_STACK": str(tmp_path)})
    with (
        pytest.raises(PartNotReady, match=r"not ready in 0\.3 s"),
        run_process(command, tmp_path / "part.log", timeout_s=0.3),
    ):
        pass
    from firnline_local.stack import stack_processes

    assert stack_processes.find(tmp_path) == []
