"""Counters of a table per (table key, ref), and per partition.

Plain values; `folding` moves them along the parent chain, `missing_snapshots` asks the enricher."""

from __future__ import annotations

from firnline_domain.base.values import Value, field, replace
from firnline_domain.counters.state.lineage import Lineage
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.parts.tallies import FileTally

EMPTY = FileTally()
RECENT_EVENTS = 16  # events without a snapshot of their own are rare


class PartitionCounters(Value):
    """Counters of one partition, as of the (epoch, ordinal) that it last folded. The sequence
    ranges are bounds: removals cannot narrow them, only an empty partition does."""

    scope: Scope
    epoch: int = 0
    ordinal: int = 0
    holds: FileTally = EMPTY
    data_sequence_min: int | None = None
    data_sequence_max: int | None = None
    delete_sequence_max: int | None = None
    changed_ms: int = 0  # when its last change was seen

    @property
    def is_empty(self) -> bool:
        return self.holds == EMPTY

    @property
    def is_negative(self) -> bool:
        """True if more was removed than was there: a change is missing or was wrong."""
        for tally in self.holds.tallies:  # a loop: asked with every commit
            if tally.files < 0 or tally.records < 0 or tally.bytes < 0:
                return True
        return False

    def with_change(
        self, part: PartitionChange, epoch: int, ordinal: int, changed_ms: int
    ) -> PartitionCounters:
        """Return the counters after one more change of this partition."""
        some_stay = self.holds.data_files > part.removed.data_files
        old = self if some_stay else PartitionCounters(self.scope)
        return PartitionCounters(
            scope=self.scope,
            epoch=epoch,
            ordinal=ordinal,
            holds=self.holds.with_changes(part.added, part.removed),
            data_sequence_min=_lower_of(old.data_sequence_min, part.data_sequence_min),
            data_sequence_max=_higher_of(old.data_sequence_max, part.data_sequence_max),
            delete_sequence_max=_higher_of(self.delete_sequence_max, part.delete_sequence_max),
            changed_ms=changed_ms,
        )


def _lower_of(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _higher_of(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


class Totals(Value):
    """Sums over the partitions of a table's ref."""

    holds: FileTally = EMPTY
    partitions: int = 0  # that hold files
    partitioned: int = 0  # of these, whose spec has partition values
    unpartitioned_equality_deletes: int = 0  # files; global where other specs hold files

    def with_partition(self, before: PartitionCounters, after: PartitionCounters) -> Totals:
        """Return the sums after one partition went from `before` to `with_change`."""
        there = int(not after.is_empty) - int(not before.is_empty)
        sums = self.with_change(after.scope, after.holds, before.holds)
        if not there:
            return sums
        partitioned = 0 if after.scope.is_unpartitioned else there
        return replace(
            sums, partitions=self.partitions + there, partitioned=self.partitioned + partitioned
        )

    def with_change(self, scope: Scope, added: FileTally, removed: FileTally) -> Totals:
        """Return the sums after a partition's change, where its files before are not known."""
        deletes = added.equality_deletes.files - removed.equality_deletes.files
        plain = deletes if scope.is_unpartitioned else 0
        return replace(
            self,
            holds=self.holds.with_changes(added, removed),
            unpartitioned_equality_deletes=self.unpartitioned_equality_deletes + plain,
        )


class OpenChunks(Value):
    """A snapshot of which some chunks are folded and some are not here yet."""

    snapshot_id: int | None
    kind: ChangeKind
    epoch: int  # that its partitions are folded under
    ordinal: int
    chunks: int
    seen: tuple[int, ...] = ()
    totals: Totals = Totals()  # of the new epoch, while ABSOLUTE is open


class MissingChanges(Value):
    """Changes that are missing between the head and what has been held back."""

    reason: str  # a ResyncReason of `missing_snapshots`
    since_ms: int
    asked_ms: int | None = None
    asks: int = 0
    absolute: bool = False  # no delta can heal it
    wanted_snapshot_id: int | None = None  # heals it by itself when it becomes the head


class TableCounters(Value):
    """Counters of one ref of a table."""

    table: TableName
    ref: str
    known: bool = False  # False until a first change could be folded
    removed: bool = False
    head_snapshot_id: int | None = None
    trace: bytes = b""  # id of the request that made it; empty = not known
    sequence_number: int = 0  # of the head; shown, never compared (sequence-clock hazard, H11)
    epoch: int = 0
    ordinal: int = 0
    format_version: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # that rules ask for
    snapshot_count: int | None = None  # None = unknown
    oldest_snapshot_ms: int | None = None  # a bound; expiry reports the truth
    manifests: int = 0  # of the head; 0 = unknown
    manifest_bytes: int = 0
    metadata_bytes: int | None = None  # of the table's metadata as JSON; None = unknown
    has_external_files: bool = (
        False  # some file, now or in an older snapshot, is outside its own locations
    )
    odd_files: int = 0  # of the head, whose numbers no file has: they count as 0
    rows_changed: int = 0  # that came or went since it is known; rewrites change none
    totals: Totals = Totals()
    observed_ms: int = 0  # newest observation in the counters
    absolute_observed_ms: int = 0  # when the absolute counters of this epoch were read
    recent: Lineage = Lineage()  # snapshots that are in the counters
    recent_events: tuple[str, ...] = ()
    held: tuple[FilesChanged, ...] = ()
    open: OpenChunks | None = None
    waiting: MissingChanges | None = None

    @property
    def global_equality_deletes(self) -> int:
        """Equality-delete files of unpartitioned specs that reach every other partition too."""
        return self.totals.unpartitioned_equality_deletes if self.totals.partitioned else 0

    def has_snapshot(self, snapshot_id: int | None) -> bool:
        """Return True if that snapshot is known to be in the counters (or was, before a
        rollback)."""
        return snapshot_id is not None and self.recent.has_snapshot(snapshot_id)

    def recent_with(self, change: FilesChanged) -> Lineage:
        """Return the recent snapshots and the change's."""
        if change.snapshot_id is None or self.has_snapshot(change.snapshot_id):
            return self.recent
        return self.recent.followed_by(change.snapshot_id, change.parent_snapshot_id)

    def with_event(self, change: FilesChanged) -> TableCounters:
        """Add the change's event to the ring of recent ones."""
        events = (*self.recent_events, change.event_id)[-RECENT_EVENTS:]
        return replace(self, recent_events=events)
