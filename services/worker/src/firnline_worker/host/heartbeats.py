"""Publishes that a rewrite is running, for rewrites that take longer than a minute
(`deadlines`), or whose worker has nearly exhausted its memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from firnline_domain.policy.fleet.worker_memory import MemoryKind
from firnline_domain.policy.partition.deadlines import HEARTBEAT_MS
from firnline_domain.ports import Publisher
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import TaskRunning

EVENTS = "maintenance-events"  # at once, not by way of the committer, which may be busy or away


@dataclass
class _Beating:
    started_ms: int
    told_ms: int  # when it was said last, or begun
    memory: MemoryKind | None = None  # that was nearly exhausted meanwhile


@dataclass
class Heartbeats:
    """The heartbeats of one worker. Safe for many threads: tasks begin and end in theirs, one sends
    for all."""

    publisher: Publisher
    worker: str
    now_ms: Callable[[], int]
    nearly_exhausted: Callable[[], MemoryKind | None] = lambda: None  # memory of this worker
    _running: dict[int, tuple[RewriteFiles, _Beating]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def send_during(self, order: RewriteFiles) -> Iterator[None]:
        """Send heartbeats of an order while the block runs, at the end of which its result is on
        its topic."""
        beating = _Beating(self.now_ms(), self.now_ms())
        with self._lock:
            self._running[id(beating)] = order, beating
        finished = False
        try:
            yield
            finished = True
        finally:
            with self._lock:
                del self._running[id(beating)]
            if finished and beating.told_ms > beating.started_ms:
                self._send(order, beating, finished=True)

    def send_due(self) -> None:
        """Send the heartbeats that are due; called after every poll. The next one makes up for a
        lost one."""
        now_ms, memory = self.now_ms(), self.nearly_exhausted()
        with self._lock:
            running = list(self._running.values())
        for order, beating in running:
            is_new = beating.memory is None and memory is not None
            beating.memory = beating.memory or memory
            if is_new or now_ms - beating.told_ms >= HEARTBEAT_MS:  # before it is killed for it
                beating.told_ms = now_ms
                self._send(order, beating)

    def _send(self, order: RewriteFiles, beating: _Beating, finished: bool = False) -> None:
        said = TaskRunning(
            task_id=order.task_id,
            table=order.table,
            ref=order.ref,
            scope=order.scope,
            attempt=order.attempt,
            worker=self.worker,
            started_at_ms=beating.started_ms,
            at_ms=self.now_ms(),
            finished=finished,
            memory=beating.memory,
        )
        self.publisher.publish(EVENTS, order.table.key, said)
