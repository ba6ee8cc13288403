"""The quick start as its reader runs it: its shell blocks in their order, on a stack of its own.

`tests/test_release.py` builds the wheel and installs it, as the first block does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
PAGE = (Path(__file__).parents[2] / "docs/get-started/quick-start.md").read_text()
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
INSTALL = "make setup"
STOP = "firnline down"
PATIENCE_S = 180.0


def find_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(script: str, folder: Path) -> str:
    command = ["bash", "-eu", "-c", script]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    run(STOP, tmp_path)


def find_tasks(folder: Path) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = json.loads(run("firnline tasks --json", folder))["tasks"]
    return tasks


def test_the_quick_start_rewrites_a_table(folder: Path) -> None:
    install, *blocks, stop = find_blocks("sh")
    assert INSTALL in install
    assert stop.strip() == STOP
    (script,) = find_blocks("python")
    (folder / "orders.py").write_text(script)
    for block in blocks:
        if "PORT" in block:
            parts = json.loads(run("firnline status --json", folder))["parts"]
            block = block.replace("http://127.0.0.1:PORT", parts["gateway"]["address"])
        run(block, folder)
    deadline = time.monotonic() + PATIENCE_S
    while not any(task["status"] == "committed" for task in find_tasks(folder)):
        assert time.monotonic() < deadline, find_tasks(folder)
        time.sleep(2)  # each look is a process
    events = run("firnline events --table shop.orders", folder)
    assert "12 → 2 data files" in events
    run(stop, folder)
