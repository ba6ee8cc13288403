"""How large the stack's worker may be: what the planner wishes for, within what the machine has.

One worker takes both lanes here, so the heavy lane's wish is the worker's size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from firnline_domain.policy.memory_tuning import Steps, with_steps

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
    """Of a worker. `asked`: the heap that it would have on a larger machine."""

    heap_bytes: int
    asked_bytes: int
    tasks_at_once: int

    @property
    def settings(self) -> dict[str, str]:
        """The worker's."""
        return {
            HEAP_VARIABLE: str(self.heap_bytes),
            TASKS_VARIABLE: str(self.tasks_at_once),
        }

    def __str__(self) -> str:
        found = f"heap={self.heap_bytes // MB}m tasks-at-once={self.tasks_at_once}"
        if self.asked_bytes == self.heap_bytes:
            return found
        return f"{found} (asked for {self.asked_bytes // MB}m: more than the machine's share)"


def size(given: Mapping[str, str], wish: Steps, most_bytes: int) -> Size:
    """The worker's size. Nothing here limits memory beside the JVM but the machine, so whoever ran
    out of that shares it with half as many, a step each. Raises ValueError where what was given is
    no size.
    """
    base = int(given.get(HEAP_VARIABLE, DEFAULTS[HEAP_VARIABLE]))
    tasks = int(given.get(TASKS_VARIABLE, DEFAULTS[TASKS_VARIABLE]))
    asked = with_steps(base, wish.heap)
    heap = min(asked, max(most_bytes, base))  # what a person has set is never taken away
    return Size(heap, asked, max(tasks >> wish.overhead, 1))


def most_bytes() -> int:
    """The most that a worker's heap may grow to here; 0 = it is never grown. Raises ValueError."""
    share = float(os.environ.get(SHARE_VARIABLE, SHARE))
    return int(machine_bytes() * min(max(share, 0.0), 1.0))


def machine_bytes() -> int:
    """Physical memory, or what the container around us may take of it."""
    found = [psutil.virtual_memory().total]
    for file in LIMITS:
        with suppress(OSError, ValueError):  # no such limit: absent, or `max`
            found.append(int(file.read_text()))
    return min(found)
