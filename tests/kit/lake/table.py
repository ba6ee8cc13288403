"""One table of rows (id, v, p), its writers and its reader, on real Iceberg metadata and Parquet.

Writers' commits go straight to the catalog, never through Firnline. Iceberg's own generic reader in
the small JVM says what is visible.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_deletes.deletes import vectors
from firnline_domain.identity import MAIN, Scope, TableName, task_id
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.java.api import load_table
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.lake import rows as model
from tests.kit.lake.rows import value_of
from tests.kit.lake.writer import FileWriter, Place, TableWriter, local, numbered, store_locally

COLUMNS = ((1, "id", "long"), (2, "v", "long"), (3, "p", "string"))
ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string()}
KEY = numbered({"id": (1, pa.int64())})
Columns = Sequence[tuple[int, str, str]]  # field id, name, type
Row = tuple[int, int]  # id, v
Shown = tuple[Any, Any, Any]  # id, v, p; None for NULL
Mark = tuple[str, int]  # data file, position
_SHOWN = re.compile(r"Record\((-?\d+|null), (-?\d+|null), ([^,)]+)")
_orders = itertools.count(1)


def read(path: str) -> list[dict[str, Any]]:
    """Rows of a Parquet file."""
    rows: list[dict[str, Any]] = pq.read_table(local(path)).to_pylist()
    return rows


def create_table(
    jvm: Any,
    catalog: Any,
    name: TableName,
    partitioned: bool,
    columns: Columns = COLUMNS,
    /,
    **properties: str,
) -> TableName:
    """An empty v2 table, partitioned by identity(p) or not; its name with its uuid."""
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, name, kind in columns
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    by_p = {"name": "p", "transform": "identity", "source-id": 3, "field-id": 1000}
    return create(jvm, catalog, name, schema, [by_p] * partitioned, properties)


def create(
    jvm: Any,
    catalog: Any,
    name: TableName,
    schema: Mapping[str, Any],
    by: Sequence[Mapping[str, Any]],
    properties: Mapping[str, str],
) -> TableName:
    """An empty table, v2 by default; its name with its uuid. `schema`, `by`: as in Iceberg's JSON,
    the fields of the partition spec."""
    iceberg, given = jvm.org.apache.iceberg, jvm.java.util.HashMap()
    java = iceberg.SchemaParser.fromJson(json.dumps(schema))
    spec = json.dumps({"spec-id": 0, "fields": by})
    for key, value in {"format-version": "2", **properties}.items():
        given.put(key, value)
    spec = iceberg.PartitionSpecParser.fromJson(java, spec)
    made = catalog.createTable(identifier(jvm, name), java, spec, given)
    return TableName(str(made.uuid().toString()), name.namespace, name.name)


def identifier(jvm: Any, name: TableName) -> Any:
    """Java's name of a table."""
    text = json.dumps({"namespace": name.namespace, "name": name.name})
    return jvm.org.apache.iceberg.catalog.TableIdentifierParser.fromJson(text)


def read_rows(jvm: Any, java: Any, snapshot_id: int) -> list[Shown]:
    """The oracle: (id, v, p) of a snapshot by Iceberg's generic reader, sorted. As one string:
    py4j asks the JVM for every value of every row."""
    found = jvm.org.apache.iceberg.data.IcebergGenerics.read(java).useSnapshot(snapshot_id).build()
    collect = jvm.org.apache.iceberg.relocated.com.google.common.collect
    text = str(collect.Iterables.toString(found))
    found.close()
    shown = [(_number(k), _number(v), _text(p)) for k, v, p in _SHOWN.findall(text)]
    return sorted(shown, key=lambda row: tuple((one is None, one) for one in row))


def _number(text: str) -> int | None:
    return None if text == "null" else int(text)


def _text(text: str) -> str | None:
    return None if text == "null" else text


def rewrite_order(
    table: TableName,
    head: int,
    scope: Scope,
    ref: str = MAIN,
    action: str = "compact",
    reason: str = "small_files",
    **more: Any,
) -> RewriteFiles:
    """What a planner sends; no two are the same task."""
    text, at_ms = f"{scope.spec_id}{scope.partition}", int(time.time() * 1000)
    task = task_id(table.key, ref, text, action, next(_orders))
    due = {"deadline_ms": at_ms + 600_000, "run_ms": 600_000, **more}
    return RewriteFiles(task, table, ref, scope, action, reason, head, 1, at_ms, **due)


@dataclass
class Table:
    """The table. Methods named as SQL statements are one commit each."""

    jvm: Any
    catalog: Any
    tables: Tables
    name: TableName
    partitioned: bool = False
    spec_id: int = 0  # that files are written under
    lineage: model.Lineage = field(default_factory=model.Lineage)

    @property
    def java(self) -> Any:
        return load_table(self.jvm, self.catalog, self.name)

    @property
    def loaded(self) -> LoadedTable:
        return self.tables.load(self.name)

    @property
    def columns(self) -> Columns:
        """Of the files that its writers write."""
        return COLUMNS

    @property
    def head(self) -> int:
        return self.loaded.head(MAIN).snapshot_id

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.jvm, lambda: self.java)

    @property
    def files(self) -> FileWriter:
        return FileWriter(self.store)

    def live_at(self, snapshot_id: int) -> LiveFiles:
        return live_files(self.loaded, snapshot_id)

    def live(self, ref: str = MAIN) -> LiveFiles:
        return self.live_at(self.loaded.head(ref).snapshot_id)

    def scope(self, p: str | None = None) -> Scope:
        return Scope(self.spec_id, json.dumps([p]) if self.partitioned else "[]")

    def place(self, scope: Scope | None = None) -> Place:
        """Where files of the scope, or of the unpartitioned table, go."""
        scope = scope or self.scope()
        return scope.spec_id, scope.partition

    # ---- storage

    def store(self, path: str, body: bytes) -> None:
        """A file, on this machine's disk or by the keys that come with the table."""
        if path.startswith(("file:", "/")):
            store_locally(path, body)
        else:
            with self.loaded.io.new_output(path).create(overwrite=True) as sink:
                sink.write(body)

    def get(self, path: str) -> bytes:
        """A file's bytes."""
        if path.startswith(("file:", "/")):
            return local(path).read_bytes()
        with self.loaded.io.new_input(path).open() as source:
            return bytes(source.read())

    def exists(self, path: str | None) -> bool:
        """A file of the storage."""
        assert path is not None
        return self.loaded.io.new_input(path).exists()

    def new_path(self, name: str = "") -> str:
        name = name or f"{uuid.uuid4().hex}.parquet"
        return f"{self.loaded.metadata.location}/data/{name}"

    # ---- files, not committed

    def data_file(self, rows: Sequence[model.Row], path: str | None = None) -> str:
        """A data file of rows of one place, as JSON."""
        columns = self.columns
        listed = [{name: value_of(row, number) for number, name, _ in columns} for row in rows]
        schema = numbered({name: (number, ARROW[kind]) for number, name, kind in columns})
        return self.files.data(path or self.new_path(), listed, schema, rows[0].place)

    def data(self, rows: Iterable[Row], p: str | None = None, path: str | None = None) -> str:
        """A data file, as JSON."""
        place = self.place(self.scope(p))
        return self.data_file([model.Row(v, i, p, place) for i, v in rows], path)

    def key_file(self, keys: Sequence[int | None], place: Place, path: str | None = None) -> str:
        """An equality-delete file on `id`, as JSON."""
        rows = [{"id": one} for one in keys]
        return self.files.equality_deletes(path or self.new_path(), rows, KEY, place)

    def key_deletes(self, ids: Sequence[int], scope: Scope | None = None) -> str:
        """See `key_file`."""
        return self.key_file(ids, self.place(scope))

    def position_file(self, marks: Sequence[Mark], place: Place, about: str | None = None) -> str:
        """A position-delete file, as JSON. `about`: of this data file alone, and says so."""
        return self.files.position_deletes(self.new_path(), marks, place, about)

    def vector_file(self, data: DataFileEntry, positions: Iterable[int]) -> str:
        """A deletion vector of one data file, as JSON."""
        return self.files.deletion_vector(
            self.new_path(f"{uuid.uuid4().hex}.puffin"), data, positions
        )

    def row_deletes(self, data: str, positions: Sequence[int], scope: Scope | None = None) -> str:
        """A position-delete file of one data file, as JSON."""
        return self.position_file([(data, one) for one in positions], self.place(scope), data)

    # ---- what files say

    def rows_in(self, data: DataFileEntry) -> Sequence[model.Row]:
        """Of a data file, by position."""
        place = data.spec_id, data.partition
        found = pq.read_table(BytesIO(self.get(data.path))).to_pylist()
        return [model.Row(row["v"], row["id"], row["p"], place) for row in found]

    def keys_in(self, delete: DeleteFileEntry) -> Sequence[int | None]:
        """Of an equality delete."""
        return [row["id"] for row in pq.read_table(BytesIO(self.get(delete.path))).to_pylist()]

    def marks_of(self, delete: DeleteFileEntry) -> list[Mark]:
        """Of a position-delete file or a vector."""
        body = self.get(delete.path)
        if delete.kind is DeleteKind.POSITION:
            found = pq.read_table(BytesIO(body)).to_pylist()
            return [(row["file_path"], row["pos"]) for row in found]
        offset, size = delete.content_offset or 0, delete.content_size or 0
        blob = body[offset : offset + size]
        positions = vectors.decode_positions(blob, delete.path).tolist()
        return [(delete.referenced_data_file or "", one) for one in positions]

    # ---- commits of writers

    def append(self, *rows: Row, p: str | None = None, ref: str = MAIN) -> str:
        text = self.data(rows, p)
        self.writer.append(text, ref=ref)
        return path_of(text)

    def fill(self, files: int = 4, p: str | None = None) -> None:
        """Rows (0, 0), (1, 1) and so on, each in a file of its own."""
        for key in range(files):
            self.append((key, key), p=p)

    def delete_ids(self, *ids: int, scope: Scope | None = None, ref: str = MAIN) -> str:
        """An equality delete on `id`."""
        return self._delete(self.key_deletes(ids, scope), ref)

    def upsert(self, *rows: Row, p: str | None = None) -> None:
        """Rows and an equality delete of their ids, in one commit."""
        keys = self.key_deletes([key for key, _ in rows], self.scope(p))
        self.writer.row_delta([self.data(rows, p)], [keys])

    def delete_rows(self, data: str, *positions: int, scope: Scope | None = None) -> str:
        """A position delete of one data file, referenced."""
        return self._delete(self.row_deletes(data, positions, scope))

    def delete_rows_of(self, rows: Sequence[Mark], scope: Scope | None = None) -> str:
        """One position delete of the whole partition, on rows of several data files."""
        return self._delete(self.position_file(rows, self.place(scope)))

    def delete_as_engines_do(self, go: threading.Event, read: threading.Event) -> int:
        """A row of the table's one file, which must still be there at the commit, after `go`; the
        snapshot that was `read`."""
        table = self.loaded
        read.set()
        head = table.head(MAIN).snapshot_id
        (data,) = {entry.path for entry in live_files(table, head).data}
        text = self.row_deletes(data, [7])
        assert go.wait(30)
        self.writer.row_delta(deletes=[text], read_at=head, must_exist=[data])
        return head

    def merge_deletes(self, data: str, *positions: int) -> str:
        """As Spark's DELETE does: a file's position deletes and these, in one new file, which takes
        the place of the old ones."""
        old = [d for d in self.live().deletes if d.referenced_data_file]
        said = {position for one in old for _, position in self.marks_of(one)} | set(positions)
        text = self.row_deletes(data, sorted(said))
        self.writer.row_delta(deletes=[text], removed=old)
        return path_of(text)

    def mark_rows(self, data: str, *positions: int) -> None:
        """A deletion vector, by Iceberg's own writer, on top of the one that is there."""
        self.writer.mark_rows(data, *positions)

    def _delete(self, text: str, ref: str = MAIN) -> str:
        self.writer.row_delta(deletes=[text], ref=ref)
        return path_of(text)

    def remove(self, data: str) -> None:
        self.writer.delete(next(one for one in self.live().data if one.path == data))

    def expire_all_but_heads(self) -> None:
        now = int(time.time() * 1000) + 60_000
        self.java.expireSnapshots().expireOlderThan(now).retainLast(1).commit()

    def roll_back(self, snapshot_id: int) -> None:
        self.java.manageSnapshots().rollbackTo(snapshot_id).commit()

    def branch(self, name: str) -> None:
        self.java.manageSnapshots().createBranch(name).commit()

    def drop(self) -> None:
        self.catalog.dropTable(identifier(self.jvm, self.name))

    # ---- what the planner says, and what readers see

    def order(self, p: str | None = None, action: str = "compact") -> RewriteFiles:
        return rewrite_order(self.name, self.head, self.scope(p), action=action)

    def shown_at(self, snapshot_id: int) -> list[Shown]:
        """Rows of a snapshot, sorted."""
        return read_rows(self.jvm, self.java, snapshot_id)

    def rows(self, ref: str = MAIN) -> list[Row]:
        """Visible rows, sorted."""
        head = self.java.snapshot(ref)
        return [] if head is None else [(i, v) for i, v, _ in self.shown_at(head.snapshotId())]

    def live_deletes(self, ref: str = MAIN) -> set[str]:
        return {entry.path for entry in self.live(ref).deletes}

    def deletes_of(self, kind: DeleteKind) -> list[DeleteFileEntry]:
        """Those of the head."""
        return [one for one in self.live().deletes if one.kind is kind]

    def live_data(self, ref: str = MAIN) -> set[str]:
        return {entry.path for entry in self.live(ref).data}


def path_of(text: str) -> str:
    """Of a file's JSON."""
    return str(json.loads(text)["file-path"])
