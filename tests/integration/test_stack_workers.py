"""The embedded stack's workers come and go with the open tasks: processes that stand in for worker
and console, and the real supervisor."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from firnline_local.stack.stack import Stack, run_stack
from firnline_local.stack.stack_processes import find

pytestmark = pytest.mark.stack

# Runs a task while there is a file of its name. Asked to leave, it ends when that has ended; asked
# to stop, at once.
WORKER = """
import os, pathlib, signal, sys, time
folder, asked = pathlib.Path(os.environ["STAND_IN"]), []
name = os.environ["FIRNLINE_PART"]
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("action=ready", flush=True)
try:
    while not asked or (folder / f"busy-{name}").exists():
        time.sleep(0.02)
finally:
    if (folder / f"busy-{name}").exists():
        (folder / "killed").touch()
"""
CONSOLE = """
import http.server, os, pathlib
wanted = pathlib.Path(os.environ["STAND_IN"]) / "wanted"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(wanted.read_bytes())
host, port = os.environ["FIRNLINE_LISTEN_ADDRESS"].split(":")
server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
print("action=ready", flush=True)
server.serve_forever()
"""


def want(home: Path, workers: int) -> None:
    draft = home / "draft"
    draft.write_text(json.dumps({"both": {"wanted": workers}}))
    draft.replace(home / "wanted")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for service, code in (("worker", WORKER), ("console", CONSOLE)):
        package = tmp_path / "stand-in" / f"firnline_{service}"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(code)
    want(tmp_path, 0)
    return tmp_path


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    given = {"PYTHONPATH": str(home / "stand-in"), "STAND_IN": str(home)}
    settings = {"worker": given, "console": given}
    with run_stack(home / "stack", ("console", "worker"), settings, "0..4:1:60") as up:
        yield up


def lives(stack: Stack) -> list[str]:
    return [part.life for name, part in stack.record.parts.items() if name != "console"]


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def worker_processes(stack: Stack) -> list[psutil.Process]:
    names = ("worker", "worker-2", "worker-3", "worker-4")
    return [one for name in names for one in find(stack.state.root, name)]


def scalings(stack: Stack) -> list[str]:
    lines = (stack.state.root / "events.jsonl").read_text().splitlines()
    return [one["detail"] for one in map(json.loads, lines) if one["what"] == "scaled"]


def test_workers_go_from_none_to_four_and_back_after_their_tasks(stack: Stack, home: Path) -> None:
    assert lives(stack) == ["stopped"] * 4
    assert worker_processes(stack) == []
    want(home, 8)
    until(lambda: lives(stack) == ["ready"] * 4)
    assert len({stack.record.ports[f"worker{one}-metrics"] for one in ("", "-2", "-3", "-4")}) == 4
    (home / "busy-worker").touch()
    want(home, 0)
    until(lambda: lives(stack) == ["leaving", "stopped", "stopped", "stopped"])
    busy = stack.part_record("worker").pid
    want(home, 1)  # one that still ends is wanted last
    until(lambda: lives(stack) == ["leaving", "ready", "stopped", "stopped"])
    want(home, 0)
    until(lambda: lives(stack) == ["leaving", "stopped", "stopped", "stopped"])
    assert [one.pid for one in worker_processes(stack)] == [busy]
    (home / "busy-worker").unlink()
    until(lambda: lives(stack) == ["stopped"] * 4)
    assert worker_processes(stack) == []
    assert not (home / "killed").exists()
    assert scalings(stack) == ["from=0 to=4", "from=4 to=0", "from=0 to=1", "from=1 to=0"]
