"""A table under the hands of its writers and of a worker, on real Iceberg metadata and Parquet.

Rows are (id, v); Iceberg's own generic reader in the small JVM is the oracle of what is visible.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.logs import Log
from firnline_committer.handlers import Handlers
from firnline_committer.latching import catalog
from firnline_committer.outputs import Outputs
from firnline_committer.repairs import Repairs
from firnline_committer.swapping import Swapper
from firnline_deletes import row_map, vectors
from firnline_domain.commits import conflicts
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    Mode,
    OutputFile,
    RewriteFinished,
    RewriteGroup,
)
from firnline_domain.values import replace
from firnline_gateway.bootstrap import running as gateway_running
from firnline_gateway.settings import Settings as GatewaySettings
from firnline_iceberg.commits import JavaCommits
from firnline_iceberg.files import DeleteFileEntry
from firnline_iceberg.java import content_file, load_table, removal_json, rest_catalog
from firnline_iceberg.jvm import IcebergJvm
from firnline_iceberg.naming import Run
from firnline_iceberg.planning import PlannedFile, live_files
from firnline_iceberg.tables import LoadedTable, Tables
from firnline_local.ports import free_port

from tests.meddling import Meddler

COLUMNS = {"id": (1, pa.int64()), "v": (2, pa.int64()), "p": (3, pa.string())}
POSITIONS = {"file_path": (2147483546, pa.string()), "pos": (2147483545, pa.int64())}
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "long"},
        {"id": 3, "name": "p", "required": False, "type": "string"},
    ],
}
Row = tuple[int, int]


def parquet(path: str, columns: dict[str, tuple[int, pa.DataType]], rows: list[Any]) -> int:
    """Write columns with field ids; bytes of the file."""
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for name, (number, kind) in columns.items()
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
    local = Path(path.removeprefix("file:"))
    local.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, local, store_schema=False)
    return local.stat().st_size


def read(path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path.removeprefix("file:")).to_pylist()
    return rows


@dataclass
class Workshop:
    """One table. Writers' commits go straight to the catalog, never through the committer."""

    jvm: Any
    catalog: Any
    tables: Tables
    name: TableName
    partitioned: bool
    spec_id: int = 0  # that files are written under
    run: Run | None = None  # of the last rewrite
    written: int = 0  # outputs

    @property
    def java(self) -> Any:
        return load_table(self.jvm, self.catalog, self.name)

    @property
    def loaded(self) -> LoadedTable:
        return self.tables.load(self.name)

    @property
    def head(self) -> int:
        return self.loaded.head(MAIN).snapshot_id

    def scope(self, p: str | None = None) -> Scope:
        return Scope(self.spec_id, json.dumps([p]) if self.partitioned else "[]")

    # ---- writers

    def content(
        self, scope: Scope, path: str, size: int, rows: int, kind: str, **more: object
    ) -> str:
        body = {
            "spec-id": scope.spec_id, "content": kind, "file-path": path,
            "file-format": "parquet", "partition": json.loads(scope.partition),
            "file-size-in-bytes": size, "record-count": rows, **more,
        }  # fmt: skip
        return json.dumps(body)

    def new_path(self) -> str:
        return f"{self.loaded.metadata.location}/data/{uuid.uuid4().hex}.parquet"

    def data(self, rows: Sequence[Row], p: str | None = None, path: str | None = None) -> str:
        """A data file, as JSON; not committed."""
        path = path or self.new_path()
        size = parquet(path, COLUMNS, [{"id": i, "v": v, "p": p} for i, v in rows])
        return self.content(self.scope(p), path, size, len(rows), "data")

    def append(self, *rows: Row, p: str | None = None, ref: str = MAIN) -> str:
        text, table = self.data(rows, p), self.java
        change = table.newFastAppend().appendFile(content_file(self.jvm, table, text))
        change.toBranch(ref).commit()
        return str(json.loads(text)["file-path"])

    def delete_ids(self, *ids: int, scope: Scope | None = None, ref: str = MAIN) -> str:
        """An equality delete on `id`."""
        path = self.new_path()
        size = parquet(path, {"id": COLUMNS["id"]}, [{"id": one} for one in ids])
        text = self.content(
            scope or self.scope(), path, size, len(ids), "equality-deletes", **{"equality-ids": [1]}
        )
        self._row_delta(text, ref)
        return path

    def upsert(self, row: Row) -> None:
        """A row and an equality delete of its id, in one commit."""
        path = self.new_path()
        size = parquet(path, {"id": COLUMNS["id"]}, [{"id": row[0]}])
        ids = {"equality-ids": [1]}
        text = self.content(self.scope(), path, size, 1, "equality-deletes", **ids)
        table = self.java
        change = table.newRowDelta().addRows(content_file(self.jvm, table, self.data([row])))
        change.addDeletes(content_file(self.jvm, table, text)).commit()

    def delete_rows(self, data: str, *positions: int, scope: Scope | None = None) -> str:
        """A position delete of one data file, referenced."""
        path = self.new_path()
        size = parquet(path, POSITIONS, [{"file_path": data, "pos": one} for one in positions])
        text = self.content(
            scope or self.scope(), path, size, len(positions), "position-deletes",
            **{"referenced-data-file": data},
        )  # fmt: skip
        self._row_delta(text, MAIN)
        return path

    def delete_as_engines_do(self, go: threading.Event, read: threading.Event) -> int:
        """A row of the table's one file, which must still be there at the commit, after `go`; the
        snapshot that was `read`."""
        table = self.loaded
        read.set()
        head = table.head(MAIN).snapshot_id
        (data,) = {entry.path for entry in live_files(table, head).data}
        path = self.new_path()
        size = parquet(path, POSITIONS, [{"file_path": data, "pos": 7}])
        about = {"referenced-data-file": data}
        text = self.content(self.scope(), path, size, 1, "position-deletes", **about)
        assert go.wait(30)
        java, paths = self.java, self.jvm.java.util.ArrayList()
        paths.add(data)
        change = java.newRowDelta().addDeletes(content_file(self.jvm, java, text))
        change.validateFromSnapshot(head).validateDataFilesExist(paths).commit()
        return head

    def delete_rows_of(self, rows: Sequence[tuple[str, int]], scope: Scope | None = None) -> str:
        """One position delete of the whole partition, on rows of several data files."""
        path = self.new_path()
        said = [{"file_path": data, "pos": pos} for data, pos in sorted(rows)]
        size = parquet(path, POSITIONS, said)
        text = self.content(scope or self.scope(), path, size, len(rows), "position-deletes")
        self._row_delta(text, MAIN)
        return path

    def merge_deletes(self, data: str, *positions: int) -> str:
        """As Spark's DELETE does: a file's position deletes and these, in one new file, which takes
        the place of the old ones."""
        old = [d for d in live_files(self.loaded, self.head).deletes if d.referenced_data_file]
        said = {row["pos"] for d in old for row in read(d.path)} | set(positions)
        path = self.new_path()
        size = parquet(path, POSITIONS, [{"file_path": data, "pos": one} for one in sorted(said)])
        about = {"referenced-data-file": data}
        text = self.content(self.scope(), path, size, len(said), "position-deletes", **about)
        table = self.java
        change = table.newRowDelta().addDeletes(content_file(self.jvm, table, text))
        for delete in old:
            change.removeDeletes(content_file(self.jvm, table, removal_json(delete, 0)))
        change.commit()
        return path

    def mark_rows(self, data: str, *positions: int) -> None:
        """A deletion vector, by Iceberg's own writer, on top of the one that is there."""
        table, iceberg = self.java, self.jvm.org.apache.iceberg
        files = iceberg.io.OutputFileFactory.builderFor(table, 1, 1)
        files = files.format(iceberg.FileFormat.PUFFIN).build()
        old = self._vector_of(table, data)
        loaded = Loads(None if old is None else self._index(table, old))
        writer = iceberg.deletes.BaseDVFileWriter(files, loaded)
        for position in positions:
            writer.delete(data, position, table.spec(), None)
        writer.close()
        change = table.newRowDelta().validateFromSnapshot(table.currentSnapshot().snapshotId())
        for file in writer.result().deleteFiles():
            change.addDeletes(file)
        for file in writer.result().rewrittenDeleteFiles():
            change.removeDeletes(file)
        change.commit()

    def _vector_of(self, table: Any, data: str) -> Any:
        for task in table.newScan().planFiles().iterator():
            for delete in task.deletes() if task.file().location() == data else ():
                if delete.referencedDataFile() == data:
                    return delete
        return None

    def _index(self, table: Any, vector: Any) -> Any:
        loader = self.jvm.org.apache.iceberg.data.BaseDeleteLoader(InputFiles(table.io()))
        return loader.loadPositionDeletes([vector], vector.referencedDataFile())

    def _row_delta(self, text: str, ref: str) -> None:
        table = self.java
        change = table.newRowDelta().addDeletes(content_file(self.jvm, table, text))
        change.toBranch(ref).commit()

    def remove(self, data: str) -> None:
        entry = next(one for one in live_files(self.loaded, self.head).data if one.path == data)
        table, change = self.java, self.java.newDelete()
        fields = len(self.loaded.spec(entry.spec_id).fields)
        change.deleteFile(content_file(self.jvm, table, removal_json(entry, fields)))
        change.commit()

    def expire_all_but_heads(self) -> None:
        now = int(time.time() * 1000) + 60_000
        self.java.expireSnapshots().expireOlderThan(now).retainLast(1).commit()

    def roll_back(self, snapshot_id: int) -> None:
        self.java.manageSnapshots().rollbackTo(snapshot_id).commit()

    def branch(self, name: str) -> None:
        self.java.manageSnapshots().createBranch(name).commit()

    def drop(self) -> None:
        text = json.dumps({"namespace": self.name.namespace, "name": self.name.name})
        parser = self.jvm.org.apache.iceberg.catalog.TableIdentifierParser
        self.catalog.dropTable(parser.fromJson(text))

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

    # ---- a right worker, one row at a time

    def rewrite(
        self,
        p: str | None = None,
        groups: int = 1,
        stamp: int | None = None,
        ref: str = MAIN,
        task: str | None = None,
        attempt: int = 1,
    ) -> RewriteFinished:
        """Rewrite the scope's files of data sequence number <= stamp (the start's by default)."""
        table = self.loaded
        start = table.head(ref)
        number = stamp if stamp is not None else start.sequence_number or 0
        live = live_files(table, start.snapshot_id)
        files = [
            PlannedFile(one.data, tuple(d for d in one.deletes if applied_by(d, number)))
            for one in live.files_of_scope(self.scope(p))
            if one.data.sequence_number <= number
        ]
        deletes = {delete.key: delete for one in files for delete in one.deletes}
        name = task or uuid.uuid4().hex
        self.run = Run(self.name.uuid, name, attempt, uuid.uuid4().hex[:8])
        made = [self._group(files[n::groups], p) for n in range(groups) if files[n::groups]]
        return RewriteFinished(
            task_id=name, table=self.name, ref=ref, scope=self.scope(p),
            attempt=attempt, worker="w", mode=Mode.NATIVE, start_snapshot_id=start.snapshot_id,
            start_sequence_number=number, schema_id=table.form.schema_id, groups=tuple(made),
            applied_deletes=tuple(
                AppliedDelete(d.path, d.kind, d.sequence_number, d.scope, d.equality_ids)
                for d in deletes.values()
            ),
            output_list=None, ordered_at_ms=1, started_at_ms=2, first_byte_at_ms=3,
            finished_at_ms=4, row_map=self._row_map(files),
            format_version=table.format_version, last_column_id=table.metadata.last_column_id,
            name_mapping=table.form.name_mapping,
        )  # fmt: skip

    def convert(self, *paths: str, p: str | None = None) -> RewriteFinished:
        """A rewrite of the scope that leaves these data files where they are."""
        whole = self.rewrite(p)
        live = live_files(self.loaded, whole.start_snapshot_id)
        files = live.files_of_scope(self.scope(p))
        kept = [one for one in files if one.data.path in paths]
        others = [one for one in files if one.data.path not in paths]
        groups = [self._group(others, p)] if others else []
        groups += [self._conversion(one) for one in kept]
        for output in conflicts.outputs(whole):
            Path(output.path.removeprefix("file:")).unlink()
        path = self._row_map(others, kept)
        return replace(whole, groups=tuple(groups), row_map=path)

    def _conversion(self, one: PlannedFile) -> RewriteGroup:
        data, dead = one.data, len(of_equality(one))
        file = InputFile(data.path, data.sequence_number, data.records, data.bytes)
        return RewriteGroup((file,), (), data.records, dead, data.records - dead, converts=True)

    def _row_map(self, files: Sequence[PlannedFile], converted: Sequence[PlannedFile] = ()) -> str:
        masked, marked = row_map.Masked(), {}
        for one in files:
            kept = [position for position, _ in surviving(one)]
            keep = np.zeros(one.data.records, dtype=np.bool_)
            keep[kept] = True
            masked.add(one.data.path, 0, keep)
            marked[one.data.path] = np.array(sorted(marks(one)), dtype=np.int64)
        for one in converted:
            keep = np.ones(one.data.records, dtype=np.bool_)
            keep[of_equality(one)] = False
            masked.add(one.data.path, 0, keep)
        assert self.run is not None
        path = f"{self.loaded.metadata.location}/metadata/{self.run.row_map_name}"
        with open(path.removeprefix("file:"), "wb") as sink:
            row_map.write(sink, masked.blobs(), marked)
        return path

    def _group(self, files: Sequence[PlannedFile], p: str | None) -> RewriteGroup:
        rows = [row for one in files for _, row in surviving(one)]
        outputs: tuple[OutputFile, ...] = ()
        if rows:
            text = self.data(rows, p, self.output_path())
            body = json.loads(text)
            size = body["file-size-in-bytes"]
            outputs = (OutputFile(body["file-path"], len(rows), size, text),)
        total = sum(one.data.records for one in files)
        return RewriteGroup(
            tuple(
                InputFile(d.path, d.sequence_number, d.records, d.bytes)
                for d in (one.data for one in files)
            ),
            outputs, total, total - len(rows), len(rows),
        )  # fmt: skip

    def output_path(self) -> str:
        """Of the last rewrite's next one."""
        assert self.run is not None
        self.written += 1
        return f"{self.loaded.metadata.location}/data/{self.run.output_name(0, self.written)}"

    def unmasked(self, group: RewriteGroup) -> RewriteGroup:
        """The unpartitioned group as a worker makes it that applies nothing."""
        rows = [(row["id"], row["v"]) for file in group.inputs for row in read(file.path)]
        body = json.loads(text := self.data(rows, None, self.output_path()))
        output = OutputFile(body["file-path"], len(rows), body["file-size-in-bytes"], text)
        return replace(group, outputs=(output,), rows_masked=0, rows_out=len(rows))


class Loads:
    """A Java function: path -> the deletes that are there already."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def apply(self, _path: str) -> Any:
        return self._found

    class Java:
        implements = ("java.util.function.Function",)


class InputFiles:
    """A Java function: delete file -> its input file."""

    def __init__(self, io: Any) -> None:
        self._io = io

    def apply(self, file: Any) -> Any:
        return self._io.newInputFile(file.location())

    class Java:
        implements = ("java.util.function.Function",)


def applied_by(delete: Any, stamp: int) -> bool:
    return delete.kind is not DeleteKind.EQUALITY or delete.sequence_number <= stamp


def surviving(planned: PlannedFile) -> list[tuple[int, Row]]:
    """Living rows, each with its position."""
    ids = {
        row["id"] for d in planned.deletes if d.kind is DeleteKind.EQUALITY for row in read(d.path)
    }
    positions = marks(planned)
    rows = enumerate(read(planned.data.path))
    return [(n, (r["id"], r["v"])) for n, r in rows if n not in positions and r["id"] not in ids]


def of_equality(planned: PlannedFile) -> list[int]:
    """Positions of the rows that equality deletes name."""
    deletes = tuple(one for one in planned.deletes if one.kind is DeleteKind.EQUALITY)
    kept = {position for position, _ in surviving(PlannedFile(planned.data, deletes))}
    return [position for position in range(planned.data.records) if position not in kept]


def marks(planned: PlannedFile) -> set[int]:
    """Positions that position deletes or vectors name."""
    return {
        position
        for delete in planned.deletes
        if delete.kind is not DeleteKind.EQUALITY
        for position in named(delete, planned.data.path)
    }


def named(delete: DeleteFileEntry, data: str) -> list[int]:
    if delete.kind is DeleteKind.POSITION:
        return [row["pos"] for row in read(delete.path) if row["file_path"] == data]
    offset, size = delete.content_offset or 0, delete.content_size or 0
    blob = Path(delete.path.removeprefix("file:")).read_bytes()[offset : offset + size]
    return [int(one) for one in vectors.decoded(blob, delete.path)]


def waiting_of(refused: RewriteFinished | None) -> set[str]:
    """Names of the files of a result that was refused, as a whole or in part."""
    if refused is None:
        return set()
    paths = [*(one.path for one in conflicts.outputs(refused)), refused.row_map]
    return {path.rsplit("/", 1)[1] for path in paths if path is not None}


@pytest.fixture
def gateway(meddler: Meddler, tmp_path: Path) -> Iterator[str]:
    """URI of a gateway of this process, between writers and the meddler."""
    port, loop = free_port(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    state = str(tmp_path / "gateway")
    settings = GatewaySettings(meddler.uri, "-", port, state, latch_ms=20_000, hold_ms=20_000)
    up = gateway_running(settings, MemoryPublisher(MemoryBroker()), Log("gateway"))
    asyncio.run_coroutine_threadsafe(up.__aenter__(), loop).result(30)
    yield f"http://127.0.0.1:{port}"
    asyncio.run_coroutine_threadsafe(up.__aexit__(None, None, None), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="session")
def iceberg(iceberg_jar: Path) -> Iterator[IcebergJvm]:
    with IcebergJvm(iceberg_jar) as running:
        yield running


@pytest.fixture(scope="session")
def java_catalog(iceberg: IcebergJvm, catalog_uri: str) -> Any:
    return rest_catalog(iceberg.jvm, catalog_uri)


Make = Callable[..., Workshop]


@pytest.fixture
def make_table(iceberg: IcebergJvm, java_catalog: Any, catalog_uri: str, namespace: str) -> Make:
    """Makes an empty v2 table, `partitioned` by identity(p) or not."""

    def make(partitioned: bool = False, **properties: str) -> Workshop:
        jvm = iceberg.jvm
        schema = jvm.org.apache.iceberg.SchemaParser.fromJson(json.dumps(SCHEMA))
        spec = jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
        built = (spec.identity("p") if partitioned else spec).build()
        given = jvm.java.util.HashMap()
        for key, value in {"format-version": "2", **properties}.items():
            given.put(key, value)
        name = f"t{uuid.uuid4().hex[:8]}"
        text = json.dumps({"namespace": [namespace], "name": name})
        identifier = jvm.org.apache.iceberg.catalog.TableIdentifierParser.fromJson(text)
        made = java_catalog.createTable(identifier, schema, built, given)
        table = TableName(str(made.uuid().toString()), (namespace,), name)
        return Workshop(jvm, java_catalog, Tables(catalog_uri), table, partitioned)

    return make


@pytest.fixture
def table(make_table: Make) -> Workshop:
    """An unpartitioned v2 table."""
    return make_table()


@pytest.fixture
def committer_of() -> Callable[..., Handlers]:
    return committer_at


def committer_at(
    iceberg: IcebergJvm,
    uri: str,
    patience_s: int = 60,
    sleep: Callable[[float], object] = lambda _: None,
) -> Handlers:
    """The committer's handlers over a catalog URI."""
    lake, log = catalog(uri), Log("test")
    tables = lake.tables
    outputs, repairs = Outputs(tables, log), Repairs(tables, log, lambda: 5)
    java = JavaCommits(iceberg, uri, patience_s=patience_s)
    swapper = Swapper(lake, java, outputs, repairs, log, lambda: 5, sleep)
    return Handlers(swapper, tables, lambda: 5)


@pytest.fixture
def committer(iceberg: IcebergJvm, catalog_uri: str) -> Handlers:
    return committer_at(iceberg, catalog_uri)


@pytest.fixture
def meddled(iceberg: IcebergJvm, meddler: Meddler) -> Handlers:
    """A committer whose catalog is the meddler."""
    return committer_at(iceberg, meddler.uri)
