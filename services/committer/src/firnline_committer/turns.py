"""One turn of a table: its results through the handlers, a broken one found and put aside."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from firnline_adapters import metrics
from firnline_adapters.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Delivery
from firnline_iceberg.jvm import JvmEnded

from firnline_committer.handlers import Handlers


@dataclass
class Served:
    """What came of it. What is neither `done` nor `broken` waits for the next turn."""

    events: list[Any] = field(default_factory=list)
    done: list[Delivery] = field(default_factory=list)
    broken: list[tuple[Delivery, Exception]] = field(default_factory=list)
    pause_s: float = 0.0
    away: RetryLater | None = None


def serve(handlers: Handlers, batch: list[Delivery], log: Log) -> Served:
    """In any thread. Raises JvmEnded."""
    started, served = time.monotonic(), Served()
    _serve(handlers, batch, log, served)
    metrics.observe("commit_seconds", time.monotonic() - started)
    return served


def _serve(handlers: Handlers, batch: list[Delivery], log: Log, served: Served) -> None:
    try:
        turn = handlers.turn([delivery.record for delivery in batch])
    except JvmEnded:
        raise
    except Exception as error:  # one broken result must not stop the others
        log.error("unusable", error, table=table_of(batch[0].record))
        _one_by_one(handlers, batch, log, served, error)
        return
    waiting = {id(record) for record in turn.open}
    served.events += turn.events
    served.done += [delivery for delivery in batch if id(delivery.record) not in waiting]
    served.pause_s, served.away = max(served.pause_s, turn.pause_s), turn.away


def _one_by_one(
    handlers: Handlers, batch: list[Delivery], log: Log, served: Served, error: Exception
) -> None:
    if len(batch) == 1:
        served.broken.append((batch[0], error))
        return
    for delivery in batch:
        if served.away is None:
            _serve(handlers, [delivery], log, served)


def table_of(record: Any) -> str:
    """For a line of the log."""
    return str(getattr(getattr(record, "table", None), "dotted", type(record).__name__))
