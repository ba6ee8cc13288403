"""Count what writers do to a table, and how our own results fare beside them, hour by hour.

Two hours are kept: the one that runs, and the one before it. Enough to advise by, and some dozen
bytes of state."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import Value, replace
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    RewriteCommitted,
    RewriteConflicted,
)
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.summaries import REPLACE

SLOW_TIMES = 4  # what was foretold; `deadlines.TIMES_EXPECTED`: one that takes longer may be lost
SLOW_LEAST_MS = 60_000  # nobody minds a shorter one
OVERWRITE = "overwrite"  # Iceberg's operation of copy-on-write
# A writer had changed what a result replaces, or was faster at every try.
WITH_WRITERS = frozenset(
    {
        ConflictReason.INPUTS_GONE,
        ConflictReason.NEW_POSITION_DELETES,
        ConflictReason.NEW_DELETION_VECTORS,
        ConflictReason.PIN_LOST,
    }
)


class Hour(Value):
    """Counts from `start_ms` on; commits are writers', results are ours."""

    start_ms: int = 0
    commits: int = 0
    added_bytes: int = 0  # of data files
    overwrites: int = 0  # commits that replaced data files by others
    replaced_records: int = 0
    returned_records: int = 0  # in the files that came in their place
    results: int = 0  # committed, or refused because of writers
    conflicts: int = 0  # of these, refused, or committed without some of their groups
    timed: int = 0  # of the results, those whose worker said how long it took
    slow: int = 0  # of these, such as took much longer than was foretold
    slow_ms: int = 0  # that they took
    slow_expected_ms: int = 0  # and were foretold

    @property
    def end_ms(self) -> int:
        return self.start_ms + HOUR_MS


class WriterActivity(Value):
    """The hour that runs (from the first event after the one before) and the one before it."""

    current: Hour = Hour()
    last: Hour = Hour()

    def with_hour(self, at_ms: int) -> WriterActivity:
        """Add the hour that `at_ms` is in."""
        if self.current.start_ms <= at_ms < self.current.end_ms:
            return self
        return WriterActivity(Hour(at_ms), self.current)

    def recent_hours(self, now_ms: int) -> Iterator[Hour]:
        """Yield the current and the last hour, each until an hour after its end."""
        for hour in (self.current, self.last):
            if hour.start_ms and hour.start_ms <= now_ms < hour.end_ms + HOUR_MS:
                yield hour

    def stale_ms(self, now_ms: int) -> int | None:
        """Return when the next recent hour no longer counts, in ms since 1970; None if there is
        none."""
        return min((hour.end_ms + HOUR_MS for hour in self.recent_hours(now_ms)), default=None)


def after_commit(activity: WriterActivity, change: FilesChanged, now_ms: int) -> WriterActivity:
    """Count a writer's commit, or a chunk of one; other changes count for nothing."""
    ours_or_another = change.task_id or change.operation == REPLACE
    if change.kind is not ChangeKind.DELTA or change.snapshot_id is None or ours_or_another:
        return activity
    # By the clock of its arrival, not the writer's: commits read late come in a burst once.
    known = activity.with_hour(now_ms)
    hour, whole = known.current, change.chunk == change.chunks - 1
    added = sum(part.added.all_data.bytes for part in change.partitions)
    hour = replace(hour, commits=hour.commits + whole, added_bytes=hour.added_bytes + added)
    return replace(known, current=_with_overwrite(hour, change, whole))


def _with_overwrite(hour: Hour, change: FilesChanged, whole: bool) -> Hour:
    if change.operation != OVERWRITE:
        return hour
    parts = [part for part in change.partitions if part.removed.data_files]
    if not parts:
        return hour
    return replace(
        hour,
        overwrites=hour.overwrites + whole,
        replaced_records=hour.replaced_records
        + sum(part.removed.all_data.records for part in parts),
        returned_records=hour.returned_records + sum(part.added.all_data.records for part in parts),
    )


def after_result(
    activity: WriterActivity,
    event: RewriteCommitted | RewriteConflicted,
    now_ms: int,
    expected_ms: int | None = None,
) -> WriterActivity:
    """Count a result of ours that was committed, or that writers made impossible to commit.
    `expected_ms`: the estimate for the work that was done; None = nothing."""
    if isinstance(event, RewriteConflicted):
        if event.reason not in WITH_WRITERS:
            return activity
        lost = True
    else:
        lost = event.groups_lost > 0
    known = activity.with_hour(now_ms)
    hour = known.current
    after = replace(hour, results=hour.results + 1, conflicts=hour.conflicts + lost)
    worked_ms = event.worked_ms if isinstance(event, RewriteCommitted) else None
    if worked_ms is not None and expected_ms is not None:
        after = _with_duration(after, worked_ms, expected_ms)
    return replace(known, current=after)


def _with_duration(hour: Hour, worked_ms: int, expected_ms: int) -> Hour:
    timed = replace(hour, timed=hour.timed + 1)
    if worked_ms < SLOW_LEAST_MS or worked_ms < SLOW_TIMES * expected_ms:
        return timed
    return replace(
        timed,
        slow=hour.slow + 1,
        slow_ms=hour.slow_ms + worked_ms,
        slow_expected_ms=hour.slow_expected_ms + expected_ms,
    )
