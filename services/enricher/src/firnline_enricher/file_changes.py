"""The `FilesChanged` records that the enricher sends, one function for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from firnline_adapters.records.signing import keys_here
from firnline_domain.base.values import Value, field, replace
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange, SnapshotAdded
from firnline_domain.records.parts.summaries import (
    MAKERS,
    OPTIMIZE,
    PRODUCER,
    REPLACE,
    is_ours,
    task_ids_in,
)
from firnline_domain.records.results import NEWEST_VERSION

CHUNK_PARTITIONS = 500  # about 150 kB of Avro
# Of a chunk whose partitions have long names; a quarter of what the topic takes, for all else that
# the record says, and for what planners hold of it.
CHUNK_BYTES = 256 * 1024
PARTITION_BYTES = 300  # of one without its name
MAX_MAKER = 200  # characters of a summary's value that a person is to read
MAX_OPERATION = 100  # characters of what a writer says that it did
DROP_TABLE = "drop-table"  # `operation` where the whole table is gone, not only `ref`
REMOVE_REF = "remove-ref"
MOVE_REF = "move-ref"
NO_FILES = "no-files"


class ChangeContext(Value):
    """Subject of a change: the table, the cause, and what is known of the table at that time."""

    table: TableName
    ref: str
    cause: str  # id of the commit or question; makes an event's id the same if it is sent again
    observed_at_ms: int
    format_version: int = 0  # 0 = the table could not be read
    settings: Mapping[str, str] = field(default_factory=dict)
    expired_snapshots: int = 0
    manifests: int | None = None  # of the snapshot that the change is about, where they were listed
    manifest_bytes: int | None = None
    external_files: int = 0  # of those that are told of
    odd_files: int = 0  # added less removed: see `FilesChanged`
    metadata_bytes: int | None = None  # of the table, as the commit's event says it
    renamed_from: tuple[str, ...] = ()  # the same
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # that rules ask for


def delta_changes(
    subject: ChangeContext, snapshot: SnapshotAdded, partitions: Sequence[PartitionChange]
) -> list[FilesChanged]:
    """Return the changes of one snapshot relative to its parent's counters, in chunks. The event id
    leaves out the cause: a snapshot changes a ref's files once, whichever request reads it."""
    whole = _change_of_snapshot(subject, ChangeKind.DELTA, snapshot)
    event_id = f"{subject.table.key}/{subject.ref}/{snapshot.snapshot_id}"
    return _split_chunks(replace(whole, event_id=event_id), partitions)


def absolute_changes(
    subject: ChangeContext,
    snapshot: SnapshotAdded,
    partitions: Sequence[PartitionChange],
    snapshot_count: int,
    oldest_snapshot_ms: int | None,
) -> list[FilesChanged]:
    """Return all files of a snapshot, in chunks."""
    whole = replace(
        _change_of_snapshot(subject, ChangeKind.ABSOLUTE, snapshot),
        snapshot_count=snapshot_count,
        oldest_snapshot_ms=oldest_snapshot_ms,
    )
    return _split_chunks(whole, partitions)


def empty_branch(subject: ChangeContext) -> FilesChanged:
    """Return absolute counters of a branch without any snapshot."""
    return replace(_change_without_files(subject, ChangeKind.ABSOLUTE, None, ""), snapshot_count=0)


def tell_newer_version(subject: ChangeContext, snapshot_id: int | None) -> FilesChanged:
    """Return a change without counters for a table in a newer format than this code reads: the
    planner needs only the format version."""
    whole = replace(subject, format_version=NEWEST_VERSION + 1)
    return replace(
        _change_without_files(whole, ChangeKind.ABSOLUTE, snapshot_id, ""), snapshot_count=0
    )


def facts_delta(subject: ChangeContext) -> FilesChanged:
    """Return a delta without a snapshot: no file changed, only facts of the table."""
    return _change_without_files(subject, ChangeKind.DELTA, None, NO_FILES)


def ref_move_change(
    subject: ChangeContext, snapshot_id: int | None, previous: int | None = None
) -> FilesChanged:
    """Return the change of a branch that is at `snapshot_id` now, by an unknown path; None = the
    head could not be read. `previous` is where it was, if that is known."""
    change = _change_without_files(subject, ChangeKind.REF_MOVED, snapshot_id, MOVE_REF)
    return replace(change, parent_snapshot_id=previous)


def ref_removal(subject: ChangeContext) -> FilesChanged:
    """Return the change of a branch that was removed."""
    return _change_without_files(subject, ChangeKind.REMOVED, None, REMOVE_REF)


def table_removal(subject: ChangeContext) -> FilesChanged:
    """Return the change of a table that was dropped with all its refs."""
    return _change_without_files(replace(subject, ref=MAIN), ChangeKind.REMOVED, None, DROP_TABLE)


def _change_without_files(
    subject: ChangeContext, kind: ChangeKind, snapshot_id: int | None, operation: str
) -> FilesChanged:
    return FilesChanged(
        event_id="/".join((subject.table.key, subject.ref, kind.value, subject.cause)),
        table=subject.table,
        ref=subject.ref,
        kind=kind,
        snapshot_id=snapshot_id,
        parent_snapshot_id=None,
        sequence_number=0,
        timestamp_ms=subject.observed_at_ms,
        operation=operation[:MAX_OPERATION],
        partitions=(),
        format_version=subject.format_version,
        settings=dict(subject.settings),
        expired_snapshots=subject.expired_snapshots,
        observed_at_ms=subject.observed_at_ms,
        manifests=subject.manifests,
        manifest_bytes=subject.manifest_bytes,
        external_files=subject.external_files,
        odd_files=subject.odd_files,
        metadata_bytes=subject.metadata_bytes,
        renamed_from=subject.renamed_from,
        facts=dict(subject.facts),
    )


def _change_of_snapshot(
    subject: ChangeContext, kind: ChangeKind, snapshot: SnapshotAdded
) -> FilesChanged:
    """Return a change of this kind with a snapshot's facts, and no files yet."""
    return replace(
        _change_without_files(subject, kind, snapshot.snapshot_id, snapshot.operation),
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        timestamp_ms=snapshot.timestamp_ms,
        task_id=_tasks_of(subject, snapshot),
        maker=maker_of(snapshot),
    )


def _tasks_of(subject: ChangeContext, snapshot: SnapshotAdded) -> str | None:
    """Return the tasks that the planner counts as done with this snapshot: None unless Firnline
    signed its summary."""
    if not is_ours(snapshot.summary, subject.table.uuid, keys_here()):
        return None
    return task_ids_in(snapshot.summary)


def _split_chunks(whole: FilesChanged, partitions: Sequence[PartitionChange]) -> list[FilesChanged]:
    """Split a change into numbered records, at least one. The same partitions are always split
    alike: chunks of one snapshot may come from different reads of it."""
    pieces = list(_split_partitions(partitions)) or [()]
    return [
        replace(
            whole,
            event_id=f"{whole.event_id}/{number}",
            partitions=piece,
            chunk=number,
            chunks=len(pieces),
        )
        for number, piece in enumerate(pieces)
    ]


def _split_partitions(
    partitions: Sequence[PartitionChange],
) -> Iterator[tuple[PartitionChange, ...]]:
    start, size = 0, 0
    for index, one in enumerate(partitions):
        more = PARTITION_BYTES + len(one.scope.partition.encode())
        if index - start == CHUNK_PARTITIONS or (index > start and size + more > CHUNK_BYTES):
            yield tuple(partitions[start:index])
            start, size = index, 0
        size += more
    if start < len(partitions):
        yield tuple(partitions[start:])


def maker_of(snapshot: SnapshotAdded) -> dict[str, str]:
    """Return the properties that identify the producer of a replace or an optimize. Empty for
    commits that write rows: they are many, and their producer is not used."""
    summary: Mapping[str, str] = snapshot.summary
    if snapshot.operation != REPLACE and summary.get(PRODUCER) != OPTIMIZE:
        return {}
    return {name: summary[name][:MAX_MAKER] for name in MAKERS if name in summary}
