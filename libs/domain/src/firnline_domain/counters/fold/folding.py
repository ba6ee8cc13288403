"""Fold FilesChanged into counters along the parent chain (docs/contribute/architecture.md, rule 1,
sequence-clock hazard, H11).

A change folds only onto its parent. A known snapshot is a duplicate. Anything else is held, and
`missing_snapshots` asks for what is missing. Nothing is ever compared by sequence number.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from firnline_domain.base.values import Value, replace
from firnline_domain.counters.fold.missing_snapshots import (
    ResyncReason,
    drop_change,
    drop_superseded,
    hold_change,
    not_ahead,
    settle_waiting,
    wait_for_resync,
)
from firnline_domain.counters.state.counters import (
    OpenChunks,
    PartitionCounters,
    TableCounters,
    Totals,
)
from firnline_domain.identity import Scope
from firnline_domain.records.events import ChangeKind, FilesChanged
from firnline_domain.records.parts.summaries import REPLACE

Partitions = Mapping[Scope, PartitionCounters]
MAX_METADATA_BYTES = 1 << 40  # a terabyte


class FoldOutcome(StrEnum):
    """Outcome of folding a change."""

    FOLDED = "folded"  # the head is its snapshot now
    PART = "part"  # one chunk is in, others are not
    NOTED = "noted"  # only facts of the table, no files
    DUPLICATE = "duplicate"
    STALE = "stale"  # newer facts are in already
    HELD = "held"
    REMOVED = "removed"


class FoldedCounters(Value):
    """The counters after a change, with the partitions that it changed."""

    table: TableCounters
    verdict: FoldOutcome
    partitions: tuple[PartitionCounters, ...] = ()


def fold_change(
    table: TableCounters, partitions: Partitions, change: FilesChanged, now_ms: int
) -> FoldedCounters:
    """Fold one change (or one chunk). `partitions` has the entries of its scopes that exist."""
    if change.event_id in table.recent_events:
        return FoldedCounters(drop_change(table, change), FoldOutcome.DUPLICATE)
    match change.kind:
        case ChangeKind.REMOVED:
            return _fold_removal(table, not_ahead(change, now_ms))
        case ChangeKind.ABSOLUTE:
            return _fold_absolute(table, partitions, change, now_ms)
        case ChangeKind.REF_MOVED:
            return _ref_moved(table, partitions, change, now_ms)
        case ChangeKind.DELTA:
            return _fold_delta(table, partitions, change, now_ms)


def _fold_removal(table: TableCounters, change: FilesChanged) -> FoldedCounters:
    if 0 < change.observed_at_ms < table.observed_ms:
        return FoldedCounters(table, FoldOutcome.STALE)
    # What is left knows its snapshots, so that a late duplicate does not raise the dead.
    gone = TableCounters(
        table.table,
        table.ref,
        removed=True,
        epoch=table.epoch,
        observed_ms=max(table.observed_ms, change.observed_at_ms),
        recent=table.recent,
    )
    return FoldedCounters(gone.with_event(change), FoldOutcome.REMOVED)


def _fold_delta(
    table: TableCounters, partitions: Partitions, change: FilesChanged, now: int
) -> FoldedCounters:
    if change.snapshot_id is None or change.snapshot_id == table.head_snapshot_id:
        return _fold_no_files(table, not_ahead(change, now))
    if table.has_snapshot(change.snapshot_id):
        return FoldedCounters(drop_change(table, change), FoldOutcome.DUPLICATE)
    if not table.known:
        if change.parent_snapshot_id is not None or table.waiting:
            return FoldedCounters(
                hold_change(table, change, ResyncReason.FIRST_SEEN, now), FoldOutcome.HELD
            )
        return _onto_head(_new_table(table), partitions, change, now)
    if change.parent_snapshot_id != table.head_snapshot_id:
        parentless = change.parent_snapshot_id is None
        reason = ResyncReason.REPLACED if parentless else ResyncReason.MISSING_PARENT
        return FoldedCounters(hold_change(table, change, reason, now), FoldOutcome.HELD)
    return _onto_head(table, partitions, change, now)


def _ref_moved(
    table: TableCounters, partitions: Partitions, change: FilesChanged, now: int
) -> FoldedCounters:
    """Fold a move of the branch if its difference to the known head came with it; else wait for a
    resync. A move without a snapshot is of an unreadable table: all of it may have changed."""
    if change.snapshot_id is not None and change.snapshot_id == table.head_snapshot_id:
        return _fold_no_files(table, not_ahead(change, now))
    if table.known and change.partitions and change.parent_snapshot_id == table.head_snapshot_id:
        return _onto_head(table, partitions, change, now)
    observed_ms = not_ahead(change, now).observed_at_ms
    seen = replace(table, observed_ms=max(table.observed_ms, observed_ms))
    reason = ResyncReason.REF_MOVED if table.known else ResyncReason.FIRST_SEEN
    waiting = wait_for_resync(seen.with_event(change), reason, now, change.snapshot_id)
    return FoldedCounters(waiting, FoldOutcome.HELD)


def _fold_no_files(table: TableCounters, change: FilesChanged) -> FoldedCounters:
    """Fold a change without files of its own: properties, a rename, an expiry."""
    let_go = drop_change(table, change)
    if change.snapshot_id is None:
        noted = with_facts(let_go, change)
        return FoldedCounters(noted.with_event(change), FoldOutcome.NOTED)
    if change.observed_at_ms <= table.observed_ms:
        return FoldedCounters(let_go, FoldOutcome.DUPLICATE)
    return FoldedCounters(with_facts(let_go, change), FoldOutcome.NOTED)


def _new_table(table: TableCounters) -> TableCounters:
    return replace(table, known=True, removed=False, epoch=table.epoch + 1, ordinal=0)


def _onto_head(
    table: TableCounters, partitions: Partitions, change: FilesChanged, now: int
) -> FoldedCounters:
    """Fold a chunk of a change whose parent is the head, and move the head with the last chunk."""
    if reason := _in_the_way(table, change):
        return FoldedCounters(hold_change(table, change, reason, now), FoldOutcome.HELD)
    opened = _open_chunks(table, change, table.epoch, table.ordinal + 1)
    if change.chunk in opened.seen:
        return FoldedCounters(drop_change(table, change), FoldOutcome.DUPLICATE)
    totals, changed = table.totals, []
    for part in change.partitions:
        before = _current_entry(partitions, part.scope, table.epoch)
        if before.ordinal >= opened.ordinal:
            # A crash kept the partition's entry, but not yet its table's: it has this change.
            totals = totals.with_change(part.scope, part.added, part.removed)
            continue
        after = before.with_change(part, opened.epoch, opened.ordinal, _seen_ms(change))
        totals = totals.with_partition(before, after)
        changed.append(after)
    if any(partition.is_negative for partition in changed):
        return FoldedCounters(
            hold_change(table, change, ResyncReason.NEGATIVE, now), FoldOutcome.HELD
        )
    counted = replace(table, totals=totals, rows_changed=_rows_changed(table, change))
    return _close_chunk(counted, opened, change, tuple(changed), now)


def _rows_changed(table: TableCounters, change: FilesChanged) -> int:
    """Return the rows changed so far and by this chunk, deletes counted for the rows that they
    mask. An upper bound: a file that is rewritten for one row counts with all of them."""
    if change.operation == REPLACE:
        return table.rows_changed
    rows = table.rows_changed
    for part in change.partitions:
        rows += part.added.data_records + part.removed.data_records
        rows += max(part.added.delete_records - part.removed.delete_records, 0)
    return rows


def _in_the_way(table: TableCounters, change: FilesChanged) -> ResyncReason | None:
    """Return why a change that fits onto the head may not be folded yet; None if it may."""
    if table.waiting and table.waiting.absolute:
        return ResyncReason.MISSING_PARENT
    if table.open is None or table.open.snapshot_id == change.snapshot_id:
        return None
    return (
        ResyncReason.MISSING_PARENT
        if table.open.kind is ChangeKind.ABSOLUTE
        else ResyncReason.CHUNK_LOST
    )


def _fold_absolute(
    table: TableCounters, partitions: Partitions, change: FilesChanged, now: int
) -> FoldedCounters:
    """Replace everything under a new epoch; the head moves when all chunks are in."""
    if _is_stale(table, not_ahead(change, now)):
        return FoldedCounters(table, FoldOutcome.STALE)
    earlier = table.open.epoch if table.open else 0
    opened = _open_chunks(table, change, max(table.epoch, earlier) + 1, 0)
    if change.chunk in opened.seen:
        return FoldedCounters(table, FoldOutcome.DUPLICATE)
    totals, changed = opened.totals, []
    for part in change.partitions:
        empty = PartitionCounters(part.scope)
        before = partitions.get(part.scope, empty)
        seen_ms = before.changed_ms if before.holds == part.added else _seen_ms(change)
        after = empty.with_change(part, opened.epoch, opened.ordinal, seen_ms)
        totals = totals.with_partition(empty, after)
        changed.append(after)
    return _close_chunk(table, replace(opened, totals=totals), change, tuple(changed), now)


def _is_stale(table: TableCounters, change: FilesChanged) -> bool:
    """Return True if absolute counters are older than what is folded.

    Late answers are detected by the time at which the table was read. At a known snapshot that is
    not the head they only count while something is missing (then a rollback may have been lost)."""
    observed = change.observed_at_ms
    if _continues_chunks(table.open, change):
        return False
    if 0 < observed <= table.absolute_observed_ms:
        return True
    late = table.known and not table.waiting and change.snapshot_id != table.head_snapshot_id
    return (late and table.has_snapshot(change.snapshot_id)) or 0 < observed < table.observed_ms


def _continues_chunks(opened: OpenChunks | None, change: FilesChanged) -> bool:
    """Return True if a chunk continues the opened ones: a snapshot never changes, so its chunks may
    come from different readings of it."""
    return opened is not None and (opened.kind, opened.snapshot_id, opened.chunks) == (
        change.kind,
        change.snapshot_id,
        change.chunks,
    )


def _open_chunks(
    table: TableCounters, change: FilesChanged, epoch: int, ordinal: int
) -> OpenChunks:
    if table.open and _continues_chunks(table.open, change):
        return table.open
    return OpenChunks(change.snapshot_id, change.kind, epoch, ordinal, change.chunks)


def _close_chunk(
    table: TableCounters,
    opened: OpenChunks,
    change: FilesChanged,
    changed: tuple[PartitionCounters, ...],
    now: int,
) -> FoldedCounters:
    """Count the chunk in; with the last one the head moves."""
    change = not_ahead(change, now)
    seen, let_go = {*opened.seen, change.chunk}, drop_change(table, change)
    if len(seen) < opened.chunks:
        part = replace(let_go, open=replace(opened, seen=tuple(sorted(seen))))
        return FoldedCounters(settle_waiting(part, now), FoldOutcome.PART, changed)
    absolute = change.kind is ChangeKind.ABSOLUTE
    moved = replace_head(let_go, opened, change) if absolute else advance_head(let_go, change)
    return FoldedCounters(settle_waiting(moved, now), FoldOutcome.FOLDED, changed)


def _current_entry(partitions: Partitions, scope: Scope, epoch: int) -> PartitionCounters:
    """Return the entry if it is of this epoch; an older one is void."""
    counters = partitions.get(scope)
    return counters if counters and counters.epoch == epoch else PartitionCounters(scope)


def _seen_ms(change: FilesChanged) -> int:
    return change.observed_at_ms or change.timestamp_ms


def advance_head(table: TableCounters, change: FilesChanged) -> TableCounters:
    snapshots, oldest = table.snapshot_count, table.oldest_snapshot_ms
    if change.kind is ChangeKind.DELTA:
        first = change.parent_snapshot_id is None
        snapshots = 1 if first else snapshots + 1 if snapshots is not None else None
        oldest = change.timestamp_ms if first else oldest
    return _with_head(
        table,
        change,
        ordinal=table.ordinal + 1,
        snapshot_count=snapshots,
        oldest_snapshot_ms=oldest,
    )


def replace_head(table: TableCounters, opened: OpenChunks, change: FilesChanged) -> TableCounters:
    moved = _with_head(
        table,
        change,
        known=True,
        removed=False,
        epoch=opened.epoch,
        ordinal=0,
        totals=opened.totals,
        rows_changed=table.rows_changed + _row_difference(table.totals, opened.totals),
        snapshot_count=change.snapshot_count,
        oldest_snapshot_ms=change.oldest_snapshot_ms,
        absolute_observed_ms=change.observed_at_ms,
        waiting=None,
    )
    return drop_superseded(moved, change.observed_at_ms)


def _row_difference(before: Totals, after: Totals) -> int:
    """Return rows that have come or gone by unknown commits."""
    return abs(after.holds.data_records - before.holds.data_records)


def _with_head(table: TableCounters, change: FilesChanged, **changes: Any) -> TableCounters:
    """Return the table with its head moved to the change's snapshot, without open chunks, and with
    these changes."""
    return with_facts(
        table,
        change,
        head_snapshot_id=change.snapshot_id,
        sequence_number=change.sequence_number,
        open=None,
        recent=table.recent_with(change),
        **changes,
    )


def with_facts(table: TableCounters, change: FilesChanged, **changes: Any) -> TableCounters:
    """Return the table with the change's name, settings and format, and with these changes; a
    change without a format has not read the table. One copy of the counters: every commit makes
    it."""
    was_read = change.format_version > 0
    return replace(
        table,
        **changes,
        table=change.table,
        settings=dict(change.settings) if was_read else table.settings,
        facts=dict(change.facts) if was_read else table.facts,
        format_version=change.format_version or table.format_version,
        observed_ms=max(table.observed_ms, change.observed_at_ms),
        has_external_files=table.has_external_files
        or change.external_files > 0,  # older snapshots may have it for long
        odd_files=_odd_files(table, change),
        manifests=table.manifests if change.manifests is None else change.manifests,
        manifest_bytes=(
            table.manifest_bytes if change.manifest_bytes is None else change.manifest_bytes
        ),
        metadata_bytes=_metadata_bytes(table, change),
    )


def _odd_files(table: TableCounters, change: FilesChanged) -> int:
    """Count odd files of the head that the change leads to."""
    before = 0 if change.kind is ChangeKind.ABSOLUTE else table.odd_files
    return max(before + change.odd_files, 0)


def _metadata_bytes(table: TableCounters, change: FilesChanged) -> int | None:
    """Return the size of the metadata; None if it is impossible, because the number comes from a
    header."""
    told = change.metadata_bytes
    if told is None or not 0 < told <= MAX_METADATA_BYTES:
        return table.metadata_bytes
    return told
