"""What a process tree costs: CPU with its reaped children, and PSS, sampled from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PERIOD_S = 0.15
PAUSES = 20  # per time spent looking: a 6 GB heap takes 40 ms, and no engine is to feel it
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Between two moments; memory in bytes."""

    wall_s: float
    cpu_s: float
    pss_before: int
    pss_peak: int
    cpu_by: dict[str, float]  # driver (the root), jvm, python (all other Python processes)
    pss_by: dict[str, int]  # the same, at the peak


@dataclass(frozen=True)
class Stat:
    """Of one process; times in ticks. `started` tells a pid's next owner from this one."""

    pid: int
    name: str
    parent: int
    started: int
    own: int
    reaped: int


@dataclass
class Watch:
    """Watches a tree from `start` to `stop` in a thread of the caller's process, outside of it."""

    root: int
    _seen: dict[tuple[int, int], int] = field(default_factory=dict)
    _kinds: dict[tuple[int, int], str] = field(default_factory=dict)
    _peak: dict[str, int] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watch:
        self._cpu_before, self._by_before = self._cpu(), self._by_kind()
        self._peak = self.pss()
        self._before = sum(self._peak.values())
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = time.monotonic()
        self._cpu_after, self._by_after = self._cpu(), self._by_kind()
        self._done.set()
        self._thread.join()
        self._look()

    @property
    def usage(self) -> Usage:
        """Once the block is over."""
        cpu = (self._cpu_after - self._cpu_before) / _TICKS
        by = {
            kind: round((ticks - self._by_before.get(kind, 0)) / _TICKS, 2)
            for kind, ticks in self._by_after.items()
        }
        peak = sum(self._peak.values())
        return Usage(self._end - self._start, cpu, self._before, peak, by, self._peak)

    def _run(self) -> None:
        pause = PERIOD_S
        while not self._done.wait(pause):
            start = time.monotonic()
            self._cpu()
            self._look()
            pause = max(PERIOD_S, PAUSES * (time.monotonic() - start))

    def _cpu(self) -> int:
        """Ticks that the tree has used. A child that dies is in its parent's account, unless the
        parent ignores SIGCHLD; then it is in ours as of the last sample."""
        stats = list(tree(self.root))
        for stat in stats:
            self._seen[stat.pid, stat.started] = stat.own
            self._kinds[stat.pid, stat.started] = self._kind(stat)
        living = sum(stat.own + stat.reaped for stat in stats)
        return max(living, sum(self._seen.values()))

    def _look(self) -> None:
        self._peak = max(self._peak, self.pss(), key=lambda by: sum(by.values()))

    def pss(self) -> dict[str, int]:
        """Proportional set size by kind, in bytes: shared pages are split among who maps them."""
        sizes: dict[str, int] = {}
        for stat in tree(self.root):
            kind = self._kind(stat)
            sizes[kind] = sizes.get(kind, 0) + _pss(stat.pid)
        return sizes

    def _kind(self, stat: Stat) -> str:
        if stat.pid == self.root:
            return "driver"
        return "jvm" if stat.name == "java" else "python"

    def _by_kind(self) -> dict[str, int]:
        ticks: dict[str, int] = {}
        for who, own in self._seen.items():
            ticks[self._kinds[who]] = ticks.get(self._kinds[who], 0) + own
        return ticks


def tree(root: int) -> Iterator[Stat]:
    """The process and all that descends from it, as far as it is alive."""
    stats = {stat.pid: stat for stat in _all()}
    children: dict[int, list[int]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    todo = [root]
    while todo:
        pid = todo.pop()
        if pid in stats:
            yield stats[pid]
        todo.extend(children.get(pid, ()))


def cpu_s(root: int) -> float:
    """What the tree has used since it began."""
    return sum(stat.own + stat.reaped for stat in tree(root)) / _TICKS


def _pss(pid: int) -> int:
    try:
        return pss_of(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return 0


def pss_of(rollup: str) -> int:
    """Bytes, from a smaps_rollup; 0 where a process that ends has left an empty one."""
    line = next((one for one in rollup.splitlines() if one.startswith("Pss:")), "Pss: 0")
    return int(line.split()[1]) * 1024


def _all() -> Iterator[Stat]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(name)) is not None:
            yield stat


def _stat(pid: str) -> Stat | None:
    try:
        return stat_of(Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return None


def stat_of(text: str) -> Stat:
    """From a /proc/PID/stat; the name may hold spaces and brackets."""
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    pid, _, name = head.partition(" (")
    return Stat(int(pid), name, int(fields[1]), int(fields[19]), own, reaped)
