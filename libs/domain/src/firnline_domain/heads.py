"""How the head of a ref moves, and the facts of the table that come with it."""

from __future__ import annotations

from firnline_domain.counters import OpenChunks, TableCounters
from firnline_domain.events import ChangeKind, FilesChanged
from firnline_domain.gaps import superseded
from firnline_domain.values import replace


def advanced(table: TableCounters, change: FilesChanged) -> TableCounters:
    snapshots, oldest = table.snapshot_count, table.oldest_snapshot_ms
    if change.kind is ChangeKind.DELTA:
        first = change.parent_snapshot_id is None
        snapshots = 1 if first else snapshots + 1 if snapshots is not None else None
        oldest = change.timestamp_ms if first else oldest
    ordinal = table.ordinal + 1
    grown = replace(table, ordinal=ordinal, snapshot_count=snapshots, oldest_snapshot_ms=oldest)
    return _at_head(grown, change)


def replaced(table: TableCounters, opened: OpenChunks, change: FilesChanged) -> TableCounters:
    moved = replace(
        table,
        known=True,
        removed=False,
        epoch=opened.epoch,
        ordinal=0,
        totals=opened.totals,
        snapshot_count=change.snapshot_count,
        oldest_snapshot_ms=change.oldest_snapshot_ms,
        absolute_observed_ms=change.observed_at_ms,
        waiting=None,
    )
    return superseded(_at_head(moved, change), change.observed_at_ms)


def _at_head(table: TableCounters, change: FilesChanged) -> TableCounters:
    moved = replace(
        table,
        head_snapshot_id=change.snapshot_id,
        sequence_number=change.sequence_number,
        open=None,
    )
    return with_facts(moved.remembering(change), change)


def with_facts(table: TableCounters, change: FilesChanged) -> TableCounters:
    """Name, settings and format are facts of the table; without a format it was not read."""
    was_read = change.format_version > 0
    return replace(
        table,
        table=change.table,
        settings=dict(change.settings) if was_read else table.settings,
        format_version=change.format_version or table.format_version,
        observed_ms=max(table.observed_ms, change.observed_at_ms),
        foreign=table.foreign or change.foreign_files > 0,  # older snapshots may have it for long
        manifests=table.manifests if change.manifests is None else change.manifests,
        manifest_bytes=(
            table.manifest_bytes if change.manifest_bytes is None else change.manifest_bytes
        ),
    )
