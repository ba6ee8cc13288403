"""What independent eyes see: Spark reads the rows, straight from the catalog; metadata is read and
counted anew."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import py4j.java_gateway
import py4j.protocol
from firnline_demo.session import writer_session
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.parts.tallies import FileTally
from firnline_iceberg.connection.connection import NAME, CatalogConnection
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.metadata.manifest_reader import Detail, read_manifest_list
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.outputs import write_ahead_list
from firnline_iceberg.outputs.names import task_stem
from firnline_iceberg.removal.removal import sent_path, shares_files
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.storage.paths import PREFIX
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import metadata_folders
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firnline_chaos.invariants import FileFacts, Seen
from firnline_chaos.stored_files import StoredFiles
from firnline_chaos.tables import NAMESPACE
from tests.kit.lake.rows import Node, Rows, value_of

LOOKS = 5


@dataclass
class Reader:
    """Reads the catalog without proxy and gateway."""

    spark: SparkSession
    tables: Tables
    files: StoredFiles
    _added: dict[int, frozenset[str]] = field(default_factory=dict)  # by snapshot, once read

    def load(self, name: str) -> LoadedTable:
        return self.tables.load_named((NAMESPACE,), name)

    def facts(
        self,
        name: str,
        committed: Collection[str],
        promise: Promise,
        ever: Iterable[Node] = (),
    ) -> FileFacts:
        """Of the table as it is; looked at again where an expiry ran meanwhile. `ever`: snapshots
        that it does not show and that somebody may still read: they count as retained."""
        for _ in range(LOOKS):
            table = self.load(name)
            hidden = self._files_ever(table, ever)
            found = _facts_or_gone(table, self.files, committed, promise, hidden)
            if not found.missing or self.load(name).metadata_location == table.metadata_location:
                break
        return found

    def _files_ever(self, table: LoadedTable, nodes: Iterable[Node]) -> frozenset[str]:
        """What each of these commits has brought: manifest list, manifests, files."""
        for node in nodes:
            if node.snapshot_id not in self._added:
                self._added[node.snapshot_id] = _brought(table, node)
        return frozenset(
            itertools.chain.from_iterable(self._added[one.snapshot_id] for one in nodes)
        )

    def rows(self, name: str, ref: str) -> Seen:
        """As Spark sees a ref, with how often."""
        for _ in range(LOOKS - 1):
            with suppress(Py4JJavaError):  # a query keeps the keys of its start
                return self._rows(name, ref)
        return self._rows(name, ref)

    def _rows(self, name: str, ref: str) -> Seen:
        where = f"{NAME}.{NAMESPACE}.{name}"
        self.spark.catalog.refreshTable(where)
        frame = self.spark.sql(f"SELECT * FROM {where} VERSION AS OF '{ref}'")
        return Counter(tuple(row) for row in frame.collect())


def shown(table: LoadedTable, rows: Rows) -> Seen:
    """The model's rows as a reader sees them; of a branch, too, with the table's schema of now."""
    columns = [field.field_id for field in table.schema.fields]
    return Counter(tuple(value_of(row, column) for column in columns) for row in rows)


def recount(table: LoadedTable, target_bytes: int) -> dict[Scope, FileTally]:
    """Counters of main from its manifests."""
    head = table.head_id("main")
    entries = [] if head is None else live_entries(table, head, Detail.COUNTS)
    return {part.scope: part.added for part in partition_changes(entries, target_bytes)}


@dataclass(frozen=True)
class Promise:
    """No write-ahead list was older at that moment; None = when one looks."""

    age_s: float
    at_ms: int | None = None

    def is_broken(self, dated_ms: int, deadline_ms: int) -> bool:
        """By a list of that date, of a task with that deadline."""
        at_ms = time.time() * 1000 if self.at_ms is None else self.at_ms
        return max(dated_ms + self.age_s * 1000, deadline_ms) < at_ms


def _brought(table: LoadedTable, node: Node) -> frozenset[str]:
    """Of what is gone already the path, so that it is missed."""
    found = {normal_path(node.manifest_list)}
    try:
        for manifest in read_manifest_list(table.io, node.manifest_list):
            if manifest.added_snapshot_id == node.snapshot_id:
                found.add(normal_path(manifest.path))
                found |= {entry.normal_path for entry in table.entries_of(manifest)}
    except MetadataFileGone:
        pass
    return frozenset(found)


def _facts_or_gone(
    table: LoadedTable,
    files: StoredFiles,
    committed: Collection[str],
    promise: Promise,
    hidden: Collection[str],
) -> FileFacts:
    try:
        return file_facts(table, files, committed, promise, hidden)
    except MetadataFileGone as gone:
        return FileFacts(missing=[str(gone)])


def file_facts(
    table: LoadedTable,
    files: StoredFiles,
    committed: Collection[str],
    promise: Promise,
    hidden: Collection[str] = (),
) -> FileFacts:
    """`committed`: ids of tasks whose commit was told of. Once replaced, their files are expiry's
    to remove, and one that was killed leaves some. `hidden`: files of snapshots that the table does
    not show, and that have to be there all the same."""
    live = {ref: _live(table, number.snapshot_id) for ref, number in table.metadata.refs.items()}
    retained = {
        normal_path(path)
        for snapshot in table.snapshots
        for path, _ in _live(table, snapshot.snapshot_id)
    }
    retained |= {*hidden}
    missing = [path for path in retained | _metadata(table) if not files.path(path).exists()]
    listed, overdue = _listed(table, promise)
    stems = tuple(task_stem(table.identity.uuid, task) for task in committed)
    unlisted = [
        path
        for path in _written(table, files)
        if path not in retained | listed and not path.rsplit("/", 1)[1].startswith(stems)
    ]
    return FileFacts(live, missing, unlisted, overdue)


def _metadata(table: LoadedTable) -> set[str]:
    """Manifest lists and manifests of all retained snapshots."""
    lists = {snapshot.manifest_list for snapshot in table.snapshots}
    manifests = {one.path for snapshot in table.snapshots for one in table.manifests_of(snapshot)}
    return lists | manifests


def _live(table: LoadedTable, snapshot_id: int) -> list[tuple[str, int | None]]:
    return [
        (entry.normal_path, entry.content_offset if isinstance(entry, DeleteFileEntry) else None)
        for entry in live_entries(table, snapshot_id, Detail.REFERENCES)
    ]


def _listed(table: LoadedTable, promise: Promise) -> tuple[set[str], list[str]]:
    """What write-ahead lists name, and those of them that are past their age."""
    paths: set[str] = set()
    overdue = []
    for place in write_ahead_list.list_places(table.io, metadata_folders(table)):
        try:
            found = write_ahead_list.read_list(table.io, place.path)
        except FileNotFoundError:
            continue
        paths |= {normal_path(path) for path in found.outputs}
        dated_ms = max(found.written_at_ms, place.stored_at_ms)  # a worker's clock may be behind
        if promise.is_broken(dated_ms, found.deadline_ms) and not _stays(table, place.path):
            overdue.append(place.path)
    return paths, overdue


def _stays(table: LoadedTable, path: str) -> bool:
    """Whether what was sent of this list is left to the catalog's own collection (0016)."""
    return shares_files(table) and bool(table.io.new_input(sent_path(path)).exists())


def _written(table: LoadedTable, files: StoredFiles) -> list[str]:
    """Files below the table's data that carry Firnline's name."""
    return list(files.below(f"{table.metadata.location.rstrip('/')}/data", f"{PREFIX}*"))


@contextmanager
def reader(
    catalog: CatalogConnection, class_path: str, files: StoredFiles, scratch: Path
) -> Iterator[Reader]:
    """A Spark session of our own for as long as the block lasts."""
    spark = writer_session(class_path, catalog.spark_settings(), scratch)
    # PySpark has put itself between py4j and everybody: it would look for the exceptions of our
    # writers' JVMs in Spark's.
    py4j.java_gateway.get_return_value = py4j.protocol.get_return_value
    try:
        yield Reader(spark, Tables(catalog, cache=FileCache()), files)
    finally:
        spark.stop()
