"""The worker as `firnline run` has it: an order in, a result by way of a topic in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from firnline_adapters.in_memory import MemoryLeases
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import TaskRefused
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import RewriteFinished, TaskFailed
from firnline_standalone.engine import RunTopics
from firnline_worker.handlers import RESULTS, WorkerHandlers
from firnline_worker.host.heartbeats import Heartbeats
from firnline_worker.host.leases import TaskLeases
from firnline_worker.rewrite.rewriter import Rewriter


def now_ms() -> int:
    return int(time.time() * 1000)


class TaskEnded(Exception):
    """The task failed, for no reason of Firnline's."""


@dataclass(frozen=True)
class RunWorker:
    """Stands where a `Rewriter` stands."""

    rewriter: Rewriter

    def rewrite(self, order: RewriteFiles, _note: Any) -> RewriteFinished:
        """Raises TaskRefused, TaskEnded."""
        topics, log, nothing = RunTopics.create(), Log("test"), Any
        publisher = topics.publisher
        handlers = WorkerHandlers(
            self.rewriter,
            {},
            nothing,  # type: ignore[arg-type]
            TaskLeases(MemoryLeases(), "run", 60.0, log),
            publisher,
            "run",
            now_ms,
            log,
            lambda: False,
            Heartbeats(publisher, "run", now_ms),
        )
        handlers.handle(order)
        (delivery,) = topics.open_inbox("test", RESULTS).poll(0)
        found = delivery.record
        if isinstance(found, TaskFailed):
            if found.reason in ("worker_error", "java_failed"):
                raise TaskEnded(found.message)
            raise TaskRefused(found.reason, found.message, found.retryable)
        assert isinstance(found, RewriteFinished)
        return found
