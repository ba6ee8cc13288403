"""Small Parquet files with field ids, as Iceberg writers leave them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.columns.fields import with_id
from firnline_deletes.deletes.positions import FILE_PATH_ID, POS_ID
from firnline_deletes.files.parquet import SequencedFile
from firnline_deletes.files.projection import table_schema
from firnline_deletes.files.writer import RollingWriter
from firnline_deletes.files.writer_properties import ParquetProperties


class Folder:
    """A directory in which files get names by themselves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = 0

    @staticmethod
    def column(name: str, number: int, kind: pa.DataType, nullable: bool = True) -> pa.Field:
        return with_id(pa.field(name, kind, nullable), number)

    @staticmethod
    def open(path: str) -> Any:
        return pa.OSFile(path, "rb")

    def path(self, kind: str = "file") -> str:
        self._count += 1
        return str(self.root / f"{kind}-{self._count:04d}.parquet")

    def file(
        self, sequence: int, schema: pa.Schema, rows: Sequence[Sequence[Any]], group_rows: int = 3
    ) -> SequencedFile:
        """Rows as tuples in schema order, in row groups of `group_rows`."""
        arrays = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(schema)]
        path = self.path()
        table = pa.Table.from_arrays(arrays, schema=schema)
        pq.write_table(table, path, row_group_size=group_rows, store_schema=False)
        return SequencedFile(path, sequence)

    def position_deletes(self, sequence: int, rows: Sequence[tuple[str, int]]) -> SequencedFile:
        path = self.column("file_path", FILE_PATH_ID, pa.string(), False)
        pos = self.column("pos", POS_ID, pa.int64(), False)
        return self.file(sequence, pa.schema([path, pos]), sorted(rows))

    def writer(
        self,
        schema: pa.Schema,
        target_bytes: int = 1 << 20,
        properties: ParquetProperties | None = None,
        files: int = 50,
        proved: Sequence[int] = (),
    ) -> RollingWriter:
        return RollingWriter(
            table_schema(schema),
            properties or ParquetProperties(),
            target_bytes,
            [self.path("out") for _ in range(files)],
            lambda path: pa.OSFile(path, "wb"),
            proved,
        )

    @staticmethod
    def rows_of(writer: RollingWriter) -> list[tuple[Any, ...]]:
        """All rows of the writer's files, in order; closes it."""
        rows: list[tuple[Any, ...]] = []
        for file in writer.close():
            table = pq.ParquetFile(file.path, arrow_extensions_enabled=False).read()
            rows += list(zip(*(c.to_pylist() for c in table.columns), strict=True))
        return rows


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes fresh folders: for property tests, whose examples must not share files."""
    return lambda: Folder(tmp_path_factory.mktemp("example"))
