"""TableCommitted -> FilesChanged: O(commit), never O(table)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from firnline_adapters.observability import metrics
from firnline_domain.base.values import bound_amount, replace
from firnline_domain.identity import MAIN
from firnline_domain.records.events import (
    FilesChanged,
    PartitionChange,
    SnapshotAdded,
    TableChange,
    TableCommitted,
)
from firnline_iceberg.metadata.avro_reader import MetadataFileGone, MetadataUnreadable
from firnline_iceberg.metadata.entries import EntryStatus, FileEntry
from firnline_iceberg.metadata.manifest_reader import (
    Detail,
    ManifestFile,
    read_manifest,
    read_manifest_list,
)
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.storage.paths import UnclearPath
from firnline_iceberg.table.loaded_table import TableGone

from firnline_enricher.facts import FactsCache, TableFacts
from firnline_enricher.file_changes import (
    ChangeContext,
    delta_changes,
    facts_delta,
    ref_move_change,
    ref_removal,
    table_removal,
)


class StaleFacts(Exception):
    """A manifest has a partition spec that the kept facts do not know."""


class CommitReader:
    """Reads what each commit changed."""

    def __init__(self, facts: FactsCache, now_ms: Callable[[], int]) -> None:
        self._facts = facts
        self._now_ms = now_ms

    def read_changes(self, event: TableCommitted) -> list[FilesChanged]:
        """Return the changes of a commit for the planner.

        Raises RetryLater if catalog or storage is unreachable. A missing table or manifest (expired
        since) becomes a change of its own and never blocks."""
        try:
            return self._read_changes(event)
        except TableGone:
            self._facts.forget_table(event.table)
            return [table_removal(self._build_subject(event, MAIN))]

    def unread_changes(self, event: TableCommitted) -> list[FilesChanged]:
        """Return what a commit's event itself contains: where the branches are now, or that
        something else changed. The planner asks for the changes repeatedly until they were read.
        Reads neither catalog nor storage."""
        subject = ChangeContext(
            event.table,
            MAIN,
            event.event_id,
            self._now_ms(),
            expired_snapshots=event.expired_snapshots,
            metadata_bytes=event.metadata_bytes,
        )
        if event.change is TableChange.DROPPED:
            return [table_removal(subject)]
        changes = [_ref_moved(replace(subject, ref=move.ref), move) for move in branch_moves(event)]
        if all(one.ref != MAIN for one in changes):
            changes.append(ref_move_change(subject, None))
        return changes

    def _read_changes(self, event: TableCommitted) -> list[FilesChanged]:
        if event.change is TableChange.DROPPED:
            raise TableGone(event.table, "was dropped")
        if event.change is TableChange.REGISTERED:
            return self._read_registered(event)
        news = event.metadata_changed or event.change is not TableChange.COMMITTED
        if news:
            self._facts.load(event.table)
        changes = self._read_moves(event)
        if (news or event.expired_snapshots) and all(one.ref != MAIN for one in changes):
            changes.append(facts_delta(self._build_subject(event, MAIN)))
        return changes

    def _read_registered(self, event: TableCommitted) -> list[FilesChanged]:
        """Return the head of a table that was registered from elsewhere: the planner requests the
        rest."""
        head = self._facts.load(event.table).head_id(MAIN)
        return [] if head is None else [ref_move_change(self._build_subject(event, MAIN), head)]

    def _build_subject(self, event: TableCommitted, ref: str) -> ChangeContext:
        facts = self._facts.peek_facts(event.table)
        subject = ChangeContext(event.table, ref, event.event_id, self._now_ms())
        subject = replace(
            subject,
            expired_snapshots=event.expired_snapshots,
            metadata_bytes=event.metadata_bytes,
            renamed_from=event.renamed_from,
        )
        return subject if facts is None else with_facts(subject, facts)

    def _read_moves(self, event: TableCommitted) -> list[FilesChanged]:
        try:
            return [
                change for move in branch_moves(event) for change in self._read_move(event, move)
            ]
        except (StaleFacts, MetadataUnreadable, UnclearPath):  # perhaps of another format version
            self._facts.load(event.table)
            return [
                change for move in branch_moves(event) for change in self._read_move(event, move)
            ]

    def _read_move(self, event: TableCommitted, move: BranchMove) -> list[FilesChanged]:
        """Return the deltas of the move's snapshots; the last one contains the expired ones."""
        facts = self._facts.get_facts(event.table)
        last = self._build_subject(event, move.ref)
        before = replace(last, expired_snapshots=0)
        try:
            deltas = [
                snapshot_delta(before if one is not move.added[-1] else last, one, facts)
                for one in move.added
            ]
        except MetadataFileGone:
            deltas = []
        return [change for chunks in deltas for change in chunks] or [
            self._build_ref_move(event, move)
        ]

    def _build_ref_move(self, event: TableCommitted, move: BranchMove) -> FilesChanged:
        return _ref_moved(self._build_subject(event, move.ref), move)


def _ref_moved(subject: ChangeContext, move: BranchMove) -> FilesChanged:
    if move.snapshot_id is None:
        return ref_removal(subject)
    return ref_move_change(subject, move.snapshot_id, move.previous_snapshot_id)


def with_facts(subject: ChangeContext, facts: TableFacts) -> ChangeContext:
    """Return the subject with the format version, the settings and the facts of its table."""
    return replace(
        subject,
        format_version=facts.format_version,
        settings=facts.settings,
        facts=facts.asked,
    )


def snapshot_delta(
    subject: ChangeContext, snapshot: SnapshotAdded, facts: TableFacts
) -> list[FilesChanged]:
    """Return the changes of a snapshot, read only from the manifests that it added.

    Raises MetadataFileGone, RetryLater, StaleFacts."""
    if not snapshot.manifest_list:  # v1 could list manifests in the table's metadata
        raise MetadataFileGone("the manifest list of an old v1 snapshot")
    manifests = read_manifest_list(facts.io, snapshot.manifest_list)
    partitions, counted = count_files(
        with_manifests(subject, manifests), changed_entries(snapshot, manifests, facts), facts
    )
    changes = delta_changes(counted, snapshot, partitions)
    metrics.count("snapshots_enriched")
    return changes


def count_files(
    subject: ChangeContext, entries: Iterable[FileEntry], facts: TableFacts
) -> tuple[tuple[PartitionChange, ...], ChangeContext]:
    """Return the changes of each partition, and the subject with the number of these files that lie
    outside the table's own locations, and of those with impossible numbers."""
    external, odd = Counter[bool](), Counter[bool]()
    looked_at = facts.places.count_external(_counting_odd(entries, odd), external)
    partitions = partition_changes(looked_at, facts.target_bytes)
    odd_files = odd[True] - odd[False]
    return partitions, replace(subject, external_files=external[True], odd_files=odd_files)


def _counting_odd(entries: Iterable[FileEntry], odd: Counter[bool]) -> Iterator[FileEntry]:
    """Yield the entries unchanged; count those with odd numbers by whether they are live."""
    for entry in entries:
        odd[entry.is_live] += entry.has_odd_numbers
        yield entry


def with_manifests(subject: ChangeContext, manifests: Sequence[ManifestFile]) -> ChangeContext:
    """Return the subject with the number of its snapshot's manifests and their bytes."""
    size = bound_amount(sum(manifest.length for manifest in manifests))
    return replace(subject, manifests=len(manifests), manifest_bytes=size)


def changed_entries(
    snapshot: SnapshotAdded, manifests: Sequence[ManifestFile], facts: TableFacts
) -> Iterator[FileEntry]:
    """Yield the ADDED and DELETED entries of a snapshot.

    A DELETED entry's own snapshot id is ignored: PyIceberg up to 0.11 left the one that had added
    the file."""
    for manifest in manifests:
        if manifest.added_snapshot_id == snapshot.snapshot_id and not manifest.changes_nothing:
            yield from _changes_in(manifest, facts)


def _changes_in(manifest: ManifestFile, facts: TableFacts) -> Iterator[FileEntry]:
    metrics.count("manifests_read")
    if (partition := facts.partition_texts.get(manifest.spec_id)) is None:
        raise StaleFacts(f"spec {manifest.spec_id}")
    for entry in read_manifest(facts.io, manifest, partition, Detail.COUNTS):
        if entry.status is not EntryStatus.EXISTING:
            yield entry


@dataclass(frozen=True)
class BranchMove:
    """A branch after a commit. `snapshot_id` None = the branch was removed.

    `added` are the snapshots of this commit that lead to the new head, oldest first; where it
    is empty the branch moved to a snapshot that was there before (rollback, fast-forward).
    """

    ref: str
    snapshot_id: int | None
    previous_snapshot_id: int | None  # as the writer expected it; None = not said, or new
    added: tuple[SnapshotAdded, ...]


def branch_moves(event: TableCommitted) -> tuple[BranchMove, ...]:
    """Return the moves in the order of the request; a branch set several times moved once, to the
    last.

    Tags hold no counters and are left out."""
    last = {moved.ref: moved for moved in event.refs if moved.kind != "tag"}
    snapshots = {added.snapshot_id: added for added in event.snapshots}
    return tuple(
        BranchMove(
            moved.ref,
            moved.snapshot_id,
            moved.expected_snapshot_id,
            _find_chain(moved.snapshot_id, snapshots),
        )
        for moved in last.values()
    )


def _find_chain(head: int | None, snapshots: dict[int, SnapshotAdded]) -> tuple[SnapshotAdded, ...]:
    """Return the snapshots up to the head, each onto the previous one. One transaction may contain
    several results of one table (shared-number hazard, H6)."""
    chain: list[SnapshotAdded] = []
    while head is not None and head in snapshots and snapshots[head] not in chain:
        chain.append(snapshots[head])
        head = snapshots[head].parent_snapshot_id
    return tuple(reversed(chain))
