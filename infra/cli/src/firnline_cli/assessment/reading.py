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
from firnline_iceberg.scan.dangling_deletes import LiveSequences, dangling_by_number
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.snapshots import Snapshot

from firnline_cli.adoption.newcomers import summary_of
from firnline_cli.assessment.facts import AssessedFacts, DeleteFacts, Pace

MAX_MANIFEST_BYTES = 256 << 20  # of one table: 2 to 4 million files
MAX_REMEMBERED = 1_000_000  # paths, to see whether one is there twice: 100 MB
WINDOW_MS = 7 * DAY_MS  # in which writers' commits are counted
MAX_WRITERS = 5  # that are named
V3_TYPES = ("timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography", "unknown")


@dataclass
class ManifestSummary:
    """The result of one pass over the manifests."""

    partitions: tuple[PartitionChange, ...] = ()
    facts: AssessedFacts = field(default_factory=lambda: AssessedFacts(0, 0, None, None))


def read_table(table: LoadedTable, settings: Mapping[str, str], now_ms: int) -> ManifestSummary:
    """Read one table. Raises RetryLater, TaskRefused, MetadataFileGone."""
    facts = _metadata_facts(table, now_ms)
    head = table.head_id(MAIN)
    if head is None:
        return ManifestSummary((), facts)
    snapshot = table.snapshot(head)
    manifests = [one for one in table.manifests_of(snapshot) if not one.holds_no_live]
    size = sum(one.length for one in manifests)
    facts = replace(facts, manifests=len(manifests), manifest_bytes=size)
    if size > MAX_MANIFEST_BYTES:
        why = f"{len(manifests):,} manifests of together {size:,} bytes"
        return ManifestSummary((), replace(_with_summary_totals(facts, snapshot), uncounted=why))
    return _of_manifests(table, manifests, facts, target_bytes_of(settings))


def _metadata_facts(table: LoadedTable, now_ms: int) -> AssessedFacts:
    """Return the facts that the table's metadata file contains; no manifest is read."""
    times = [one.timestamp_ms for one in table.snapshots]
    kinds = {str(one.field_type) for one in table.schema.fields}
    return AssessedFacts(
        format_version=table.format_version,
        snapshots=len(times),
        oldest_snapshot_ms=min(times, default=None),
        newest_snapshot_ms=max(times, default=None),
        metadata_bytes=_metadata_size(table),
        uuid=table.identity.uuid,
        types=tuple(one for one in V3_TYPES if any(one in kind for kind in kinds)),
        pace=_writer_pace(table.snapshots, now_ms),
        unready_writers=_unready_writers(table.snapshots, now_ms),
    )


def _metadata_size(table: LoadedTable) -> int | None:
    """Return the size of the metadata file in bytes; None if the storage does not show it."""
    try:
        return len(table.io.new_input(table.metadata_location))
    except Exception:  # each storage has its own; the size is only told
        return None


def _writer_pace(snapshots: Sequence[Snapshot], now_ms: int) -> Pace:
    """Return the commits, data files, equality-delete files and bytes that writers add per day, by
    the summaries of the snapshots of the last week that are no rewrites."""
    recent = [one for one in snapshots if one.timestamp_ms >= now_ms - WINDOW_MS]
    written = [one for one in recent if one.summary and one.summary.operation.value != "replace"]
    if not written:
        return Pace()
    since_ms = min(one.timestamp_ms for one in written)
    days = max(now_ms - since_ms, DAY_MS) / DAY_MS  # an hour's burst is not a day's pace
    said = [one.summary.additional_properties for one in written if one.summary]

    def total_per_day(name: str) -> float:
        texts = (one.get(name, "") for one in said)
        return sum(int(text) for text in texts if text.isdecimal() and len(text) < 19) / days

    return Pace(
        commits=len(written) / days,
        files=total_per_day("added-data-files"),
        equality_deletes=total_per_day("added-equality-delete-files"),
        bytes=total_per_day("added-files-size"),
    )


def _unready_writers(snapshots: Sequence[Snapshot], now_ms: int) -> tuple[str, ...]:
    recent = (one for one in snapshots if one.timestamp_ms >= now_ms - WINDOW_MS)
    others = (one.summary for one in recent if one.summary and not claimed_task_ids(one.summary))
    writers = {writer_of(one.additional_properties) for one in others}
    return tuple(sorted({one.label for one in writers if not one.writes_v3}))[:MAX_WRITERS]


def _with_summary_totals(facts: AssessedFacts, snapshot: Snapshot) -> AssessedFacts:
    """Return the facts with the totals of a snapshot's summary; unchanged if it has none."""
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
    table: LoadedTable, manifests: Sequence[ManifestFile], facts: AssessedFacts, target_bytes: int
) -> ManifestSummary:
    """Summarize the manifests, those of delete files first: their reach is counted while the data
    files are read."""
    entries = (
        entry
        for one in manifests
        if one.holds_deletes
        for entry in table.entries_of(one, Detail.REFERENCES)
        if entry.is_live and isinstance(entry, DeleteFileEntry)
    )
    deletes = tuple(entries)
    pass_over = _Pass(deletes, table.metadata.location)
    data = (
        entry
        for one in manifests
        if not one.holds_deletes
        for entry in table.entries_of(one, Detail.COUNTS)
        if entry.is_live and isinstance(entry, DataFileEntry)
    )
    partitions = partition_changes(pass_over.count_entries(data), target_bytes)
    facts = replace(
        facts,
        data_files=pass_over.files,
        data_bytes=pass_over.bytes,
        partitions=len(partitions),
        live_specs=tuple(sorted(pass_over.specs)),
        formats=dict(pass_over.formats),
        repeated=pass_over.repeated_entries,
        outside_files=pass_over.outside,
        schemeless_files=pass_over.schemeless,
        deletes=_delete_facts(table, deletes, pass_over.live),
    )
    return ManifestSummary(partitions, facts)


class _Pass:
    """A pass over the entries while they are counted."""

    def __init__(self, deletes: Sequence[DeleteFileEntry], location: str) -> None:
        self._deletes, self._below = deletes, normal_path(location).rstrip("/") + "/"
        self.outside = self.schemeless = 0
        self.live = LiveSequences(deletes)
        self.files = self.bytes = 0
        self.specs: set[int] = set()
        self.formats: Counter[str] = Counter()
        self._seen: set[int] | None = set()
        self._twice = len(deletes) - len({one.key for one in deletes})

    def count_entries(self, data: Iterable[DataFileEntry]) -> Iterator[FileEntry]:
        for delete in self._deletes:
            self._check_location(delete)
            yield delete
        for entry in data:
            self._check_location(entry)
            self.live.add_file(entry)
            self.files += 1
            self.bytes += entry.bytes
            self.specs.add(entry.spec_id)
            self.formats[entry.format] += 1
            self._count_repeated(entry)
            yield entry

    def _check_location(self, entry: FileEntry) -> None:
        self.outside += not entry.normal_path.startswith(self._below)
        self.schemeless += ":" not in entry.path.partition("/")[0]

    def _count_repeated(self, entry: DataFileEntry) -> None:
        if self._seen is None:
            return
        key = hash(entry.normal_path)
        self._twice += key in self._seen
        self._seen.add(key)
        if len(self._seen) > MAX_REMEMBERED:
            self._seen = None

    @property
    def repeated_entries(self) -> int | None:
        """Return the number of entries of files that were there already; None if there were too
        many to remember."""
        return None if self._seen is None else self._twice


def _delete_facts(
    table: LoadedTable, deletes: Sequence[DeleteFileEntry], live: LiveSequences
) -> DeleteFacts:
    """Return the facts about the live delete files: counts, bytes, the time of the oldest equality
    delete, and how many apply to no file."""
    if not deletes:
        return DeleteFacts()
    equality = [one for one in deletes if one.kind is DeleteKind.EQUALITY]
    kinds = Counter(one.kind for one in deletes)
    oldest_ms, at_least = _oldest_commit(table, equality)
    return DeleteFacts(
        equality_files=len(equality),
        equality_records=sum(one.records for one in equality),
        position_files=kinds[DeleteKind.POSITION],
        vectors=kinds[DeleteKind.DELETION_VECTOR],
        bytes=sum(one.content_size or one.bytes for one in deletes),
        oldest_ms=oldest_ms,
        at_least=at_least,
        dangling=len(dangling_by_number(deletes, live)),
        equality_specs=tuple(sorted({one.spec_id for one in equality})),
    )


def _oldest_commit(
    table: LoadedTable, equality: Sequence[DeleteFileEntry]
) -> tuple[int | None, bool]:
    """Return when the oldest was committed, by its sequence number."""
    numbers = [one.sequence_number for one in equality if one.sequence_number is not None]
    if not numbers:
        return None, False
    oldest = min(numbers)
    times = {one.sequence_number: one.timestamp_ms for one in table.snapshots}
    if oldest in times:
        return times[oldest], False
    return min(times.values(), default=None), True
