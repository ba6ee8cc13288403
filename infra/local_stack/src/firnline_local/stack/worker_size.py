"""Chooses the size of the embedded stack's worker: what the planner requests on its topic, within
the limits of the machine. The events of the stack say what it came to.

One worker takes both lanes here, so the heavy lane's wish is the worker's size."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from firnline_adapters import clock
from firnline_adapters.kafka.worker_directives import KafkaDirectives
from firnline_adapters.records.signing import RecordSigner
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.fleet.worker_memory import Steps, with_steps
from firnline_domain.settings.groups import group_name

from firnline_local.stack.state import Event
from firnline_local.stack.supervised_part import Announce

WORKER = "worker"
GROUP_VARIABLE = "FIRNLINE_RESOURCE_GROUP"  # the worker's own; unset: the default group
LOOK_S = 1.0
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


class WorkerSize:
    """The size that the planner requests. Without an answer the worker keeps the size that it
    has."""

    def __init__(self, given: Mapping[str, str], announce: Announce) -> None:
        """Build the size of a worker. `given`: settings of the worker that override our
        environment."""
        self._given = {**os.environ, **given}
        self._announce = announce
        self._directives: KafkaDirectives | None = None
        self._base: Size | None = None
        self._size: Size | None = None
        self._looked = 0.0

    def follow_topic(self, bootstrap: str, signer: RecordSigner) -> None:
        """Follow the topic, and apply the size that is in force. The topic must exist."""
        try:
            if not max_bytes():
                return
            self._base = self._size = choose_size(self._given, Steps(), max_bytes())
            group = group_name(GROUP_VARIABLE, self._given.get(GROUP_VARIABLE, ""))
            self._directives = KafkaDirectives(bootstrap, group, signer)
            self._resize(self._directives)
        except (RetryLater, Misconfigured, ValueError) as error:  # of a broker, or of a setting
            self.close()
            self._announce(Event(WORKER, "size-kept", str(error)))

    def has_changed(self) -> bool:
        """Return whether the worker is to have another size than at the last call."""
        if self._directives is None or time.monotonic() - self._looked < LOOK_S:
            return False
        self._looked = time.monotonic()
        return self._resize(self._directives)

    def _resize(self, directives: KafkaDirectives) -> bool:
        wished = directives.requested_steps(clock.now_ms())
        after = choose_size(self._given, wished, max_bytes())
        if after == self._size:
            return False
        before, self._size = self.settings, after
        self._announce(Event(WORKER, "sized", str(after)))
        return self.settings != before  # it may wish for more and get no more

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the settings that override the worker's own."""
        if self._size is None or self._base is None:
            return {}
        return self._size.settings if self._size.settings != self._base.settings else {}

    def close(self) -> None:
        """Stop following the topic."""
        if self._directives is not None:
            self._directives.close()
            self._directives = None
