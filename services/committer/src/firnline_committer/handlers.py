"""Results in, events out; results of one table and ref that are ready together share a commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import following, trace_of
from firnline_domain.commits.conflicts import input_files
from firnline_domain.errors import PoisonousRecord, RetryLater, TaskRefused
from firnline_domain.identity import TableName, normal_path
from firnline_domain.ports import Delivery
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.results import (
    Mode,
    RewriteFinished,
    RowsCompared,
    TableResult,
    TaskFailed,
)
from firnline_iceberg.java.jvm import JvmEnded
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_committer.commit import events as reports
from firnline_committer.commit.attempts import AttemptProgress, until_closed

MAX_TRACES = 8  # in a line about several results
WITHOUT_COMMIT = TaskFailed | TableResult | RowsCompared


class CommitPort(Protocol):
    """The part of `committer.Committer` that handlers use."""

    def advance(self, results: Sequence[RewriteFinished]) -> AttemptProgress:
        """Make a few attempts."""

    def abandon(self, table_key: str, ref: str) -> None:
        """Clear up after results that were left open and will not be asked for again."""


class CatalogPort(Protocol):
    """The part of `firnline_iceberg.table.catalog_client.Tables` that handlers use."""

    def load(self, table: TableName) -> LoadedTable:
        """Load a table. Raises TableGone, RetryLater."""


class CommitterHandlers:
    """Handlers of records of `task-results`."""

    def __init__(
        self, committer: CommitPort, tables: CatalogPort, now_ms: Callable[[], int]
    ) -> None:
        self._committer = committer
        self._tables = tables
        self._now_ms = now_ms

    def handle(self, records: Sequence[Any]) -> list[Any]:
        """Handle records until each has its event. Raises RetryLater, PoisonousRecord."""
        return until_closed(self.advance, records)

    def advance(self, records: Sequence[Any]) -> AttemptProgress:
        """Make a few attempts with records of one table and ref. Raises PoisonousRecord."""
        rewrites = [record for record in records if _needs_commit(record)]
        events = self._without_commit([record for record in records if not _needs_commit(record)])
        waiting, pause_s, unreachable = list[Any](), 0.0, None
        for batch in split_batches(rewrites):
            if waiting:  # other tables come first
                waiting.extend(batch)
                continue
            progress = self._committer.advance(batch)
            events.extend(progress.events)
            waiting.extend(progress.open)
            pause_s, unreachable = progress.pause_s, progress.unreachable
        return AttemptProgress(events, waiting, pause_s, unreachable)

    def abandon(self, table_key: str, ref: str) -> None:
        """Clear up after records that were left open and will not be delivered again."""
        self._committer.abandon(table_key, ref)

    def _without_commit(self, records: Sequence[Any]) -> list[Any]:
        """Return the events of records that need no commit. The table is read once, only for the
        numbers: the events are true without them."""
        for one in records:
            if not isinstance(one, WITHOUT_COMMIT | RewriteFinished):
                raise PoisonousRecord("unexpected_record", type(one).__name__)
        rewrites = [record for record in records if isinstance(record, RewriteFinished)]
        others = [record for record in records if not isinstance(record, RewriteFinished)]
        handed = [rewrite for rewrite in rewrites if rewrite.committed_snapshot_id is not None]
        skipped = [rewrite for rewrite in rewrites if rewrite.committed_snapshot_id is None]
        table = self._load_or_none(handed[0]) if handed else None
        return [
            *others,
            *(reports.skipped_event(one, self._now_ms()) for one in skipped),
            *(reports.handed_over_event(one, table, self._now_ms()) for one in handed),
        ]

    def _load_or_none(self, record: RewriteFinished) -> LoadedTable | None:
        try:
            return self._tables.load(record.table)
        except (TaskRefused, RetryLater):
            return None


def _needs_commit(record: Any) -> bool:
    """Return True for a rewrite's result with files for Firnline's own commit."""
    finished = isinstance(record, RewriteFinished) and record.mode is Mode.NATIVE
    return finished and bool(record.groups)


def split_batches(results: Sequence[RewriteFinished]) -> Iterator[list[RewriteFinished]]:
    """Split results into batches, in order, each without a task or an input twice: a redelivery, or
    an overlapping result, is examined after the one before it has been committed."""
    left = list(results)
    while left:
        taken: list[RewriteFinished] = []
        later: list[RewriteFinished] = []
        used: set[str] = set()
        for result in left:
            named = {result.task_id} | {normal_path(file.path) for file in input_files(result)}
            (later if named & used else taken).append(result)
            used |= named
        yield taken
        left = later


@dataclass
class Handled:
    """The outcome of handling deliveries. Those that are neither `done` nor `broken` wait for the
    next progress."""

    events: list[Any] = field(default_factory=list)
    done: list[Delivery] = field(default_factory=list)
    broken: list[tuple[Delivery, Exception]] = field(default_factory=list)
    pause_s: float = 0.0
    unreachable: RetryLater | None = None


def handle_deliveries(handlers: CommitterHandlers, batch: list[Delivery], log: Log) -> Handled:
    """Handle deliveries, in any thread. Raises JvmEnded."""
    started, handled = time.monotonic(), Handled()
    traces = dict.fromkeys(trace_of(delivery.record) for delivery in batch)
    with following(",".join(islice(filter(None, traces), MAX_TRACES))):
        _handle_batch(handlers, batch, log, handled)
    metrics.observe("commit_seconds", time.monotonic() - started)
    _count_bytes(handled.events)
    return handled


def _count_bytes(events: Iterable[Any]) -> None:
    """Count the bytes of commits, also of those by Iceberg's own action. A commit that was found
    was counted."""
    for one in events:
        if isinstance(one, RewriteCommitted) and not one.redelivered:
            metrics.count("rewritten_bytes", one.bytes_before, files="replaced")
            metrics.count("rewritten_bytes", one.bytes_after, files="added")


def _handle_batch(
    handlers: CommitterHandlers, batch: list[Delivery], log: Log, handled: Handled
) -> None:
    try:
        progress = handlers.advance([delivery.record for delivery in batch])
    except JvmEnded:
        raise
    except Exception as error:  # one broken result must not stop the others
        log.error("unusable", error, table=table_of(batch[0].record))
        _handle_one_by_one(handlers, batch, log, handled, error)
        return
    waiting = {id(record) for record in progress.open}
    handled.events += progress.events
    handled.done += [delivery for delivery in batch if id(delivery.record) not in waiting]
    handled.pause_s, handled.unreachable = (
        max(handled.pause_s, progress.pause_s),
        progress.unreachable,
    )


def _handle_one_by_one(
    handlers: CommitterHandlers, batch: list[Delivery], log: Log, handled: Handled, error: Exception
) -> None:
    """Handle the deliveries of a batch that has failed alone, until a dependency does not answer.
    Add a single one to `handled.broken`."""
    if len(batch) == 1:
        handled.broken.append((batch[0], error))
        return
    for delivery in batch:
        if handled.unreachable is None:
            _handle_batch(handlers, [delivery], log, handled)


def table_of(record: Any) -> TableName | None:
    """Return the table that a record is about, for a line of the log."""
    return getattr(record, "table", None)
