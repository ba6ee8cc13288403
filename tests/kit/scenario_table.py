"""One table of rows (id, v, p), its writers and its reader, on real Iceberg metadata and Parquet.

Writers' commits go straight to the catalog, never through Firnline. Iceberg's own generic reader in
the small JVM says what is visible.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.java.api import load_table
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.table_writer import FileWriter, Place, TableWriter, local, numbered

COLUMNS = numbered({"id": (1, pa.int64()), "v": (2, pa.int64()), "p": (3, pa.string())})
KEY = pa.schema([COLUMNS.field("id")])
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "long"},
        {"id": 3, "name": "p", "required": False, "type": "string"},
    ],
}
FILES = FileWriter()
Row = tuple[int, int]


def read(path: str) -> list[dict[str, Any]]:
    """Rows of a Parquet file."""
    rows: list[dict[str, Any]] = pq.read_table(local(path)).to_pylist()
    return rows


def create_table(
    jvm: Any, catalog: Any, name: TableName, partitioned: bool, **properties: str
) -> TableName:
    """An empty v2 table, partitioned by identity(p) or not; its name with its uuid."""
    iceberg = jvm.org.apache.iceberg
    schema = iceberg.SchemaParser.fromJson(json.dumps(SCHEMA))
    spec = iceberg.PartitionSpec.builderFor(schema)
    built = (spec.identity("p") if partitioned else spec).build()
    given = jvm.java.util.HashMap()
    for key, value in {"format-version": "2", **properties}.items():
        given.put(key, value)
    made = catalog.createTable(_identifier(jvm, name), schema, built, given)
    return TableName(str(made.uuid().toString()), name.namespace, name.name)


def _identifier(jvm: Any, name: TableName) -> Any:
    text = json.dumps({"namespace": name.namespace, "name": name.name})
    return jvm.org.apache.iceberg.catalog.TableIdentifierParser.fromJson(text)


@dataclass
class ScenarioTable:
    """The table. Methods named as SQL statements are one commit each."""

    jvm: Any
    catalog: Any
    tables: Tables
    name: TableName
    partitioned: bool
    spec_id: int = 0  # that files are written under

    @property
    def java(self) -> Any:
        return load_table(self.jvm, self.catalog, self.name)

    @property
    def loaded(self) -> LoadedTable:
        return self.tables.load(self.name)

    @property
    def head(self) -> int:
        return self.loaded.head(MAIN).snapshot_id

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.jvm, lambda: self.java)

    def scope(self, p: str | None = None) -> Scope:
        return Scope(self.spec_id, json.dumps([p]) if self.partitioned else "[]")

    def place(self, scope: Scope | None = None) -> Place:
        """Where files of the scope, or of the unpartitioned table, go."""
        scope = scope or self.scope()
        return scope.spec_id, scope.partition

    def new_path(self) -> str:
        return f"{self.loaded.metadata.location}/data/{uuid.uuid4().hex}.parquet"

    # ---- files, not committed

    def data(self, rows: Sequence[Row], p: str | None = None, path: str | None = None) -> str:
        """A data file, as JSON."""
        listed = [{"id": i, "v": v, "p": p} for i, v in rows]
        return FILES.data(path or self.new_path(), listed, COLUMNS, self.place(self.scope(p)))

    def key_deletes(self, ids: Sequence[int], scope: Scope | None = None) -> str:
        """An equality-delete file on `id`, as JSON."""
        rows = [{"id": one} for one in ids]
        return FILES.equality_deletes(self.new_path(), rows, KEY, self.place(scope))

    def row_deletes(self, data: str, positions: Sequence[int], scope: Scope | None = None) -> str:
        """A position-delete file of one data file, as JSON."""
        pairs = [(data, one) for one in positions]
        return FILES.position_deletes(self.new_path(), pairs, self.place(scope), data)

    # ---- commits of writers

    def append(self, *rows: Row, p: str | None = None, ref: str = MAIN) -> str:
        text = self.data(rows, p)
        self.writer.append(text, ref=ref)
        return path_of(text)

    def delete_ids(self, *ids: int, scope: Scope | None = None, ref: str = MAIN) -> str:
        """An equality delete on `id`."""
        return self._delete(self.key_deletes(ids, scope), ref)

    def upsert(self, row: Row) -> None:
        """A row and an equality delete of its id, in one commit."""
        self.writer.row_delta([self.data([row])], [self.key_deletes([row[0]])])

    def delete_rows(self, data: str, *positions: int, scope: Scope | None = None) -> str:
        """A position delete of one data file, referenced."""
        return self._delete(self.row_deletes(data, positions, scope))

    def delete_rows_of(self, rows: Sequence[tuple[str, int]], scope: Scope | None = None) -> str:
        """One position delete of the whole partition, on rows of several data files."""
        return self._delete(FILES.position_deletes(self.new_path(), rows, self.place(scope)))

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
        old = [d for d in live_files(self.loaded, self.head).deletes if d.referenced_data_file]
        said = {row["pos"] for d in old for row in read(d.path)} | set(positions)
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
        entry = next(one for one in live_files(self.loaded, self.head).data if one.path == data)
        self.writer.delete(entry)

    def expire_all_but_heads(self) -> None:
        now = int(time.time() * 1000) + 60_000
        self.java.expireSnapshots().expireOlderThan(now).retainLast(1).commit()

    def roll_back(self, snapshot_id: int) -> None:
        self.java.manageSnapshots().rollbackTo(snapshot_id).commit()

    def branch(self, name: str) -> None:
        self.java.manageSnapshots().createBranch(name).commit()

    def drop(self) -> None:
        self.catalog.dropTable(_identifier(self.jvm, self.name))

    # ---- readers

    def rows(self, ref: str = MAIN) -> list[Row]:
        """Visible rows by Iceberg's generic reader, sorted."""
        table = self.java
        snapshot = table.snapshot(ref).snapshotId()
        reader = self.jvm.org.apache.iceberg.data.IcebergGenerics.read(table)
        records = reader.useSnapshot(snapshot).build().iterator()
        found = []
        while records.hasNext():
            record = records.next()
            found.append((record.getField("id"), record.getField("v")))
        return sorted(found)

    def live_deletes(self, ref: str = MAIN) -> set[str]:
        table = self.loaded
        return {entry.path for entry in live_files(table, table.head_id(ref)).deletes}

    def deletes_of(self, kind: DeleteKind) -> list[DeleteFileEntry]:
        """Those of the head."""
        return [one for one in live_files(self.loaded, self.head).deletes if one.kind is kind]

    def live_data(self, ref: str = MAIN) -> set[str]:
        table = self.loaded
        return {entry.path for entry in live_files(table, table.head_id(ref)).data}


def path_of(text: str) -> str:
    """Of a file's JSON."""
    return str(json.loads(text)["file-path"])
