"""Recognizes that memory is nearly exhausted, before the JVM gives up or the kernel kills."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from firnline_adapters.observability import metrics
from firnline_domain.policy.fleet.worker_memory import MemoryKind
from py4j.protocol import Py4JError

SAMPLE_S = 5.0
SAMPLES = 7  # half a minute
GC_SHARE = 0.3  # of that time. With the serial collector no other Java thread runs meanwhile
LIMIT_SHARE = 0.95
CGROUPS = (  # limit, statistics and their line of memory that is not a file's, of v2 and v1
    ("memory.max", "memory.stat", "anon"),
    ("memory/memory.limit_in_bytes", "memory/memory.stat", "total_rss"),
)


class MemoryPressure:
    """Samples on a thread of its own: a JVM that collects garbage all the time answers late."""

    def __init__(self, collected_ms: Callable[[], int], cgroup: Path = Path("/sys/fs/cgroup")):
        """`collected_ms`: time that the JVM has spent on garbage collection."""
        self.nearly_exhausted: MemoryKind | None = None
        self._collected_ms = collected_ms
        self._cgroup = cgroup
        self._samples = deque[tuple[float, int]](maxlen=SAMPLES)

    def start(self) -> None:
        """Sample until the process ends."""
        threading.Thread(target=self._sample_repeatedly, name="memory", daemon=True).start()

    def _sample_repeatedly(self) -> None:
        while True:
            with suppress(Py4JError, OSError):  # the JVM has ended, and so does the worker
                self.sample(time.monotonic())
            time.sleep(SAMPLE_S)

    def sample(self, now_s: float) -> None:
        """Take a sample, and decide by those of half a minute."""
        self._samples.append((now_s, self._collected_ms()))
        (first_s, first_ms), (_, last_ms) = self._samples[0], self._samples[-1]
        is_full = len(self._samples) == SAMPLES
        gc_share = (last_ms - first_ms) / 1000 / (now_s - first_s) if is_full else 0.0
        limit_share = measure_limit_share(self._cgroup)
        metrics.gauge("worker_gc_share", gc_share)
        metrics.gauge("worker_limit_share", limit_share)
        if gc_share >= GC_SHARE:
            self.nearly_exhausted = MemoryKind.HEAP
        elif limit_share >= LIMIT_SHARE:
            self.nearly_exhausted = MemoryKind.OVERHEAD
        else:
            self.nearly_exhausted = None


def measure_limit_share(cgroup: Path) -> float:
    """Return the share of the container's memory limit that cannot be given back, such as files of
    the page cache; 0 without a limit."""
    for limit, statistics, name in CGROUPS:
        with suppress(OSError, ValueError):  # another version, or `max`
            lines = (cgroup / statistics).read_text().splitlines()
            held = dict(line.split(" ", 1) for line in lines)
            return int(held.get(name, 0)) / int((cgroup / limit).read_text())
    return 0.0
