"""Reads one table: its metadata, and the manifests of its newest snapshot. Nothing is written.

Calls are bounded: one to the catalog, one for the size of the metadata file, one for the manifest
list, and one for each manifest, up to `MAX_MANIFEST_BYTES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.commits.writers import writer_of
from firnline_domain.identity import MAIN, normal_path
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.parts.tallies import target_bytes_of
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.commit.rewrite import claimed_task_ids
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, FileEntry
from firnline_iceberg.metadata.manifest_reader import Detail, ManifestFile
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.dangling_deletes import LiveData, by_number
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.snapshots import Snapshot

from firnline_cli.adoption.newcomers import summary_of
from firnline_cli.assessment.facts import DeleteFacts, Pace, TableFacts

MAX_MANIFEST_BYTES = 256 << 20  # of one table: 2 to 4 million files
MAX_REMEMBERED = 1_000_000  # paths, to see whether one is there twice: 100 MB
WINDOW_MS = 7 * DAY_MS  # in which writers' commits are counted
MAX_WRITERS = 5  # that are named
V3_TYPES = ("timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography", "unknown")


@dataclass
class Read:
    """The result of one pass over the manifests."""

    partitions: tuple[PartitionChange, ...] = ()
    facts: TableFacts = field(default_factory=lambda: TableFacts(0, 0, None, None))


def read(table: LoadedTable, settings: Mapping[str, str], now_ms: int) -> Read:
    """Read one table. Raises RetryLater, TaskRefused, MetadataFileGone."""
    facts = _of_metadata(table, now_ms)
    head = table.head_id(MAIN)
    if head is None:
        return Read((), facts)
    snapshot = table.snapshot(head)
    manifests = [one for one in table.manifests(snapshot) if not one.holds_no_live]
    size = sum(one.length for one in manifests)
    facts = replace(facts, manifests=len(manifests), manifest_bytes=size)
    if size > MAX_MANIFEST_BYTES:
        why = f"{len(manifests):,} manifests of together {size:,} bytes"
        return Read((), replace(_of_summary(facts, snapshot), uncounted=why))
    return _of_manifests(table, manifests, facts, target_bytes_of(settings))


def _of_metadata(table: LoadedTable, now_ms: int) -> TableFacts:
    times = [one.timestamp_ms for one in table.snapshots]
    kinds = {str(one.field_type) for one in table.schema.fields}
    return TableFacts(
        format_version=table.format_version,
        snapshots=len(times),
        oldest_snapshot_ms=min(times, default=None),
        newest_snapshot_ms=max(times, default=None),
        metadata_bytes=_size(table),
        uuid=table.identity.uuid,
        types=tuple(one for one in V3_TYPES if any(one in kind for kind in kinds)),
        pace=_pace(table.snapshots, now_ms),
        unready_writers=_unready_writers(table.snapshots, now_ms),
    )


def _size(table: LoadedTable) -> int | None:
    """Return the size of the metadata file in bytes; None if the storage does not show it."""
    try:
        return len(table.io.new_input(table.metadata_location))
    except Exception:  # each storage has its own; the size is only told
        return None


def _pace(snapshots: Sequence[Snapshot], now_ms: int) -> Pace:
    """Return the amount that writers add in a day, by the summaries of the last week."""
    recent = [one for one in snapshots if one.timestamp_ms >= now_ms - WINDOW_MS]
    written = [one for one in recent if one.summary and one.summary.operation.value != "replace"]
    if not written:
        return Pace()
    since_ms = min(one.timestamp_ms for one in written)
    days = max(now_ms - since_ms, DAY_MS) / DAY_MS  # an hour's burst is not a day's pace
    said = [one.summary.additional_properties for one in written if one.summary]

    def total(name: str) -> float:
        texts = (one.get(name, "") for one in said)
        return sum(int(text) for text in texts if text.isdecimal() and len(text) < 19) / days

    return Pace(
        commits=len(written) / days,
        files=total("added-data-files"),
        equality_deletes=total("added-equality-delete-files"),
        bytes=total("added-files-size"),
    )


def _unready_writers(snapshots: Sequence[Snapshot], now_ms: int) -> tuple[str, ...]:
    recent = (one for one in snapshots if one.timestamp_ms >= now_ms - WINDOW_MS)
    others = (one.summary for one in recent if one.summary and not claimed_task_ids(one.summary))
    writers = {writer_of(one.additional_properties) for one in others}
    return tuple(sorted({one.label for one in writers if not one.writes_v3}))[:MAX_WRITERS]


def _of_summary(facts: TableFacts, snapshot: Snapshot) -> TableFacts:
    said = summary_of(snapshot.summary.additional_properties if snapshot.summary else {})
    if said is None:
        return facts
    files = said.delete_files if said.equality_deletes else 0
    deletes = DeleteFacts(
        equality_files=files,
        equality_records=said.equality_deletes,
        position_files=said.delete_files - files,
    )
    return replace(facts, data_files=said.data_files, data_bytes=said.bytes, deletes=deletes)


def _of_manifests(
    table: LoadedTable, manifests: Sequence[ManifestFile], facts: TableFacts, target_bytes: int
) -> Read:
    """Delete files first: what they reach is then told as the data files pass by."""
    entries = (
        entry
        for one in manifests
        if one.holds_deletes
        for entry in table.entries(one, Detail.REFERENCES)
        if entry.live and isinstance(entry, DeleteFileEntry)
    )
    deletes = tuple(entries)
    pass_over = _Pass(deletes, table.metadata.location)
    data = (
        entry
        for one in manifests
        if not one.holds_deletes
        for entry in table.entries(one, Detail.COUNTS)
        if entry.live and isinstance(entry, DataFileEntry)
    )
    partitions = partition_changes(pass_over.of(data), target_bytes)
    facts = replace(
        facts,
        data_files=pass_over.files,
        data_bytes=pass_over.bytes,
        partitions=len(partitions),
        live_specs=tuple(sorted(pass_over.specs)),
        formats=dict(pass_over.formats),
        repeated=pass_over.repeated,
        outside_files=pass_over.outside,
        schemeless_files=pass_over.schemeless,
        deletes=_of_deletes(table, deletes, pass_over.live),
    )
    return Read(partitions, facts)


class _Pass:
    """A pass over the entries while they are counted."""

    def __init__(self, deletes: Sequence[DeleteFileEntry], location: str) -> None:
        self._deletes, self._below = deletes, normal_path(location).rstrip("/") + "/"
        self.outside = self.schemeless = 0
        self.live = LiveData(deletes)
        self.files = self.bytes = 0
        self.specs: set[int] = set()
        self.formats: Counter[str] = Counter()
        self._seen: set[int] | None = set()
        self._twice = len(deletes) - len({one.key for one in deletes})

    def of(self, data: Iterable[DataFileEntry]) -> Iterator[FileEntry]:
        for delete in self._deletes:
            self._place(delete)
            yield delete
        for entry in data:
            self._place(entry)
            self.live.add(entry)
            self.files += 1
            self.bytes += entry.bytes
            self.specs.add(entry.spec_id)
            self.formats[entry.format] += 1
            self._remember(entry)
            yield entry

    def _place(self, entry: FileEntry) -> None:
        self.outside += not entry.normal.startswith(self._below)
        self.schemeless += ":" not in entry.path.partition("/")[0]

    def _remember(self, entry: DataFileEntry) -> None:
        if self._seen is None:
            return
        key = hash(entry.normal)
        self._twice += key in self._seen
        self._seen.add(key)
        if len(self._seen) > MAX_REMEMBERED:
            self._seen = None

    @property
    def repeated(self) -> int | None:
        """Return the number of entries of files that were there already; None if there were too
        many to remember."""
        return None if self._seen is None else self._twice


def _of_deletes(
    table: LoadedTable, deletes: Sequence[DeleteFileEntry], live: LiveData
) -> DeleteFacts:
    if not deletes:
        return DeleteFacts()
    equality = [one for one in deletes if one.kind is DeleteKind.EQUALITY]
    kinds = Counter(one.kind for one in deletes)
    oldest_ms, at_least = _age(table, equality)
    return DeleteFacts(
        equality_files=len(equality),
        equality_records=sum(one.records for one in equality),
        position_files=kinds[DeleteKind.POSITION],
        vectors=kinds[DeleteKind.DELETION_VECTOR],
        bytes=sum(one.content_size or one.bytes for one in deletes),
        oldest_ms=oldest_ms,
        at_least=at_least,
        dangling=len(by_number(deletes, live)),
        equality_specs=tuple(sorted({one.spec_id for one in equality})),
    )


def _age(table: LoadedTable, equality: Sequence[DeleteFileEntry]) -> tuple[int | None, bool]:
    """Return when the oldest was committed, by its sequence number."""
    numbers = [one.sequence_number for one in equality if one.sequence_number is not None]
    if not numbers:
        return None, False
    oldest = min(numbers)
    times = {one.sequence_number: one.timestamp_ms for one in table.snapshots}
    if oldest in times:
        return times[oldest], False
    return min(times.values(), default=None), True
