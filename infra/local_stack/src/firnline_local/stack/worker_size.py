"""Chooses the size of the embedded stack's workers: what the planner requests on its topic, within
the limits of the machine. The events of the stack say what it came to.

A worker takes both lanes here, so the heavy lane's wish is the worker's size."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from firnline_domain.policy.fleet.worker_memory import Steps, with_steps

SHARE_VARIABLE = "FIRNLINE_WORKER_MEMORY_SHARE"
# Half of it for the heap: what masks rows is Python beside it, and the servers want theirs.
SHARE = 0.5
HEAP_VARIABLE, TASKS_VARIABLE = "FIRNLINE_HEAP_BYTES", "FIRNLINE_TASKS_AT_ONCE"
DEFAULTS = {
    HEAP_VARIABLE: str(1 << 30),
    TASKS_VARIABLE: "4",
}  # the worker's own; a test compares them
LIMITS = (  # of a container around the whole stack
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
MB = 1 << 20


@dataclass(frozen=True)
class Size:
    """The size of a worker. `asked`: the heap that it would have on a larger machine."""

    heap_bytes: int
    asked_bytes: int
    tasks_at_once: int

    @property
    def settings(self) -> dict[str, str]:
        """Return the worker's settings."""
        return {
            HEAP_VARIABLE: str(self.heap_bytes),
            TASKS_VARIABLE: str(self.tasks_at_once),
        }

    def __str__(self) -> str:
        found = f"heap={self.heap_bytes // MB}m tasks-at-once={self.tasks_at_once}"
        if self.asked_bytes == self.heap_bytes:
            return found
        return f"{found} (asked for {self.asked_bytes // MB}m: more than the machine's share)"


def choose_size(given: Mapping[str, str], wish: Steps, max_bytes: int) -> Size:
    """Return the worker's size. Only the machine limits memory outside the JVM, so after each
    out-of-memory error there half as many tasks share it, a step each. Raises ValueError if a given
    setting is no size."""
    base = int(given.get(HEAP_VARIABLE, DEFAULTS[HEAP_VARIABLE]))
    tasks = int(given.get(TASKS_VARIABLE, DEFAULTS[TASKS_VARIABLE]))
    asked = with_steps(base, wish.heap)
    heap = min(asked, max(max_bytes, base))  # what a person has set is never taken away
    return Size(heap, asked, max(tasks >> wish.overhead, 1))


def max_bytes() -> int:
    """Return the size in bytes that a worker's heap may grow to on this machine; 0 = it is never
    grown. Raises ValueError."""
    share = float(os.environ.get(SHARE_VARIABLE, SHARE))
    return int(machine_bytes() * min(max(share, 0.0), 1.0))


def machine_bytes() -> int:
    """Return the physical memory in bytes, or what the container around us may take of it."""
    found = [psutil.virtual_memory().total]
    for file in LIMITS:
        with suppress(OSError, ValueError):  # no such limit: absent, or `max`
            found.append(int(file.read_text()))
    return min(found)
