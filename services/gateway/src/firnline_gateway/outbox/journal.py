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

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log

from firnline_gateway.outbox.outbox import MemoryOutbox, Outbox, Outgoing, QueuedRecord
from firnline_gateway.rest.call import Call

GROUP = 256  # steps per transaction: one fsync carries them all
DISK_FAILED = (OSError, sqlite3.OperationalError)  # by the disk, whatever the step was


@dataclass(frozen=True)
class _Step:
    """`run` gets the outbox on the disk, or None: the disk has failed, so do it in memory."""

    run: Callable[[Outbox | None], Any]
    done: Future[Any]


@dataclass(frozen=True)
class SendBatch:
    """Records to send: those on the disk first, then those that only memory has."""

    on_disk: tuple[QueuedRecord, ...]
    in_memory: tuple[QueuedRecord, ...]

    @property
    def records(self) -> list[Outgoing]:
        """Return the records in sending order."""
        return [one.record for one in (*self.on_disk, *self.in_memory)]


class OutboxJournal:
    """Every method returns at once with a future of the step's end, durable where the disk works.

    Steps happen in the order in which they were asked for. `changed` is set by each `settle_call`.
    """

    def __init__(self, disk: Outbox, log: Log, now_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._memory = MemoryOutbox()
        self._log = log
        self._now_ms = now_ms
        self._steps: SimpleQueue[_Step | None] = SimpleQueue()
        self._sent: set[int] = set()  # sent, but the disk would not forget them
        self.changed = threading.Event()
        self._thread = threading.Thread(target=self._run_steps, name="journal", daemon=True)
        self._thread.start()

    def open_call(self, call: Call) -> Future[None]:
        return self._queue_step(lambda disk: (disk or self._memory).open_call(call))

    def settle_call(self, call: Call, records: Sequence[Outgoing]) -> Future[None]:
        now_ms = self._now_ms()
        future = self._queue_step(
            lambda disk: self._outbox_of_call(call, disk).settle_call(call.call_id, records, now_ms)
        )
        future.add_done_callback(lambda _: self.changed.set())
        return future

    def doubt_call(self, call: Call) -> Future[None]:
        return self._queue_step(lambda disk: self._outbox_of_call(call, disk).doubt_call(call))

    def doubtful_calls(self) -> Future[list[Call]]:
        return self._queue_step(
            lambda disk: [*(disk.doubtful_calls() if disk else ()), *self._memory.doubtful_calls()]
        )

    def read_waiting(self, limit: int) -> Future[SendBatch]:
        def step(disk: Outbox | None) -> SendBatch:
            rows = disk.read_waiting(limit + len(self._sent)) if disk else ()
            unsent = tuple(row for row in rows if row.position not in self._sent)
            return SendBatch(unsent, tuple(self._memory.read_waiting(limit)))

        return self._queue_step(step)

    def remove_sent(self, batch: SendBatch) -> Future[None]:
        """Remove the sent records. Records that the disk fails to remove are not sent again by this
        process."""

        def step(disk: Outbox | None) -> None:
            self._memory.remove_sent([one.position for one in batch.in_memory])
            self._sent.update(one.position for one in batch.on_disk)
            if disk:
                disk.remove_sent(sorted(self._sent))
                self._sent.clear()

        return self._queue_step(step)

    def depth(self) -> Future[tuple[int, int | None]]:
        """Return the number of waiting records, and since when (ms) the oldest waits, on disk and
        in memory together."""

        def step(disk: Outbox | None) -> tuple[int, int | None]:
            rows, since = self._memory.depth()
            if not disk:
                return rows, since
            more, also = disk.depth()
            known = [moment for moment in (since, also) if moment is not None]
            return rows + more - len(self._sent), min(known, default=None)

        return self._queue_step(step)

    def stop(self, timeout_s: float) -> None:
        """End the thread after the steps that were queued so far."""
        self._steps.put(None)
        self._thread.join(timeout_s)

    def _outbox_of_call(self, call: Call, disk: Outbox | None) -> Outbox:
        """Return the outbox that holds the call: the disk if the call was opened there and the disk
        can be written."""
        return self._memory if disk is None or self._memory.holds(call.call_id) else disk

    def _queue_step(self, run: Callable[[Outbox | None], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()  # a caller that stops waiting must not undo the step
        self._steps.put(_Step(run, done))
        return done

    def _run_steps(self) -> None:
        while (first := self._steps.get()) is not None:
            group = [first]
            ended = self._gather_steps(group)
            self._run_group(group)
            if ended:
                return

    def _gather_steps(self, group: list[_Step]) -> bool:
        """Append queued steps to `group`, without waiting, until it has GROUP of them. Return True
        if the journal's end was behind them."""
        while len(group) < GROUP:
            try:
                step = self._steps.get_nowait()
            except Empty:
                return False
            if step is None:
                return True
            group.append(step)
        return False

    def _run_group(self, group: list[_Step]) -> None:
        try:
            with self._disk.transaction():
                results = [step.run(self._disk) for step in group]
        except Exception as error:  # whatever it is, this thread must live and events must go on
            if len(group) > 1 and not isinstance(error, DISK_FAILED):
                for step in group:  # one of them cannot be written; the others can
                    self._run_group([step])
                return
            self._log.error("outbox_disk_failed", steps=len(group), why=error)
            metrics.count("gateway_outbox_failures")
            results = [step.run(None) for step in group]
        for step, result in zip(group, results, strict=True):
            step.done.set_result(result)
