"""Which files that a table retains hold rows of a kind, deleted ones as well: the files themselves
are read, without the deletes that hide rows in them.

All retained snapshots count, whatever ref they are of. Bounds leave out files that cannot hold such
a row; a file that cannot be told about counts as one that does. Equality deletes hold the keys of
what they delete, so they are looked at, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from pyiceberg.expressions import BooleanExpression, visitors
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record

from firnline_iceberg.files import DeleteFileEntry, FileEntry
from firnline_iceberg.manifests import Detail
from firnline_iceberg.planning import live_files
from firnline_iceberg.tables import LoadedTable


@dataclass(frozen=True)
class Holder:
    """A retained file that holds such rows. `rows` None: it cannot be told how many. `refs`: whose
    heads have it; `snapshots`: how many have it. `visible`: the head of main has it, and no delete
    that applies to it."""

    path: str
    partition: str
    rows: int | None
    bytes: int
    refs: tuple[str, ...]
    snapshots: int
    is_delete: bool = False
    visible: bool = False


@dataclass(frozen=True)
class Wanted:
    """Rows of a kind: a condition as PyIceberg writes it, bound to the table's columns."""

    condition: BooleanExpression
    columns: frozenset[int]


def wanted_rows(table: LoadedTable, text: str) -> Wanted:
    """Raises TaskRefused `unreadable_condition`."""
    try:
        bound = visitors.bind(table.schema, parse(text), case_sensitive=True)
        columns = frozenset(visitors.extract_field_ids(bound))
    except Exception as error:  # the parser's own, and those of values that fit no column
        example = "write \"customer = 7 and day < '2026-01-01'\""
        raise TaskRefused("unreadable_condition", f"{text}: {error}; {example}") from error
    if not columns:
        raise TaskRefused("unreadable_condition", f"{text}: it names no column")
    return Wanted(parse(text), columns)


def holders(table: LoadedTable, wanted: Wanted) -> list[Holder]:
    """By path. Raises MetadataFileGone, RetryLater, OSError."""
    of_manifest = _snapshots_by_manifest(table)
    found, having = dict[str, FileEntry](), defaultdict[str, set[int]](set)
    may_hold = visitors._InclusiveMetricsEvaluator(table.schema, wanted.condition).eval
    for manifest, ids in of_manifest.items():
        for entry in table.entries(manifest, Detail.STATS):
            if entry.live and _is_candidate(entry, wanted, may_hold):
                found[entry.path] = entry
                having[entry.path] |= ids
    heads = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    bare = _without_deletes(table, heads.get(MAIN))
    read = ((entry, _rows(table, entry, wanted)) for _, entry in sorted(found.items()))
    return [
        Holder(
            entry.path,
            entry.partition,
            rows,
            entry.bytes,
            tuple(sorted(name for name, head in heads.items() if head in having[entry.path])),
            len(having[entry.path]),
            isinstance(entry, DeleteFileEntry),
            entry.normal in bare,
        )
        for entry, rows in read
        if rows != 0
    ]


def _snapshots_by_manifest(table: LoadedTable) -> dict[Any, set[int]]:
    by_path, snapshots = dict[str, Any](), defaultdict[str, set[int]](set)
    for snapshot in table.snapshots:
        for manifest in table.manifests(snapshot):
            by_path[manifest.path] = manifest
            snapshots[manifest.path].add(snapshot.snapshot_id)
    return {by_path[path]: ids for path, ids in snapshots.items()}


def _is_candidate(entry: FileEntry, wanted: Wanted, may_hold: Any) -> bool:
    if isinstance(entry, DeleteFileEntry):
        return bool(wanted.columns & set(entry.equality_ids))
    return bool(may_hold(_file(entry)))


def _without_deletes(table: LoadedTable, head: int | None) -> Collection[str]:
    live = live_files(table, head)
    return {one.normal for one in live.data if not live.index.for_data_file(one)}


def _rows(table: LoadedTable, entry: FileEntry, wanted: Wanted) -> int | None:
    """As it lies there."""
    keys = set(entry.equality_ids) if isinstance(entry, DeleteFileEntry) else wanted.columns
    if not wanted.columns <= keys or entry.encrypted or not _has_columns(table, entry, wanted):
        return None
    fields = [field for field in table.schema.fields if field.field_id in wanted.columns]
    scan = ArrowScan(table.metadata, table.io, Schema(*fields), wanted.condition)
    return int(scan.to_table([FileScanTask(_file(entry))]).num_rows)


def _has_columns(table: LoadedTable, entry: FileEntry, wanted: Wanted) -> bool:
    """Whether the file itself has them: of one that has not, the value is elsewhere (a partition, a
    default), or it has no field ids."""
    if entry.format != "PARQUET":
        return False
    with table.io.new_input(entry.path).open() as source:
        fields = pq.ParquetFile(source).schema_arrow
    ids = {int((one.metadata or {}).get(b"PARQUET:field_id", -1)) for one in fields}
    return wanted.columns <= ids


def _file(entry: FileEntry) -> DataFile:
    stats = entry.stats
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=entry.path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=entry.records,
        file_size_in_bytes=entry.bytes,
        value_counts=stats.value_counts if stats else None,
        null_value_counts=stats.null_counts if stats else None,
        nan_value_counts=stats.nan_counts if stats else None,
        lower_bounds=stats.lower if stats else None,
        upper_bounds=stats.upper if stats else None,
    )
    made.spec_id = entry.spec_id
    return made


def scopes_of(found: Collection[Holder]) -> Iterator[str]:
    """Partitions of which files that main still has hold such rows."""
    yield from sorted({one.partition for one in found if MAIN in one.refs})
