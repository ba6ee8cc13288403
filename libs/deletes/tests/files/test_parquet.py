"""Requests: each is a round trip to an object store, so they are counted."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from firnline_deletes.apply import write_live_rows
from firnline_deletes.columns.keys import KeyField
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes import build as building
from firnline_deletes.deletes.build import build_parts
from firnline_deletes.deletes.masks import Deletes
from firnline_deletes.files import parquet as files

ROWS = 3000


@dataclass
class Store:
    """Opens files and writes down every read as (path, first byte, bytes)."""

    reads: list[tuple[str, int, int]] = field(default_factory=list)

    def open(self, path):
        raw = _Counted(path, self.reads)
        return pa.PythonFile(raw, "r")

    def footers(self, path):
        """How often the end of a file was read."""
        with open(path, "rb") as file:
            size = file.seek(0, io.SEEK_END)
        return sum(1 for name, at, count in self.reads if name == path and at + count == size)

    def bytes(self, path):
        return sum(count for name, _, count in self.reads if name == path)


class _Counted(io.FileIO):
    def __init__(self, path, reads):
        super().__init__(path, "rb")
        self._path, self._reads = path, reads

    def read(self, size=-1):
        at = self.tell()
        data = super().read(size)
        if data:
            self._reads.append((self._path, at, len(data)))
        return data


@pytest.fixture
def schema(folder):
    return pa.schema([folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.string())])


def some_rows(start=0):
    return [(n, f"value {n} of a row that is not short") for n in range(start, start + ROWS)]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_small_file_is_one_request(folder, schema, threads):
    store = Store()
    data = [folder.file(1, schema, some_rows(n), group_rows=1000) for n in range(2)]
    deletes = folder.file(2, pa.schema([schema.field(0)]), [(1,), (2,)])
    made = building.build_delete_set([deletes], [KeyField(1, pa.int64())], store.open)
    writer = folder.writer(schema)
    write_live_rows(data, Deletes([made]), TargetSchema(writer.schema), store.open, writer, threads)
    assert len(folder.rows_of(writer)) == 2 * ROWS - 4
    for file in (*data, deletes):
        assert len([read for read in store.reads if read[0] == file.path]) == 1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("parts", [1, 3])
def test_no_footer_is_read_twice_and_no_column_either(folder, schema, monkeypatch, threads, parts):
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    store = Store()
    data = folder.file(1, schema, some_rows(), group_rows=1000)
    deletes = folder.file(2, pa.schema([schema.field(0)]), [(n,) for n in range(0, ROWS, 2)])
    paths = build_parts([deletes], [KeyField(1, pa.int64())], store.open, folder.root, parts)
    chosen = Deletes(parts=paths) if parts > 1 else Deletes([files_set(paths[0])])
    writer = folder.writer(schema)
    write_live_rows([data], chosen, TargetSchema(writer.schema), store.open, writer, threads)
    assert len(folder.rows_of(writer)) == ROWS // 2
    assert store.footers(data.path) == store.footers(deletes.path) == 1
    if parts == 1:  # each part reads the keys again, that is its price
        size = (folder.root / data.path).stat().st_size
        assert store.bytes(data.path) <= size + 65536  # the footer's request is of fixed size


def files_set(path):
    from firnline_deletes.deletes.delete_set import open_mapped

    return open_mapped(path)
