"""Results in, events out; results of one table and ref that are ready together share a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from firnline_domain.commits.conflicts import inputs
from firnline_domain.errors import PoisonousRecord, RetryLater, TaskRefused
from firnline_domain.identity import TableName, normal_path
from firnline_domain.records.results import (
    Mode,
    RewriteFinished,
    RowsCompared,
    SnapshotsExpired,
    TaskFailed,
)
from firnline_iceberg.tables import LoadedTable

from firnline_committer import reports
from firnline_committer.batch import Turn, to_the_end

TOLD_ON = TaskFailed | SnapshotsExpired | RowsCompared


class Swaps(Protocol):
    """`swapping.Swapper`."""

    def turn(self, results: Sequence[RewriteFinished]) -> Turn:
        """A few tries."""

    def let_go(self, table_uuid: str, ref: str) -> None:
        """Nobody will ask again with what was left open."""


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
        """Turn after turn, until each has its event. Raises RetryLater, PoisonousRecord."""
        return to_the_end(self.turn, records)

    def turn(self, records: Sequence[Any]) -> Turn:
        """One turn of records of one table and ref. Raises PoisonousRecord."""
        rewrites = [one for one in records if _needs_commit(one)]
        events = self._without_commit([one for one in records if not _needs_commit(one)])
        waiting, pause_s, away = list[Any](), 0.0, None
        for batch in batches(rewrites):
            if waiting:  # the table has had its turn
                waiting.extend(batch)
                continue
            turn = self._swapper.turn(batch)
            events.extend(turn.events)
            waiting.extend(turn.open)
            pause_s, away = turn.pause_s, turn.away
        return Turn(events, waiting, pause_s, away)

    def let_go(self, table_uuid: str, ref: str) -> None:
        """The records that a turn has left will not come again."""
        self._swapper.let_go(table_uuid, ref)

    def _without_commit(self, records: Sequence[Any]) -> list[Any]:
        """The table is read once, for the numbers alone: the events are true without them."""
        for one in records:
            if not isinstance(one, TOLD_ON | RewriteFinished):
                raise PoisonousRecord("unexpected_record", type(one).__name__)
        rewrites = [one for one in records if isinstance(one, RewriteFinished)]
        others = [one for one in records if not isinstance(one, RewriteFinished)]
        handed = [one for one in rewrites if one.committed_snapshot_id is not None]
        skipped = [one for one in rewrites if one.committed_snapshot_id is None]
        table = self._table(handed[0]) if handed else None
        return [
            *others,
            *(reports.skipped(one, self._now_ms()) for one in skipped),
            *(reports.handed_over(one, table, self._now_ms()) for one in handed),
        ]

    def _table(self, record: RewriteFinished) -> LoadedTable | None:
        try:
            return self._tables.load(record.table)
        except (TaskRefused, RetryLater):
            return None


def _needs_commit(record: Any) -> bool:
    finished = isinstance(record, RewriteFinished) and record.mode is Mode.NATIVE
    return finished and bool(record.groups)


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
