"""Records that are too large for their topic, made smaller so that their readers still do right.

Each step leaves out more than the one before it; the first that fits is sent. A record without
steps, or whose last step is still too large, is not sent
(`firnline_adapters.records.record_sizes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.identity import MAIN
from firnline_domain.records.events import (
    DeadLettered,
    OutputsSwept,
    RefMoved,
    RewriteCommitted,
    RewriteConflicted,
    RewriteSkipped,
    SnapshotAdded,
    TableCommitted,
    TableScanned,
)
from firnline_domain.records.parts.summaries import KNOWN, MAX_IDS, OURS, TASK_ID, task_ids_in
from firnline_domain.records.results import RowsCompared, TaskFailed, TaskRunning
from firnline_domain.records.states import TableAdvice, TableState

MAX_TEXT = 1_000  # characters of what only people read
MAX_NAME = 1_000  # of a ref other than main
MAX_REFS = 1_000
MAX_OURS = 4 * MAX_IDS  # characters of what a summary says of our own commit
MAX_LETTER_BYTES = 64 * 1024  # of a record that is itself above what dead letters take
FEW_PARTITIONS = 10  # of a table's state; 100 are shown where they fit


def smaller_forms(record: Any) -> Iterator[Any]:
    """Yield the record in ever smaller forms; nothing if it has none."""
    return _STEPS[type(record)](record) if type(record) in _STEPS else iter(())


def _shrink_committed(event: TableCommitted) -> Iterator[TableCommitted]:
    """Leave out first unread properties of summaries; then all but the current heads of the
    branches. A move without its snapshots makes the planner request them (`missing_snapshots`)."""
    snapshots = tuple(
        replace(snapshot, summary=_short_summary(snapshot)) for snapshot in event.snapshots
    )
    agent = event.user_agent and event.user_agent[:MAX_TEXT]
    event = replace(event, snapshots=snapshots, user_agent=agent)
    yield event
    refs = tuple(last_moves(event.refs)[:MAX_REFS])
    yield replace(
        event,
        snapshots=(),
        refs=refs,
        expired_snapshot_ids=(),
    )


def last_moves(refs: tuple[RefMoved, ...]) -> list[RefMoved]:
    """Return where each ref ended up, `main` first. A name that no person can have meant is left
    out: only `main` is maintained."""
    last = {moved.ref: moved for moved in refs if moved.ref == MAIN or len(moved.ref) <= MAX_NAME}
    return sorted(last.values(), key=lambda one: one.ref != MAIN)


def _short_summary(snapshot: SnapshotAdded) -> dict[str, str]:
    summary: Mapping[str, str] = snapshot.summary
    known = {name: summary[name][:MAX_TEXT] for name in KNOWN if name in summary}
    ours = {name: text for name, text in summary.items() if name.startswith(OURS)}
    if sum(map(len, ours.values())) <= MAX_OURS:  # whole, or its signature does not hold
        return known | ours
    if ids := task_ids_in(summary):
        known[TASK_ID] = ids
    return known


def _shrink_scanned(event: TableScanned) -> Iterator[TableScanned]:
    yield replace(event, filtered=(), layout=None, ranges=())


def _shrink_rewritten(event: RewriteCommitted) -> Iterator[RewriteCommitted]:
    """Leave out the proofs: they were verified before the commit; the planner needs only the fact
    of the commit."""
    yield replace(event, proofs=())


def _shrink_conflicted(event: RewriteConflicted) -> Iterator[RewriteConflicted]:
    yield replace(event, detail=event.detail[:MAX_TEXT])


def _shrink_skipped(event: RewriteSkipped) -> Iterator[RewriteSkipped]:
    yield replace(event, reason=event.reason[:MAX_TEXT])


def _shrink_swept(event: OutputsSwept) -> Iterator[OutputsSwept]:
    yield replace(event, left={"lists": sum(event.left.values())})


def _shrink_failed(event: TaskFailed) -> Iterator[TaskFailed]:
    yield replace(event, message=event.message[:MAX_TEXT], worker=event.worker[:MAX_TEXT])


def _shrink_running(event: TaskRunning) -> Iterator[TaskRunning]:
    yield replace(event, worker=event.worker[:MAX_TEXT])


def _shrink_compared(event: RowsCompared) -> Iterator[RowsCompared]:
    yield replace(event, detail=event.detail[:MAX_TEXT])


def _shrink_state(state: TableState) -> Iterator[TableState]:
    few = replace(state, partitions=state.partitions[:FEW_PARTITIONS])
    yield few
    yield replace(few, partitions=(), in_force=None)
    yield replace(few, partitions=(), in_force=None, settings={})


def _shrink_advice(advice: TableAdvice) -> Iterator[TableAdvice]:
    finding, remedy = advice.finding[:MAX_TEXT], advice.remedy[:MAX_TEXT]
    yield replace(advice, finding=finding, remedy=remedy)


def _shrink_dead_letter(letter: DeadLettered) -> Iterator[DeadLettered]:
    """Shrink a dead letter until it is small enough: it has nowhere else to go."""
    value = letter.value or b""
    size = len(value) if letter.value_bytes is None else letter.value_bytes
    yield replace(
        letter,
        topic=letter.topic[:MAX_TEXT],
        key=letter.key and letter.key[:MAX_TEXT],
        value=value[:MAX_LETTER_BYTES],
        reason=letter.reason[:MAX_TEXT],
        message=letter.message[:MAX_TEXT],
        service=letter.service[:MAX_TEXT],
        value_bytes=size,
    )


_STEPS: dict[type, Callable[[Any], Iterator[Any]]] = {
    TableCommitted: _shrink_committed,
    TableScanned: _shrink_scanned,
    RewriteCommitted: _shrink_rewritten,
    RewriteConflicted: _shrink_conflicted,
    RewriteSkipped: _shrink_skipped,
    OutputsSwept: _shrink_swept,
    TaskFailed: _shrink_failed,
    TaskRunning: _shrink_running,
    RowsCompared: _shrink_compared,
    TableState: _shrink_state,
    TableAdvice: _shrink_advice,
    DeadLettered: _shrink_dead_letter,
}
