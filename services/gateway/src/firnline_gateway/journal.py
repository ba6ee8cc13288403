"""The outbox's one writer thread: many calls share a transaction, and no caller waits by force.

When the disk fails, the same steps go to an outbox in memory: a writer's commit never pays for
our disk. What was in memory is lost with the process, and is said so in log and metric.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from firnline_adapters import metrics
from firnline_adapters.logs import Log

from firnline_gateway.calls import Call
from firnline_gateway.outbox import MemoryOutbox, Outbox, Waiting

GROUP = 256  # steps per transaction: one fsync carries them all
DISK_FAILED = (OSError, sqlite3.OperationalError)  # by the disk, whatever the step was


@dataclass(frozen=True)
class _Step:
    """One thing to do: on the disk, or in memory where the disk fails."""

    on_disk: Callable[[], Any]
    in_memory: Callable[[], Any]
    done: Future[Any]


@dataclass(frozen=True)
class Batch:
    """Events to send: those on the disk first, then those that only memory has."""

    on_disk: tuple[Waiting, ...]
    in_memory: tuple[Waiting, ...]

    @property
    def payloads(self) -> list[bytes]:
        """Wire forms in order of sending."""
        return [event.payload for event in (*self.on_disk, *self.in_memory)]


class Journal:
    """Every method returns at once with a future of the step's end, durable where the disk works.

    Steps happen in the order in which they were asked for. `changed` is set by each `settle`.
    """

    def __init__(self, disk: Outbox, log: Log, now_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._memory = MemoryOutbox()
        self._log = log
        self._now_ms = now_ms
        self._steps: SimpleQueue[_Step | None] = SimpleQueue()
        self._sent: set[int] = set()  # sent, but the disk would not forget them
        self.changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def open(self, call: Call) -> Future[None]:
        """See `Outbox.open`."""
        return self._ask(lambda: self._disk.open(call), lambda: self._memory.open(call))

    def settle(self, call: Call, payloads: Sequence[bytes]) -> Future[None]:
        """See `Outbox.settle`."""
        now_ms = self._now_ms()

        def on_disk() -> None:
            self._home(call).settle(call.call_id, payloads, now_ms)

        def in_memory() -> None:
            self._memory.settle(call.call_id, payloads, now_ms)

        future = self._ask(on_disk, in_memory)
        future.add_done_callback(lambda _: self.changed.set())
        return future

    def doubt(self, call: Call) -> Future[None]:
        """See `Outbox.doubt`."""
        return self._ask(lambda: self._home(call).doubt(call), lambda: self._memory.doubt(call))

    def doubts(self) -> Future[list[Call]]:
        """See `Outbox.doubts`."""
        return self._ask(
            lambda: [*self._disk.doubts(), *self._memory.doubts()], self._memory.doubts
        )

    def waiting(self, limit: int) -> Future[Batch]:
        """See `Outbox.waiting`."""

        def on_disk() -> Batch:
            rows = self._disk.waiting(limit + len(self._sent))
            fresh = tuple(row for row in rows if row.position not in self._sent)
            return Batch(fresh, tuple(self._memory.waiting(limit)))

        return self._ask(on_disk, lambda: Batch((), tuple(self._memory.waiting(limit))))

    def sent(self, batch: Batch) -> Future[None]:
        """See `Outbox.sent`. What the disk will not forget is not sent again by this process."""
        positions = {event.position for event in batch.on_disk}

        def on_disk() -> None:
            self._memory.sent([event.position for event in batch.in_memory])
            self._disk.sent(sorted(positions | self._sent))
            self._sent.clear()

        def in_memory() -> None:
            self._memory.sent([event.position for event in batch.in_memory])
            self._sent.update(positions)

        return self._ask(on_disk, in_memory)

    def depth(self) -> Future[tuple[int, int | None]]:
        """See `Outbox.depth`, of disk and memory together."""

        def on_disk() -> tuple[int, int | None]:
            (rows, since), (more, also) = self._disk.depth(), self._memory.depth()
            known = [moment for moment in (since, also) if moment is not None]
            return rows + more - len(self._sent), min(known, default=None)

        return self._ask(on_disk, self._memory.depth)

    def stop(self, timeout_s: float) -> None:
        """End the thread after the steps asked for so far."""
        self._steps.put(None)
        self._thread.join(timeout_s)

    def _home(self, call: Call) -> Outbox:
        """Where the call was opened."""
        return self._memory if self._memory.holds(call.call_id) else self._disk

    def _ask(self, on_disk: Callable[[], Any], in_memory: Callable[[], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()  # a caller that stops waiting must not undo the step
        self._steps.put(_Step(on_disk, in_memory, done))
        return done

    def _run(self) -> None:
        while (first := self._steps.get()) is not None:
            group = [first]
            ended = self._gather(group)
            self._do(group)
            if ended:
                return

    def _gather(self, group: list[_Step]) -> bool:
        """Take what waits, without waiting; True if the end was among it."""
        while len(group) < GROUP:
            try:
                step = self._steps.get_nowait()
            except Empty:
                return False
            if step is None:
                return True
            group.append(step)
        return False

    def _do(self, group: list[_Step]) -> None:
        try:
            with self._disk.transaction():
                results = [step.on_disk() for step in group]
        except Exception as error:  # whatever it is, this thread must live and events must go on
            if len(group) > 1 and not isinstance(error, DISK_FAILED):
                for step in group:  # one of them cannot be written; the others can
                    self._do([step])
                return
            self._log.error("outbox_disk_failed", steps=len(group), why=error)
            metrics.count("gateway_outbox_failures")
            results = [step.in_memory() for step in group]
        for step, result in zip(group, results, strict=True):
            step.done.set_result(result)
