"""The table under the hands of its writers; what they write is kept in mind, so that it need not be
read again. Every commit goes to Iceberg's own Java API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_deletes.deletes import vectors
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.storage.paths import PREFIX
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_schedules.ground import NAMESPACE, Ground
from firnline_schedules.rows import MAIN, Model, Place, Row, Rows
from tests.kit.table_writer import FileWriter, TableWriter, numbered

AUDIT = "audit"
COLUMNS = numbered({"id": (1, pa.int64()), "v": (2, pa.int64()), "p": (3, pa.string())})
KEY = pa.schema([COLUMNS.field("id")])
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, name, kind in ((1, "id", "long"), (2, "v", "long"), (3, "p", "string"))
    ],
}
_SHOWN = re.compile(r"Record\((-?\d+), (-?\d+), (\w+)")
Shown = tuple[int, int, str]  # key, version, p
Mark = tuple[str, int]  # data file, position


@dataclass(frozen=True)
class Kind:
    """What sort of table."""

    version: int
    partitioned: bool

    @property
    def name(self) -> str:
        return f"v{self.version}{'p' if self.partitioned else ''}"

    @property
    def scope(self) -> Scope:
        """Of partition a, where there are partitions."""
        return Scope(1, '["a"]') if self.partitioned else Scope(0, "[]")


KINDS = {one.name: one for one in (Kind(v, p) for v in (2, 3) for p in (False, True))}


@dataclass(frozen=True)
class Memory:
    """What a schedule has to know of the files it wrote. Values: never changed in place."""

    model: Model = field(default_factory=Model)
    data: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    keys: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of equality deletes
    versions: int = 0
    files: int = 0


class Table:
    """One table in the state that it was last set to."""

    def __init__(self, ground: Ground, kind: Kind) -> None:
        self.ground, self.kind, self.jvm = ground, kind, ground.jvm
        self.memory = Memory()
        self.files_of = FileWriter(ground.storage.put)
        self.writer = TableWriter(ground.jvm, lambda: self.java)
        self._still: LoadedTable | None = None
        self._live: dict[int, LiveFiles] = {}
        self._seen: dict[int, list[Shown]] = {}
        self.name = TableName(self._made(), ("lab",), kind.name)

    def _made(self) -> str:
        iceberg = self.jvm.org.apache.iceberg
        schema = iceberg.SchemaParser.fromJson(json.dumps(SCHEMA))
        given = self.jvm.java.util.HashMap()
        given.put("format-version", str(self.kind.version))
        found = self.ground.catalog.createTable(
            self.ground.identifier(self.kind.name),
            schema,
            iceberg.PartitionSpec.unpartitioned(),
            given,
        )
        if self.kind.partitioned:
            found.updateSpec().addField("p").commit()
        return str(found.uuid().toString())

    @property
    def java(self) -> Any:
        return self.ground.java_table(self.kind.name)

    @property
    def loaded(self) -> LoadedTable:
        return self._still or self.ground.load(self.name)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nobody commits meanwhile: the catalog is asked once."""
        self._still = self.loaded
        try:
            yield
        finally:
            self._still = None

    def live(self, ref: str = MAIN) -> LiveFiles:
        return self.live_at(self.loaded.head(ref).snapshot_id)

    def live_at(self, snapshot_id: int) -> LiveFiles:
        """A snapshot never changes: read once."""
        if snapshot_id not in self._live:
            self._live[snapshot_id] = live_files(self.loaded, snapshot_id)
        return self._live[snapshot_id]

    def rows(self, ref: str = MAIN) -> Rows:
        """As the model has them."""
        return self.memory.model.refs.get(ref, frozenset())

    def files(self, p: str = "a", ref: str = MAIN) -> list[DataFileEntry]:
        """Live data files of a partition that show a row, oldest first."""
        seen = self.rows(ref)
        found = [
            one
            for one in self.live(ref).data
            if any(row in seen and row.p == p for row in self.memory.data[one.path])
        ]
        return sorted(found, key=lambda one: (one.sequence_number, one.path))

    # ---- files

    def path(self, name: str) -> str:
        self.memory = replace(self.memory, files=self.memory.files + 1)
        number = "" if name.startswith(PREFIX) else f"{self.memory.files:03d}-"
        return f"mem:/w/{NAMESPACE}/{self.kind.name}/data/{number}{name}"

    def new_rows(self, keys: Iterable[int], p: str, place: Place) -> list[Row]:
        first = self.memory.versions
        made = [Row(first + n, key, p, place) for n, key in enumerate(keys)]
        self.memory = replace(self.memory, versions=first + len(made))
        return made

    def data_file(self, rows: Sequence[Row], name: str = "data.parquet") -> str:
        """Written, not committed: its JSON."""
        path, place = self.path(name), rows[0].place
        self.memory = replace(self.memory, data={**self.memory.data, path: tuple(rows)})
        found = [{"id": r.key, "v": r.version, "p": r.p} for r in rows]
        return self.files_of.data(path, found, COLUMNS, place)

    def key_file(self, keys: Sequence[int], place: Place) -> str:
        path = self.path("keys.parquet")
        self.memory = replace(self.memory, keys={**self.memory.keys, path: tuple(keys)})
        return self.files_of.equality_deletes(path, [{"id": key} for key in keys], KEY, place)

    def position_file(self, marks: Sequence[Mark], place: Place, about: str | None) -> str:
        return self.files_of.position_deletes(self.path("pos.parquet"), marks, place, about)

    def vector_file(self, data: DataFileEntry, positions: Iterable[int]) -> str:
        return self.files_of.deletion_vector(self.path("dv.puffin"), data, positions)

    def marks_of(self, delete: DeleteFileEntry) -> list[Mark]:
        """What a position-delete file or a vector says."""
        body = self.ground.storage.get(delete.path)
        if delete.kind is DeleteKind.POSITION:
            said = pq.read_table(BytesIO(body)).to_pylist()
            return [(row["file_path"], row["pos"]) for row in said]
        offset, size = delete.content_offset or 0, delete.content_size or 0
        blob = body[offset : offset + size]
        return [
            (delete.referenced_data_file or "", int(one))
            for one in vectors.decode_positions(blob, delete.path)
        ]

    # ---- commits of writers

    def landed(self, rows: Iterable[Row], ref: str = MAIN) -> None:
        """A writer has committed: that is what the branch shows now."""
        head = self.loaded.head(ref).snapshot_id
        self.memory = replace(self.memory, model=self.memory.model.moved(ref, head, rows))

    def row_delta(
        self, add: Sequence[str] = (), delete: Sequence[str] = (), ref: str = MAIN
    ) -> None:
        self.writer.row_delta(add, delete, ref=ref)

    def replace_deletes(self, add: str, remove: Iterable[DeleteFileEntry]) -> None:
        head = self.java.currentSnapshot().snapshotId()
        self.writer.row_delta(deletes=[add], removed=remove, read_at=head)

    def expire(self) -> None:
        """All snapshots but the heads; their files are gone."""
        later = int(time.time() * 1000) + 60_000
        change = self.java.expireSnapshots().expireOlderThan(later).retainLast(1)
        change.deleteWith(Gone(self.ground.storage.gone)).commit()

    def back_to(self, snapshots: set[int]) -> None:
        """Forget what was read of the others: no state has them any more."""
        for found in (self._live, self._seen):
            for snapshot_id in found.keys() - snapshots:
                del found[snapshot_id]

    @property
    def known(self) -> set[int]:
        """Snapshots that were read."""
        return {*self._live, *self._seen}

    # ---- the oracle

    def seen(self, snapshot_id: int) -> list[Shown]:
        """Rows by Iceberg's generic reader, sorted; of a snapshot, read once."""
        if snapshot_id not in self._seen:
            self._seen[snapshot_id] = self._read(snapshot_id)
        return self._seen[snapshot_id]

    def _read(self, snapshot_id: int) -> list[Shown]:
        generics = self.jvm.org.apache.iceberg.data.IcebergGenerics
        found = generics.read(self.java).useSnapshot(snapshot_id).build()
        collect = self.jvm.org.apache.iceberg.relocated.com.google.common.collect
        text = str(collect.Iterables.toString(found))
        return sorted((int(k), int(v), p) for k, v, p in _SHOWN.findall(text))


class Gone:
    """A Java consumer of paths."""

    def __init__(self, paths: set[str]) -> None:
        self._paths = paths

    def accept(self, path: str) -> None:
        self._paths.add(str(path))

    class Java:
        implements = ("java.util.function.Consumer",)
