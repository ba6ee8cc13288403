"""ResyncTable -> FilesChanged: the snapshots that a planner missed, or all there is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from firnline_domain.base.values import moment_near
from firnline_domain.identity import MAIN
from firnline_domain.records.events import FilesChanged, SnapshotAdded
from firnline_domain.records.orders import ResyncTable
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone
from pyiceberg.table.snapshots import Snapshot

from firnline_enricher.commits import count_files, snapshot_delta, with_facts, with_manifests
from firnline_enricher.facts import FactsCache, TableFacts
from firnline_enricher.file_changes import (
    ChangeContext,
    absolute_changes,
    empty_branch,
    ref_removal,
    table_removal,
)

MAX_DELTAS = 500  # beyond, reading every snapshot costs more than reading the table once


class Resyncs:
    """Answers the planner's questions from the table as it is now."""

    def __init__(self, facts: FactsCache, now_ms: Callable[[], int]) -> None:
        self._facts = facts
        self._now_ms = now_ms

    def read_changes(self, request: ResyncTable) -> list[FilesChanged]:
        """Return the missing deltas in order, else absolute counters; always at least one record.

        Raises RetryLater, and MetadataFileGone if even the head cannot be read."""
        # Observed before the table is read: the planner drops what it held from before that.
        subject = ChangeContext(request.table, request.ref, _cause_id(request), self._now_ms())
        try:
            table = self._facts.load(request.table)
        except TableGone:
            return [table_removal(subject)]
        facts = self._facts.get_facts(request.table)
        subject = with_facts(subject, facts)
        head = target_snapshot(table, request)
        if head is None:
            return [empty_branch(subject) if request.ref == MAIN else ref_removal(subject)]
        deltas = missing_deltas(subject, table, facts, head, request.known_snapshot_id)
        return deltas or count_snapshot(subject, table, facts, head)


def _cause_id(request: ResyncTable) -> str:
    return f"resync-{request.requested_at_ms}"


def target_snapshot(table: LoadedTable, request: ResyncTable) -> int | None:
    """Return the snapshot to answer for; None if the ref has none. It is the wanted one, so that
    later deltas apply to the answer. It is the head if the wanted one is not (or no longer) on the
    ref's chain, or if the planner is already past it."""
    head, wanted = table.head_id(request.ref), request.wanted_snapshot_id
    passed = {snapshot.snapshot_id for snapshot in table.ancestors(request.known_snapshot_id)}
    if wanted is None or wanted in passed:
        return head
    return wanted if any(one.snapshot_id == wanted for one in table.ancestors(head)) else head


def missing_deltas(
    subject: ChangeContext, table: LoadedTable, facts: TableFacts, head: int, known: int | None
) -> list[FilesChanged]:
    """Return the deltas from `known` to `head` in order; empty if they cannot repair the planner's
    counters."""
    try:
        deltas = [
            snapshot_delta(subject, to_snapshot_added(snapshot), facts)
            for snapshot in missing_snapshots(table, head, known)
        ]
    except MetadataFileGone:
        return []
    return [change for chunks in deltas for change in chunks]


def missing_snapshots(table: LoadedTable, head: int, known: int | None) -> list[Snapshot]:
    """Return the snapshots after `known` up to `head`, oldest first; empty if no chain connects
    them.

    Also if `known` is the head: then the planner's counters match no snapshot. Ordered by the
    chain: sequence numbers are all 0 in v1 and fall with a rollback (sequence-clock hazard,
    H11)."""
    chain = list(takewhile(lambda one: one.snapshot_id != known, table.ancestors(head)))
    connected = known is not None and chain and chain[-1].parent_snapshot_id == known
    return chain[::-1] if connected and len(chain) <= MAX_DELTAS else []


def count_snapshot(
    subject: ChangeContext, table: LoadedTable, facts: TableFacts, snapshot_id: int
) -> list[FilesChanged]:
    """Return absolute counters: every live file of a snapshot. Raises MetadataFileGone,
    RetryLater."""
    listed = with_manifests(subject, table.manifests_of(table.snapshot(snapshot_id)))
    entries = live_entries(table, snapshot_id, Detail.COUNTS)
    partitions, counted = count_files(listed, entries, facts)
    return absolute_changes(
        counted,
        to_snapshot_added(table.snapshot(snapshot_id)),
        partitions,
        snapshot_count=len(table.snapshots),
        oldest_snapshot_ms=min(
            (moment_near(one.timestamp_ms) for one in table.snapshots), default=None
        ),
    )


def to_snapshot_added(snapshot: Snapshot) -> SnapshotAdded:
    """Return a retained snapshot as its writer once sent it."""
    summary = snapshot.summary
    return SnapshotAdded(
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        timestamp_ms=moment_near(snapshot.timestamp_ms),
        operation=summary.operation.value if summary else "",
        manifest_list=snapshot.manifest_list,
        summary=dict(summary.additional_properties) if summary else {},
    )
