"""Files as writers write them, with Arrow: rows, keys, positions and deletion vectors.

Each function writes one file and gives it as Iceberg's `ContentFileParser` JSON, not committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_deletes.deletes import vectors
from firnline_domain.identity import normal_path
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.lake.rows import Place, Row, value_of
from tests.kit.lake.writer import FileWriter, numbered

PREFIX = "w-"  # of every file that a writer of ours writes
ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string()}
KEY = numbered({"id": (1, pa.int64())})
Mark = tuple[str, int]  # data file, position


@dataclass(frozen=True)
class Folder:
    """Where a table's data files go, and its columns of today."""

    location: str
    columns: tuple[tuple[int, str, pa.DataType], ...]
    files: FileWriter

    @classmethod
    def of(cls, table: LoadedTable) -> Folder:
        fields = table.schema.fields
        columns = tuple((one.field_id, one.name, ARROW[str(one.field_type)]) for one in fields)
        return cls(f"{table.metadata.location.rstrip('/')}/data", columns, writing(table))

    def new(self, kind: str, suffix: str) -> str:
        return f"{self.location}/{PREFIX}{kind}-{uuid.uuid4().hex[:16]}.{suffix}"

    def rows(self, rows: Sequence[Row], place: Place) -> str:
        """A data file."""
        found = [{name: value_of(row, number) for number, name, _ in self.columns} for row in rows]
        schema = numbered({name: (number, kind) for number, name, kind in self.columns})
        return self.files.data(self.new("rows", "parquet"), found, schema, place)

    def keys(self, keys: Iterable[int | None], place: Place) -> str:
        """An equality delete on `id`."""
        found = [{"id": key} for key in keys]
        return self.files.equality_deletes(self.new("keys", "parquet"), found, KEY, place)

    def positions(self, marks: Sequence[Mark], place: Place, about: str | None) -> str:
        """A position delete; `about`: of one data file alone."""
        return self.files.position_deletes(self.new("positions", "parquet"), marks, place, about)

    def vector(self, data: DataFileEntry, positions: Iterable[int]) -> str:
        """A deletion vector of one data file."""
        return self.files.deletion_vector(self.new("vector", "puffin"), data, positions)


def writing(table: LoadedTable) -> FileWriter:
    """By the keys that came with the table, where it lies on an object store."""
    if normal_path(table.metadata.location).startswith("file:"):
        return FileWriter()

    def store(path: str, body: bytes) -> None:
        with table.io.new_output(path).create(overwrite=True) as sink:
            sink.write(body)

    return FileWriter(store)


def body_of(table: LoadedTable, path: str) -> bytes:
    with table.io.new_input(path).open() as source:
        return bytes(source.read())


def versions_in(table: LoadedTable, data: DataFileEntry) -> list[int]:
    """Of the rows of a data file, by position. The column may have got another name since."""
    body = pa.BufferReader(body_of(table, data.path))
    found: list[int] = pq.read_table(body, columns=["v"])["v"].to_pylist()
    return found


def vector_positions(table: LoadedTable, path: str, offset: int, size: int) -> set[int]:
    """What a deletion vector says."""
    blob = body_of(table, path)[offset : offset + size]
    return {int(one) for one in vectors.decode_positions(blob, path)}
