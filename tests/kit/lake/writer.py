"""A table's other writers: files as engines write them, committed by Iceberg's own Java API, past
Firnline.

`FileWriter` writes one file and describes it as Iceberg's `ContentFileParser` JSON, uncommitted.
`TableWriter` commits such files. It takes each file as that JSON, as an entry of a live file, or as
a Java `DataFile` or `DeleteFile`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from firnline_deletes.deletes import vectors
from firnline_deletes.files import puffin
from firnline_domain.identity import MAIN
from firnline_iceberg.java.api import content_file, removal_json
from firnline_iceberg.metadata.entries import DataFileEntry, FileEntry

Place = tuple[int, str]  # partition spec id, partition values as a JSON list
Rows = Sequence[Mapping[str, Any]]
File = Any  # JSON text, FileEntry, or a Java file


def numbered(columns: Mapping[str, tuple[int, pa.DataType]]) -> pa.Schema:
    """An Arrow schema with Iceberg's field ids: column name -> (field id, type)."""
    return pa.schema(
        [
            pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
            for name, (number, kind) in columns.items()
        ]
    )


POSITIONS = numbered({"file_path": (2147483546, pa.string()), "pos": (2147483545, pa.int64())})


def described(
    place: Place, path: str, size: int, records: int, content: str = "data", **more: object
) -> str:
    """`ContentFileParser` JSON of a file. `size` in bytes; `more`: keys with `_` for `-`."""
    body = {
        "spec-id": place[0],
        "content": content,
        "file-path": path,
        "file-format": "parquet",
        "partition": json.loads(place[1]),
        "file-size-in-bytes": size,
        "record-count": records,
    }
    return json.dumps({**body, **{key.replace("_", "-"): value for key, value in more.items()}})


def local(path: str) -> Path:
    """A warehouse path on this machine's disk."""
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def store_locally(path: str, body: bytes) -> None:
    """Write a file of a warehouse on this machine's disk."""
    where = local(path)
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_bytes(body)


@dataclass(frozen=True)
class FileWriter:
    """Writes one file per call; its JSON."""

    store: Callable[[str, bytes], object] = store_locally

    def data(self, path: str, rows: Rows, schema: pa.Schema, place: Place) -> str:
        """A data file."""
        return described(place, path, self._parquet(path, rows, schema), len(rows))

    def equality_deletes(self, path: str, rows: Rows, schema: pa.Schema, place: Place) -> str:
        """An equality-delete file of all columns of `schema`."""
        ids = [int(one.metadata[b"PARQUET:field_id"]) for one in schema]
        size = self._parquet(path, rows, schema)
        return described(place, path, size, len(rows), "equality-deletes", equality_ids=ids)

    def position_deletes(
        self,
        path: str,
        positions: Iterable[tuple[str, int]],
        place: Place,
        data_file: str | None = None,
    ) -> str:
        """A position-delete file of (data file, position); `data_file`: it is about this one alone,
        and says so."""
        rows = [{"file_path": data, "pos": position} for data, position in sorted(positions)]
        about = {} if data_file is None else {"referenced-data-file": data_file}
        size = self._parquet(path, rows, POSITIONS)
        return described(place, path, size, len(rows), "position-deletes", **about)

    def deletion_vector(self, path: str, data: DataFileEntry, positions: Iterable[int]) -> str:
        """A Puffin file with the deletion vector of one data file."""
        sink, where = BytesIO(), np.array(sorted(positions), dtype=np.int64)
        about = {"referenced-data-file": data.path, "cardinality": str(len(where))}
        payload = vectors.encode_positions(vectors.to_bitmap(where))
        blob = puffin.Blob(vectors.BLOB_KIND, payload, (vectors.ROW_POSITION_ID,), about)
        written = puffin.write_puffin(sink, [blob], "tests")
        self.store(path, sink.getvalue())
        ((offset, size),) = written.places
        return described(
            (data.spec_id, data.partition),
            path,
            written.bytes,
            len(where),
            "position-deletes",
            file_format="puffin",
            referenced_data_file=data.path,
            content_offset=offset,
            content_size_in_bytes=size,
        )

    def _parquet(self, path: str, rows: Rows, schema: pa.Schema) -> int:
        sink = BytesIO()
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), sink, store_schema=False)
        self.store(path, sink.getvalue())
        return sink.getbuffer().nbytes


@dataclass(frozen=True)
class TableWriter:
    """Commits of one table. `load`: the Java table as the catalog has it now, asked once a commit.

    What is `planned` is not sent yet: the caller may add checks and then calls `.commit()`.
    """

    jvm: Any
    load: Callable[[], Any]

    def append(self, *files: File, ref: str = MAIN) -> None:
        """Add data files."""
        self.planned_append(*files, ref=ref).commit()

    def planned_append(self, *files: File, ref: str = MAIN) -> Any:
        """See `append`."""
        table = self.load()
        change = table.newFastAppend().toBranch(ref)
        for file in files:
            change.appendFile(self.java_file(table, file))
        return change

    def row_delta(
        self, rows: Iterable[File] = (), deletes: Iterable[File] = (), **how: Any
    ) -> None:
        """See `planned_row_delta`."""
        self.planned_row_delta(rows, deletes, **how).commit()

    def planned_row_delta(
        self,
        rows: Iterable[File] = (),
        deletes: Iterable[File] = (),
        removed: Iterable[File] = (),
        ref: str = MAIN,
        read_at: int | None = None,
        must_exist: Sequence[str] = (),
    ) -> Any:
        """Add data files and delete files, and take the delete files `removed` out.

        `read_at`: the snapshot that the statement has read; `must_exist`: paths of data files that
        must still be live when it commits. Raises Py4JJavaError where they are not.
        """
        table = self.load()
        change = table.newRowDelta().toBranch(ref)
        for file in rows:
            change.addRows(self.java_file(table, file))
        for file in deletes:
            change.addDeletes(self.java_file(table, file))
        for file in removed:
            change.removeDeletes(self.java_file(table, file))
        if read_at is not None:
            change.validateFromSnapshot(read_at)
        if must_exist:
            paths = self.jvm.java.util.ArrayList()
            for path in must_exist:
                paths.add(path)
            change.validateDataFilesExist(paths)
        return change

    def delete(self, *files: File, **how: Any) -> None:
        """See `planned_delete`."""
        self.planned_delete(*files, **how).commit()

    def planned_delete(self, *files: File, ref: str = MAIN, must_exist: bool = False) -> Any:
        """Take data files out. `must_exist`: raises Py4JJavaError if one has gone, else its rows
        stay where a rewrite has put them."""
        table = self.load()
        change = table.newDelete().toBranch(ref)
        if must_exist:
            change = change.validateFilesExist()
        for file in files:
            change.deleteFile(self.java_file(table, file))
        return change

    def rewrite(
        self,
        removed: Iterable[File],
        added: Iterable[File],
        read_at: int,
        sequence_number: int,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Replace data files as another engine's compaction does: the new ones get the data
        sequence number `sequence_number`. Raises Py4JJavaError on a conflict since `read_at`."""
        table = self.load()
        change = table.newRewrite().validateFromSnapshot(read_at)
        change.dataSequenceNumber(sequence_number)
        for key, value in (summary or {}).items():
            change.set(key, value)
        for file in removed:
            change.deleteFile(self.java_file(table, file))
        for file in added:
            change.addFile(self.java_file(table, file))
        change.commit()

    def mark_rows(self, data_file: str, *positions: int) -> None:
        """A deletion vector by Iceberg's own writer, joined with the one that is there, in a v3
        unpartitioned table."""
        table, iceberg = self.load(), self.jvm.org.apache.iceberg
        files = iceberg.io.OutputFileFactory.builderFor(table, 1, 1)
        files = files.format(iceberg.FileFormat.PUFFIN).build()
        old = _vector_of(table, data_file)
        loaded = _PreviousPositions(None if old is None else self._positions(table, old))
        writer = iceberg.deletes.BaseDVFileWriter(files, loaded)
        for position in positions:
            writer.delete(data_file, position, table.spec(), None)
        writer.close()
        made = writer.result()
        read_at = table.currentSnapshot().snapshotId()
        self.row_delta(
            deletes=made.deleteFiles(), removed=made.rewrittenDeleteFiles(), read_at=read_at
        )

    def java_file(self, table: Any, file: File) -> Any:
        """A Java file of `file`."""
        if isinstance(file, FileEntry):
            fields = table.specs().get(file.spec_id).fields().size()
            file = removal_json(file, fields)
        return content_file(self.jvm, table, file) if isinstance(file, str) else file

    def _positions(self, table: Any, vector: Any) -> Any:
        loader = self.jvm.org.apache.iceberg.data.BaseDeleteLoader(_InputFiles(table.io()))
        return loader.loadPositionDeletes([vector], vector.referencedDataFile())


def _vector_of(table: Any, data_file: str) -> Any:
    for task in table.newScan().planFiles().iterator():
        for delete in task.deletes() if task.file().location() == data_file else ():
            if delete.referencedDataFile() == data_file:
                return delete
    return None


class _PreviousPositions:
    """A Java function: path of a data file -> its deletes that are there already."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def apply(self, _path: str) -> Any:
        return self._found

    class Java:
        implements = ("java.util.function.Function",)


class _InputFiles:
    """A Java function: delete file -> its input file."""

    def __init__(self, io: Any) -> None:
        self._io = io

    def apply(self, file: Any) -> Any:
        return self._io.newInputFile(file.location())

    class Java:
        implements = ("java.util.function.Function",)
