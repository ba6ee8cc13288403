"""Files as writers write them, with Arrow: rows, keys, positions and deletion vectors.

Each function writes one file and gives it as Iceberg's `ContentFileParser` JSON, not committed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from firnline_deletes import puffin, vectors
from firnline_iceberg.files import DataFileEntry
from firnline_iceberg.tables import LoadedTable

from firnline_chaos.model import Place, Row, value_of

PREFIX = "w-"  # of every file that a writer of ours writes
ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string()}
POSITIONS = ((2147483546, "file_path", pa.string()), (2147483545, "pos", pa.int64()))
Mark = tuple[str, int]  # data file, position


@dataclass(frozen=True)
class Folder:
    """Where a table's data files go, and its columns of today."""

    location: str
    columns: tuple[tuple[int, str, pa.DataType], ...]

    @classmethod
    def of(cls, table: LoadedTable) -> Folder:
        fields = table.schema.fields
        columns = tuple((one.field_id, one.name, ARROW[str(one.field_type)]) for one in fields)
        return cls(f"{table.metadata.location.rstrip('/')}/data", columns)

    def new(self, kind: str, suffix: str) -> str:
        return f"{self.location}/{PREFIX}{kind}-{uuid.uuid4().hex[:16]}.{suffix}"

    def rows(self, rows: Sequence[Row], place: Place) -> str:
        """A data file."""
        found = [{name: value_of(row, number) for number, name, _ in self.columns} for row in rows]
        path = self.new("rows", "parquet")
        return _described(place, path, _parquet(path, self.columns, found), len(rows), "data")

    def keys(self, keys: Iterable[int | None], place: Place) -> str:
        """An equality delete on `id`."""
        path, found = self.new("keys", "parquet"), [{"id": key} for key in keys]
        size = _parquet(path, ((1, "id", pa.int64()),), found)
        more = {"equality-ids": [1]}
        return _described(place, path, size, len(found), "equality-deletes", **more)

    def positions(self, marks: Sequence[Mark], place: Place, about: str | None) -> str:
        """A position delete; `about`: of one data file alone."""
        path = self.new("positions", "parquet")
        found = [{"file_path": data, "pos": position} for data, position in sorted(marks)]
        more = {} if about is None else {"referenced-data-file": about}
        size = _parquet(path, POSITIONS, found)
        return _described(place, path, size, len(found), "position-deletes", **more)

    def vector(self, data: DataFileEntry, positions: Iterable[int]) -> str:
        """A deletion vector of one data file."""
        path, sink = self.new("vector", "puffin"), BytesIO()
        where = np.array(sorted(positions), dtype=np.int64)
        about = {"referenced-data-file": data.path, "cardinality": str(len(where))}
        payload = vectors.encoded(vectors.bitmap(where))
        blob = puffin.Blob(vectors.BLOB_KIND, payload, (vectors.ROW_POSITION_ID,), about)
        written = puffin.write(sink, [blob], "chaos")
        local(path).write_bytes(sink.getvalue())
        ((offset, size),) = written.places
        return _described(
            (data.spec_id, data.partition), path, written.bytes, len(where), "position-deletes",
            **{"file-format": "puffin", "referenced-data-file": data.path,
               "content-offset": offset, "content-size-in-bytes": size},
        )  # fmt: skip


def versions_in(data: DataFileEntry) -> list[int]:
    """Of the rows of a data file, by position. The column may have got another name since."""
    found: list[int] = pq.read_table(local(data.path), columns=["v"])["v"].to_pylist()
    return found


def vector_positions(path: str, offset: int, size: int) -> set[int]:
    """What a deletion vector says."""
    blob = local(path).read_bytes()[offset : offset + size]
    return {int(one) for one in vectors.decoded(blob, path)}


def local(path: str) -> Path:
    """A warehouse path on this machine's disk."""
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def _parquet(
    path: str, columns: Sequence[tuple[int, str, pa.DataType]], rows: list[dict[str, Any]]
) -> int:
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, name, kind in columns
    ]
    where = local(path)
    where.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
    pq.write_table(table, where, store_schema=False)
    return where.stat().st_size


def _described(place: Place, path: str, size: int, rows: int, content: str, **more: object) -> str:
    body = {
        "spec-id": place[0], "content": content, "file-path": path, "file-format": "parquet",
        "partition": json.loads(place[1]), "file-size-in-bytes": size, "record-count": rows,
    }  # fmt: skip
    return json.dumps({**body, **more})
