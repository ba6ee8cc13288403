"""One part under supervision, with small real processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from firnline_local.processes.command import Command
from firnline_local.stack import stack_processes
from firnline_local.stack.state import Event, StateDir
from firnline_local.stack.supervised_part import TRIES, SupervisedPart, backoff_s

SLEEPER = "import time; time.sleep(600)"
# Starts a grandchild in another session, as PySpark's daemon and JVM launchers may.
NEST = (
    "import subprocess, sys, time;"
    f"subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], start_new_session=True);"
    "time.sleep(600)"
)


def supervised(
    tmp_path: Path, code: str, events: list[Event], comes_up: bool = True
) -> SupervisedPart:
    state = StateDir.from_path(tmp_path)
    command = Command(
        name="part",
        argv=(sys.executable, "-c", code),
        cwd=tmp_path / "part",
        ready=lambda: comes_up,
        env=stack_processes.mark_of(state.root, "part"),
    )
    return SupervisedPart(command, state, "", events.append)


def tick_until(part: SupervisedPart, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        part.run_due_actions()
        time.sleep(0.02)


@pytest.fixture
def events() -> list[Event]:
    return []


def test_backoff_doubles_up_to_ten_seconds() -> None:
    assert [backoff_s(streak) for streak in range(1, 8)] == [0.5, 1, 2, 4, 8, 10, 10]


def test_a_killed_part_is_restarted_and_said_so(tmp_path: Path, events: list[Event]) -> None:
    part = supervised(tmp_path, SLEEPER, events)
    try:
        tick_until(part, lambda: part.life == "ready")
        first = part.part_record().pid
        assert first is not None
        psutil.Process(first).kill()
        tick_until(part, lambda: part.life == "crashed")
        tick_until(part, lambda: part.life == "ready")
        assert part.part_record().pid != first
        assert part.part_record().restarts == 1
        assert [event.what for event in events] == [
            "started", "ready", "crashed", "started", "ready"
        ]  # fmt: skip
        assert events[2].detail == "signal=9 restart-in=0.5s"
    finally:
        part.terminate()
        part.finish()


def test_a_killed_part_takes_its_grandchildren_along(tmp_path: Path, events: list[Event]) -> None:
    part = supervised(tmp_path, NEST, events)
    state = StateDir.from_path(tmp_path)
    try:
        tick_until(part, lambda: len(stack_processes.find(state.root, "part")) == 2)
        pid = part.part_record().pid
        assert pid is not None
        psutil.Process(pid).kill()
        tick_until(part, lambda: part.life == "crashed")
        assert stack_processes.find(state.root, "part") == []
    finally:
        part.terminate()
        part.finish()


def test_stopping_leaves_no_process_behind(tmp_path: Path, events: list[Event]) -> None:
    part = supervised(tmp_path, NEST, events)
    root = StateDir.from_path(tmp_path).root
    tick_until(part, lambda: len(stack_processes.find(root)) == 2)
    part.terminate()
    part.finish()
    assert stack_processes.find(root) == []


def test_a_part_that_never_comes_up_is_given_up(
    tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline_local.stack.supervised_part.FIRST_BACKOFF_S", 0.01)
    part = supervised(tmp_path, "print('no such setting'); raise SystemExit(3)", events, False)
    tick_until(part, part.never_started)
    assert [event.what for event in events] == ["started", "crashed"] * TRIES
    assert "exit=3" in events[-1].detail
    assert "no such setting" in part.log_tail()


def test_a_held_part_stays_down_until_it_is_let_go(tmp_path: Path, events: list[Event]) -> None:
    part = supervised(tmp_path, SLEEPER, events)
    held = StateDir.from_path(tmp_path).held_path("part")
    held.parent.mkdir(parents=True)
    try:
        tick_until(part, lambda: part.life == "ready")
        held.touch()
        part.run_due_actions()
        assert part.life == "held"
        assert stack_processes.find(StateDir.from_path(tmp_path).root) == []
        part.run_due_actions()
        assert part.life == "held"
        held.unlink()
        tick_until(part, lambda: part.life == "ready")
    finally:
        part.terminate()
        part.finish()


# Ends on SIGUSR1 when its file is gone, as a worker does when its tasks have ended.
BUSY = (
    "import os, pathlib, signal, time\n"
    "busy, asked = pathlib.Path('busy'), []\n"
    "signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))\n"
    "pathlib.Path('up').touch()\n"
    "while busy.exists() or not asked:\n"
    "    time.sleep(0.02)\n"
)


def changed(part: SupervisedPart, tmp_path: Path, code: str) -> None:
    """By another command, whose environment tells which it was."""
    mark = stack_processes.mark_of(StateDir.from_path(tmp_path).root, "part")
    part.change_command(
        Command(
            "part", (sys.executable, "-c", code), tmp_path / "part", lambda: True,
            {**mark, "SIZE": "2"},
        )
    )  # fmt: skip


def assert_has_changed(part: SupervisedPart) -> None:
    """Between fork and exec a process has its parent's environment."""
    process = psutil.Process(part.part_record().pid)
    tick_until(part, lambda: process.environ().get("SIZE") == "2")


def test_a_part_that_is_changed_ends_its_work_first(tmp_path: Path, events: list[Event]) -> None:
    part = supervised(tmp_path, BUSY, events)
    (tmp_path / "part").mkdir()
    busy = tmp_path / "part" / "busy"
    busy.touch()
    try:
        tick_until(part, lambda: part.life == "ready" and (tmp_path / "part" / "up").exists())
        first = part.part_record().pid
        changed(part, tmp_path, SLEEPER)
        for _ in range(20):
            part.run_due_actions()
            time.sleep(0.02)
        assert (part.life, part.part_record().pid) == ("leaving", first)
        busy.unlink()
        tick_until(part, lambda: part.life == "ready")
        assert part.part_record().pid not in (None, first)
        assert_has_changed(part)
        assert part.part_record().restarts == 0
        assert [event.what for event in events] == [
            "started", "ready", "leaving", "started", "ready"
        ]  # fmt: skip
    finally:
        part.terminate()
        part.finish()


def test_a_part_whose_work_does_not_end_is_asked_to_stop_and_then_killed(
    tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline_local.stack.supervised_part.LEAVE_S", 0.1)
    monkeypatch.setattr("firnline_local.stack.supervised_part.STOP_S", 0.3)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);\n" + BUSY
    part = supervised(tmp_path, deaf, events)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "busy").touch()
    try:
        tick_until(part, lambda: part.life == "ready" and (tmp_path / "part" / "up").exists())
        first = part.part_record().pid
        changed(part, tmp_path, SLEEPER)
        tick_until(part, lambda: part.life == "ready")
        assert part.part_record().pid != first
    finally:
        part.terminate()
        part.finish()


def test_a_part_that_is_down_comes_back_changed(tmp_path: Path, events: list[Event]) -> None:
    part = supervised(tmp_path, SLEEPER, events)
    try:
        tick_until(part, lambda: part.life == "ready")
        psutil.Process(part.part_record().pid).kill()
        tick_until(part, lambda: part.life == "crashed")
        changed(part, tmp_path, SLEEPER)
        tick_until(part, lambda: part.life == "ready")
        assert_has_changed(part)
    finally:
        part.terminate()
        part.finish()
