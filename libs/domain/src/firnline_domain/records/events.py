"""Facts about tables, in the past tense, as they travel on topics."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import Amount, Identifier, Moment, Signed, Value, field
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.dead_rows import DeadRows
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.results import REWRITE, KeyChecksums, TableResult, TaskFailed


class TableChange(StrEnum):
    """Effects of an accepted catalog call on a table."""

    COMMITTED = "committed"
    CREATED = "created"
    REGISTERED = "registered"
    DROPPED = "dropped"
    RENAMED = "renamed"


class SnapshotAdded(Value):
    """One `add-snapshot` of a commit, as the writer sent it (REST spec, `Snapshot`)."""

    snapshot_id: Identifier
    parent_snapshot_id: Identifier | None
    sequence_number: Identifier
    timestamp_ms: Moment
    operation: str
    manifest_list: str
    summary: dict[str, str] = field(default_factory=dict)


class RefMoved(Value):
    """One `set-snapshot-ref` or `remove-snapshot-ref`; `snapshot_id` None = removed."""

    ref: str
    kind: str  # branch | tag
    snapshot_id: Identifier | None
    expected_snapshot_id: Identifier | None = None  # from `assert-ref-snapshot-id`, if it was sent


class TableCommitted(Value):
    """A catalog call that the catalog accepted. `event_id` is the same if it is sent again."""

    event_id: str
    table: TableName
    change: TableChange
    snapshots: tuple[SnapshotAdded, ...]
    refs: tuple[RefMoved, ...]
    expired_snapshot_ids: tuple[Identifier, ...]  # the first of them
    metadata_changed: bool  # properties, schema, spec, sort order or location
    committed_at_ms: Moment
    source: str  # gateway | reconciled | listener
    user_agent: str | None = None
    expired_snapshots: Amount = 0  # all of them
    principal: str | None = None  # that the call's bearer token names; the catalog accepted it
    # Of the table's metadata as JSON, by the newest answer to a load or commit that was seen: this
    # commit's or an earlier one's. None: not known.
    metadata_bytes: Amount | None = None
    renamed_from: tuple[str, ...] = ()  # namespace levels and name, of a rename


def commit_event_id(
    table_key: str,
    change: TableChange,
    snapshots: Sequence[SnapshotAdded],
    refs: Sequence[RefMoved],
    sighting: str,
) -> str:
    """Return an id that is the same for every sighting of one change.

    A new snapshot or a new table happens once, so its ids suffice. A ref can move to the same
    snapshot twice, a table can be registered twice: those also carry `sighting`, the identity of
    what reported them."""
    parts = [table_key, change.value, *(str(new.snapshot_id) for new in snapshots)]
    parts += [f"{moved.ref}={moved.snapshot_id}" for moved in refs]
    if not snapshots and change is not TableChange.CREATED:
        parts.append(sighting)
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


class FilteredBy(Value):
    """Scans whose filter lets them leave files out by a column; nested ones are dotted."""

    column: str
    scans: Amount
    data_files: Amount  # that these scans have read nevertheless


class PartitionClock(Value):
    """The field of a partition spec that says in which hour, day, month or year a partition is."""

    spec_id: Signed
    position: Amount  # among the spec's fields
    unit: str  # hour | day | month | year
    column: str  # its source


class TableLayout(Value):
    """Source columns of a table's default sort order, as far as it keeps theirs, and of its
    default partition spec."""

    ordered_by: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    clock: PartitionClock | None = None  # None = no field of the spec is of time


class ScannedRange(Value):
    """Scans whose filter is by the clock's column. Ages count back from now, in its unit; None = it
    is not known where the range begins or ends."""

    youngest: Signed | None
    oldest: Signed | None
    scans: Amount
    data_files: Amount  # that these scans have read


class TableScanned(Value):
    """Readers have scanned a table, as one gateway has counted them in that time."""

    table: TableName
    from_ms: Moment
    to_ms: Moment
    scans: Amount  # that were reported
    data_files: Amount  # that these scans have read, all together
    filtered: tuple[FilteredBy, ...] = ()
    layout: TableLayout | None = None  # None = the table did not say
    loads: Amount = 0  # reads of clients that report none: nobody knows of how much
    ranges: tuple[ScannedRange, ...] = ()


class ChangeKind(StrEnum):
    """Ways in which `FilesChanged` is folded."""

    DELTA = "delta"  # onto the parent's counters
    ABSOLUTE = "absolute"  # replaces all counters: a new epoch
    REF_MOVED = "ref_moved"  # the ref points elsewhere without a new snapshot of its own
    REMOVED = "removed"  # the ref, or the whole table, is gone


class PartitionChange(Value):
    """Files that one snapshot added to and removed from one partition."""

    scope: Scope
    added: FileTally
    removed: FileTally
    data_sequence_min: Identifier | None = None  # of the added data files
    data_sequence_max: Identifier | None = None
    delete_sequence_max: Identifier | None = None  # of the added delete files


class FilesChanged(Value):
    """One snapshot's change of one ref of a table, per partition; big commits in chunks.

    `chunk` counts from 0 to `chunks` - 1; the head of the ref moves with the last one.
    `expired_snapshots` and `settings` are facts of the table at that moment.
    """

    event_id: str
    table: TableName
    ref: str
    kind: ChangeKind
    snapshot_id: Identifier | None
    parent_snapshot_id: Identifier | None
    sequence_number: Identifier
    timestamp_ms: Moment
    operation: str
    partitions: tuple[PartitionChange, ...]
    format_version: Amount
    settings: dict[str, str] = field(default_factory=dict)  # table properties that matter to us
    expired_snapshots: Amount = 0  # that left the metadata
    snapshot_count: Amount | None = None  # set with ABSOLUTE: all retained snapshots of the table
    oldest_snapshot_ms: Moment | None = None  # set with ABSOLUTE
    task_id: str | None = None  # of the Firnline task that made this snapshot
    chunk: Amount = 0
    chunks: Amount = 1
    observed_at_ms: Moment = 0
    maker: dict[str, str] = field(default_factory=dict)  # engine, of a commit that maintains
    external_files: Amount = 0  # of the files in it, how many lie outside the table's own locations
    # Of the files in it, how many claim more rows or bytes than any file has; those removed count
    # below zero.
    odd_files: Signed = 0
    manifests: Amount | None = None  # of the snapshot's list; None = not read
    manifest_bytes: Amount | None = None
    metadata_bytes: Amount | None = None  # of the table: see `TableCommitted`
    renamed_from: tuple[str, ...] = ()  # see `TableCommitted`
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # that rules ask for, by name


class TickPassed(Value):
    """Time, as a record in every partition (timer-write hazard, H16)."""

    bucket: Signed
    at_ms: Moment


class Classification(ReasonCode):
    """Situations of a committed result at the head. Refused ones have a ConflictReason."""

    CLEAN = ("clean", "The head was the snapshot that the task read.", "no commit came between")
    LATER_COMMITS = (
        "later_commits",
        "Writers had appended rows or equality deletes, which stay valid: sequence numbers order "
        "them.",
        "commits came between, and stay valid",
    )
    REPAIRED = (
        "repaired",
        "Writers had deleted rows of the replaced files by position. Their deletes were carried "
        "over to the new files.",
        "deletes that came between were carried over",
    )


class GroupProof(Value):
    """Proof of one group of a rewrite, as it was verified before the commit (`row_count_proof`)."""

    rows_in: Amount
    rows_masked: Amount
    rows_out: Amount
    keys: KeyChecksums | None = None


class RewriteCommitted(Value):
    """A rewrite's result is in the table."""

    task_id: str
    table: TableName
    ref: str
    scope: Scope | None
    snapshot_ids: tuple[Identifier, ...]
    start_snapshot_id: Identifier
    files_removed: Amount
    files_added: Amount
    equality_deletes_removed: Amount
    position_deletes_removed: Amount
    bytes_before: Amount
    bytes_after: Amount
    rows_in: Amount
    rows_masked: Amount
    rows_out: Amount
    mode: str  # native | handed_over
    redelivered: bool  # the commit was found, not made
    committed_at_ms: Moment
    reason: str | None = None  # of handing over
    ordered_at_ms: Moment | None = None
    classification: Classification = Classification.CLEAN
    rows_repaired: Amount = 0  # rows that died meanwhile, whose delete moved with them
    groups_lost: Amount = 0  # of the task; their partition is planned again
    bytes_lost: Amount = 0  # outputs of lost groups
    lost_reason: str | None = None  # a ConflictReason, of the first lost group
    proofs: tuple[GroupProof, ...] = ()  # of the groups that were committed; of natives only
    worked_ms: Amount | None = None  # by the worker, from start to last output
    slice: Slice | None = None  # as the result said: whether another order has to follow
    bytes_read: Amount = 0  # what the worker read in that time: see `RewriteFinished`
    key_bytes: Amount = 0
    delete_records: Amount = 0
    converted_bytes: Amount = 0  # of the files whose keys these were
    dead_rows: tuple[DeadRows, ...] = ()  # that are left in larger files; () = not known


class RewriteConflicted(Value):
    """A result was refused; its partition goes back to the planner."""

    task_id: str
    table: TableName
    ref: str
    scope: Scope | None
    reason: ConflictReason
    detail: str
    start_snapshot_id: Identifier
    head_snapshot_id: Identifier | None
    conflicted_at_ms: Moment
    files_written: Amount = 0  # outputs that reach no commit
    bytes_written: Amount = 0


class RewriteSkipped(Value):
    """The worker found nothing to do."""

    task_id: str
    table: TableName
    ref: str
    scope: Scope | None
    reason: str
    at_ms: Moment
    dead_rows: tuple[DeadRows, ...] = ()  # as of `RewriteCommitted`


TaskEnd = RewriteCommitted | RewriteConflicted | RewriteSkipped | TaskFailed | TableResult
"""What a task comes to. Others bear its id, too: that it is at work, that its commit was read
back."""


def ends_order(event: object, order: RewriteFiles | TableOrder) -> bool:
    """Return whether this is what that attempt of the order came to. A comparison that failed, an
    earlier attempt and a task of another table may bear the same id."""
    if not isinstance(event, TaskEnd) or event.task_id != order.task_id:
        return False
    if event.table.key != order.table.key:
        return False
    if isinstance(event, TaskFailed) and event.attempt != order.attempt:
        return False
    if isinstance(order, TableOrder):
        action = event.action if isinstance(event, TableResult) else getattr(event, "kind", None)
        return action == order.action
    if isinstance(event, TableResult) or event.scope != order.scope:
        return False
    return not isinstance(event, TaskFailed) or event.kind == REWRITE


class OutputsSwept(Value):
    """Files that no commit has taken were removed, by the write-ahead lists that name them."""

    table: TableName
    lists_removed: Amount
    files_removed: Amount
    files_reachable: Amount  # on the lists, and in a retained snapshot: they stay
    left: dict[str, Amount]  # lists left alone, by reason
    swept_by: str  # committer | cli
    swept_at_ms: Moment


class TableAssigned(Value):
    """A table is in that bucket from now on; said by its home, each time with a higher epoch."""

    table_key: str
    bucket: Signed
    epoch: Amount
    at_ms: Moment
    reason: str = ""  # for people


class BucketLoaded(Value):
    """Load of a bucket on its planner (`policy.fleet.placement`)."""

    bucket: Signed
    tables: Amount
    load: Amount  # steps a minute
    at_ms: Moment


class KeptPair(Value):
    """One key of a planner's state with its value, as they are kept."""

    key: bytes
    value: bytes


class TableHanded(Value):
    """All that one bucket has kept of a table, for another: from its home, the bucket it is
    assigned to; from there, its home again. Big tables come in chunks, one after the other.
    """

    table_key: str
    epoch: Amount  # of the assignment that begins, or ends, with it
    pairs: tuple[KeptPair, ...]  # in the order of their keys
    chunk: Amount = 0
    chunks: Amount = 1


class RecordForwarded(Value):
    """A record of a table that came to a bucket which the table is not in."""

    table_key: str
    epoch: Amount  # from its home: of the assignment. From elsewhere: what it came with, or 0
    record: bytes  # as it would be on its topic


class DeadLettered(Value):
    """A record that could not be used, kept whole as far as it fits, with its reason.

    `offset` is below zero for one that its own topic would not take.
    """

    topic: str
    partition: Signed
    offset: Signed
    key: bytes | None
    value: bytes | None
    reason: str
    message: str
    service: str
    at_ms: Moment
    value_bytes: Amount | None = None  # size of the whole value where only its beginning is kept
