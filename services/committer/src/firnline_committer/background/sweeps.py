"""Decides when a table is swept: after a sign of trouble, and when its leftovers are old enough.

A task that failed or came a second time, whose result was refused, or that lost executors, may have
left outputs; an expiry comes to every table now and then. The committer sweeps, for it also
commits: in one process the two never overlap in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.events import OutputsSwept, RewriteCommitted, RewriteConflicted
from firnline_domain.records.results import RewriteFinished, TableResult, TaskFailed
from firnline_iceberg.removal.removal import SweepReason
from firnline_iceberg.removal.sweep import Swept

AGAIN_MS = 3_600_000  # between two sweeps of a table
NEEDS_A_PERSON = frozenset(SweepReason) - {SweepReason.YOUNG, SweepReason.IN_FLIGHT}


class SweeperPort(Protocol):
    """The part of `firnline_iceberg.removal.sweep.OutputSweeper` that sweeps use."""

    def sweep(self, name: TableName, dry_run: bool = False) -> Swept:
        """Sweep a table. Raises TaskRefused, RetryLater."""


@dataclass
class _Watched:
    table: TableName
    due_ms: int | None
    swept_ms: int | None = None


@dataclass(frozen=True)
class Ended:
    """A sweep that has ended: `swept`, or when to try again; None: never."""

    table: TableName
    swept: Swept | None
    again_ms: int | None


class Sweeps:
    """The tables to sweep, and their sweeps. `sweep` may run in any thread, while no commit to its
    table is under way; the rest is one thread's."""

    def __init__(self, sweeper: SweeperPort, log: Log, now_ms: Callable[[], int]) -> None:
        self._sweeper = sweeper
        self._log = log
        self._now_ms = now_ms
        self._watched: dict[str, _Watched] = {}

    def schedule_after(self, records: Iterable[Any]) -> None:
        """Schedule sweeps for those of these handled results and events that are signs of
        trouble."""
        for record in records:
            if is_trouble(record):
                self._schedule(record.table, self._now_ms())

    def take_due_table(self, busy: Callable[[str], bool] = lambda _: False) -> TableName | None:
        """Return a table to sweep now, if one is due. `busy`: whether a commit to a table, by its
        key, is under way."""
        now_ms = self._now_ms()
        for key, one in list(self._watched.items()):
            if one.due_ms is not None and one.due_ms <= now_ms and not busy(key):
                one.due_ms, one.swept_ms = None, now_ms
                return one.table
            if one.due_ms is None and (one.swept_ms or 0) + AGAIN_MS <= now_ms:
                del self._watched[key]
        return None

    def sweep(self, table: TableName) -> Ended:
        """Sweep a table. Never raises for a table."""
        try:
            swept = self._sweeper.sweep(table)
        except RetryLater as error:
            metrics.count("dependency_errors", dependency=error.dependency)
            self._log.warning("not_swept", table=table, why=error)
            return Ended(table, None, self._now_ms())
        except TaskRefused as error:  # gone, or not readable by us
            self._log.info("not_swept", table=table, why=error)
        except Exception as error:  # a bug must not stop the commits
            self._log.error("not_swept", error, table=table)
        else:
            return Ended(table, swept, swept.due_ms)
        return Ended(table, None, None)

    def close_sweep(self, sweep: Ended) -> OutputsSwept | None:
        """Schedule the next sweep of its table, and return the event of this one, if any."""
        if sweep.again_ms is not None:
            self._schedule(sweep.table, sweep.again_ms)
        return None if sweep.swept is None else self._report(sweep.swept)

    def _schedule(self, table: TableName, at_ms: int) -> None:
        one = self._watched.setdefault(table.key, _Watched(table, None))
        earliest = at_ms if one.swept_ms is None else max(at_ms, one.swept_ms + AGAIN_MS)
        one.table = table
        one.due_ms = earliest if one.due_ms is None else min(one.due_ms, earliest)

    def _report(self, swept: Swept) -> OutputsSwept | None:
        """Count and log every removal. Return the event, if there is one to publish."""
        table = swept.table
        for path in swept.removed:
            self._log.info("output_swept", table=table, path=path)
        for path in swept.uploads:
            self._log.info("upload_given_up", table=table, path=path)
        if swept.uploads_unknown:
            self._log.warning("uploads_not_known", table=table, why=swept.uploads_unknown)
        for left in swept.left:
            if left.reason in NEEDS_A_PERSON:
                self._log.warning("list_left", path=left.path, why=left.reason, detail=left.detail)
        metrics.count("outputs_deleted", len(swept.removed))
        metrics.count("uploads_given_up", len(swept.uploads))
        if not swept.lists and not NEEDS_A_PERSON & swept.skipped_by_reason.keys():
            return None
        self._log.info("swept", table=table, files=len(swept.removed), lists=len(swept.lists))
        return swept.to_event("committer", self._now_ms())


def is_trouble(record: Any) -> bool:
    """Return whether a record is a sign that outputs may be left in its table."""
    again = isinstance(record, RewriteFinished) and (
        record.attempt > 1 or (record.row_map is not None and record.output_list is None)
    )
    partly = isinstance(record, RewriteCommitted) and record.groups_lost > 0
    return again or partly or isinstance(record, TaskFailed | TableResult | RewriteConflicted)
