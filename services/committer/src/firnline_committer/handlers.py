"""Results in, events out; results of one table and ref that are ready together share a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from firnline_domain.conflicts import inputs
from firnline_domain.errors import PoisonousRecord, RetryLater, TaskRefused
from firnline_domain.identity import TableName, normal_path
from firnline_domain.results import (
    Mode,
    RewriteFinished,
    RowsCompared,
    SnapshotsExpired,
    TaskFailed,
)
from firnline_iceberg.tables import LoadedTable

from firnline_committer import reports


class Swaps(Protocol):
    """`swapping.Swapper`."""

    def swap(self, results: Sequence[RewriteFinished]) -> Sequence[Any]:
        """One event per result. Raises RetryLater."""


class Loads(Protocol):
    """`firnline_iceberg.tables.Tables`."""

    def load(self, table: TableName) -> LoadedTable:
        """Raises TableGone, RetryLater."""


class Handlers:
    """What the committer makes of records of `task-results`."""

    def __init__(self, swapper: Swaps, tables: Loads, now_ms: Callable[[], int]) -> None:
        self._swapper = swapper
        self._tables = tables
        self._now_ms = now_ms

    def handle(self, records: Sequence[Any]) -> list[Any]:
        """Events for all records of one table and ref. Raises RetryLater, PoisonousRecord."""
        rewrites = [one for one in records if isinstance(one, RewriteFinished) and _has_work(one)]
        others = [one for one in records if one not in rewrites]
        events = [self._without_commit(one) for one in others]
        for batch in batches(rewrites):
            events.extend(self._swapper.swap(batch))
        return events

    def _without_commit(self, record: Any) -> Any:
        if isinstance(record, TaskFailed | SnapshotsExpired | RowsCompared):
            return record
        if not isinstance(record, RewriteFinished):
            raise PoisonousRecord("unexpected_record", type(record).__name__)
        if record.committed_snapshot_id is None:
            return reports.skipped(record, self._now_ms())
        return reports.handed_over(record, self._table(record), self._now_ms())

    def _table(self, record: RewriteFinished) -> LoadedTable | None:
        """For the numbers alone: the event is true without them."""
        try:
            return self._tables.load(record.table)
        except (TaskRefused, RetryLater):
            return None


def _has_work(result: RewriteFinished) -> bool:
    return result.mode is Mode.NATIVE and bool(result.groups)


def batches(results: Sequence[RewriteFinished]) -> Iterator[list[RewriteFinished]]:
    """In order, each without a task or an input twice: a redelivery, or an overlapping result,
    is looked at after the one before it has been committed."""
    left = list(results)
    while left:
        taken: list[RewriteFinished] = []
        later: list[RewriteFinished] = []
        used: set[str] = set()
        for result in left:
            claims = {result.task_id} | {normal_path(file.path) for file in inputs(result)}
            (later if claims & used else taken).append(result)
            used |= claims
        yield taken
        left = later
