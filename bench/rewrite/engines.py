"""Who takes part: each is a process tree of its own, asked by a pipe."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from bench.rewrite.trees import cpu_s, tree

STOP_S = 20.0
CORES = 2  # of each engine
STOCK_HEAP = "6g"  # room enough: less costs it CPU for collections
CACHE = {
    "spark.sql.iceberg.executor-cache.max-entry-size": str(1 << 30),
    "spark.sql.iceberg.executor-cache.max-total-size": str(4 << 30),
}


class Failed(RuntimeError):
    """An engine did not finish: it said why, died, or took too long."""


@dataclass(frozen=True)
class Engine:
    """A module that serves `child.serve`, and its settings."""

    name: str
    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def having(self, **settings: Any) -> Engine:
        """The same with other settings."""
        return replace(self, settings={**self.settings, **settings})


FIRNLINE = Engine("firnline", "bench.rewrite.firnline_side", {"cores": CORES, "heap": "1g"})
STOCK = Engine(
    "stock",
    "bench.rewrite.stock_side",
    {"cores": CORES, "heap": STOCK_HEAP, "configuration": {}, "options": {}},
)
STOCK_CACHED = Engine(
    "stock_cached",
    "bench.rewrite.stock_side",
    {**STOCK.settings, "configuration": CACHE, "options": {"cache-delete-files": "true"}},
)
FLOOR = Engine("floor", "bench.rewrite.floor_side", {"cores": CORES, "lean": False})
FLOOR_LEAN = Engine("floor_lean", "bench.rewrite.floor_side", {"cores": CORES, "lean": True})
COMMITTER = Engine("committer", "bench.rewrite.committer_side")
SAIL = Engine("sail", "bench.rewrite.sail_side", {"cores": CORES})
TRINO = Engine("trino", "bench.rewrite.trino_side", {"cores": CORES, "heap": STOCK_HEAP})


@dataclass
class Running:
    """An engine's process; the tree's root."""

    name: str
    module: str
    process: subprocess.Popen[str]
    start_s: float = 0.0
    start_cpu_s: float = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, timeout_s: float | None = None, **question: Any) -> dict[str, Any]:
        """Raises Failed."""
        _pipe(self.process.stdin).write(json.dumps(question) + "\n")
        _pipe(self.process.stdin).flush()
        return self.answer(timeout_s)

    def answer(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next line. Raises Failed."""
        with selectors.DefaultSelector() as selector:
            selector.register(_pipe(self.process.stdout), selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise Failed(f"{self.name}: no answer in {timeout_s:.0f} s")
        line = _pipe(self.process.stdout).readline()
        if not line:
            raise Failed(f"{self.name}: ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.name}: {answer['error']}")
        return answer


@contextmanager
def started(engine: Engine, folder: Path, **settings: Any) -> Iterator[Running]:
    """Up and ready; ended with all its descendants. `folder` is its own. Raises Failed."""
    folder.mkdir(parents=True, exist_ok=True)
    given = {**engine.settings, **settings, "folder": str(folder)}
    begin = time.monotonic()
    with (folder / f"{engine.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", engine.module, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    running = Running(engine.name, engine.module, process)
    try:
        running.answer()
        running.start_s = time.monotonic() - begin
        running.start_cpu_s = cpu_s(process.pid)
        yield running
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Its stdin closes, so it ends by itself; what is left of the tree after that is killed."""
    pids = [stat.pid for stat in tree(process.pid)]
    _pipe(process.stdin).close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in pids:
        try:
            if os.getsid(pid) == process.pid:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    _pipe(process.stdout).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
