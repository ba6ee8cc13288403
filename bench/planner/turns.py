"""What an event costs where the fleet does not fit into memory, against one that does: two planners
in turn, because a host is not as fast now as it was a minute ago: the turns are short, and many.

Each has a broker of its own, and is frozen while its next events are put on the topic: like after a
pause it finds all of them there. The other one has nothing to do meanwhile. What a planner shows
and merges after the last event of a turn is in no turn.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firnline_local.processes.process import Process

from bench.planner import parts
from bench.planner.stage import Stage, await_idle, broker, publish

TURNS = 24  # of each; the small fleet has one more
EVENTS = 8_000  # of a turn: to work them off takes a second or two
FROZEN_S = 6.0  # longer, and it may be put out of its group, whose sessions last 8 s


@dataclass
class Player:
    """A planner and its fleet."""

    stage: Stage
    process: Process
    commits: parts.Commits
    events_per_cpu_s: list[float] = field(default_factory=list)

    def play(self, events: int) -> None:
        """Work that many events off."""
        before = self.stage.committed()
        with frozen(self.process):
            until = before + publish(self.stage.kafka, self.commits.next(events))
        found = parts.rates(self.stage.samples(self.process, until))
        self.events_per_cpu_s.append(found["events_per_cpu_s"])
        await_idle(self.process)  # what it has to show of these tables is not the other's burden


def turns(sizes: tuple[int, int], scale: float) -> dict[str, Any]:
    """Events per CPU second of each turn in fleets of so many tables, the small one first. Raises
    RuntimeError where a planner ends."""
    with ExitStack() as stack:
        small, large = (stack.enter_context(_player(tables)) for tables in sizes)
        events = int(EVENTS * min(scale, 1))
        small.play(events)
        for _ in range(TURNS):
            large.play(events)
            small.play(events)
        rates = (small.events_per_cpu_s, large.events_per_cpu_s)
    return {"tables": sizes, "events": events, "events_per_cpu_s": rates}


def ratios(small: list[float], large: list[float]) -> list[float]:
    """The cost of each turn of the large fleet by the mean cost of its two neighbours."""
    return [
        (1 / rate) / ((1 / before + 1 / after) / 2)
        for rate, before, after in zip(large, small, small[1:], strict=False)
    ]


@contextmanager
def _player(tables: int) -> Iterator[Player]:
    with (
        tempfile.TemporaryDirectory(prefix="firnline-bench-planner-") as folder,
        broker(Path(folder)) as kafka,
    ):
        stage = Stage(kafka, Path(folder), "kafka", tables)
        parts.seed(stage)
        with stage.planner() as process:
            await_idle(process)
            yield Player(stage, process, parts.Commits(tables, random.Random(tables)))


@contextmanager
def frozen(process: Process) -> Iterator[None]:
    """Stopped meanwhile. Raises RuntimeError where that was for too long."""
    began_s = time.monotonic()
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)
    if time.monotonic() - began_s > FROZEN_S:
        raise RuntimeError(
            f"publishing took over {FROZEN_S} s: the planner may have lost its place"
        )
