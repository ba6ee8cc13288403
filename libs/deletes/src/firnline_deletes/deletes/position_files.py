"""Position-delete files, written; and read whole where one is to be written anew (`positions` reads
what they say of data files).

Spec, "Position Delete Files": columns `file_path` and `pos` with their reserved ids, rows sorted by
both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline_deletes.deletes.positions import FILE_PATH_ID, POS_ID, Positions, columns_of
from firnline_deletes.files.parquet import Create, Open, open_parquet

Keep = Callable[[str], bool]


def _path_field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})


SCHEMA = pa.schema(
    [_path_field("file_path", pa.string(), FILE_PATH_ID), _path_field("pos", pa.int64(), POS_ID)]
)


@dataclass(frozen=True)
class ColumnBounds:
    """Bounds of a file's columns as a manifest has them: single-value bytes, by field id."""

    lower: dict[int, bytes]
    upper: dict[int, bytes]


@dataclass(frozen=True)
class WrittenPositions:
    """One closed position-delete file."""

    path: str
    bytes: int
    rows: int
    bounds: ColumnBounds


def of_one_file(data_file: str, positions: Positions) -> pa.Table:
    """Return rows that name one data file; `positions` ascending."""
    paths = pa.array([data_file]).take(pa.repeat(0, len(positions)))
    return pa.table([paths, pa.array(positions)], schema=SCHEMA)


def read_without(path: str, open_file: Open, gone: Keep) -> pa.Table:
    """Return the rows of a file but those that name a data file of which `gone` is true, as
    written. Refused as by `positions.build`."""
    with open_parquet(open_file, path) as parquet:
        read = parquet.read(columns=(names := columns_of(parquet, path)), use_threads=False)
    table = pa.table(
        [read.column(name).cast(kind.type) for name, kind in zip(names, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    named = pc.unique(table.column(0)).to_pylist()
    dropped = [name for name in named if gone(name)]
    kept = pc.invert(pc.is_in(table.column(0), value_set=pa.array(dropped, pa.string())))
    return table.filter(kept)


def write_positions(path: str, rows: pa.Table, create: Create) -> WrittenPositions:
    """Write `rows`, not empty, as a position-delete file in the order of the spec."""
    ordered = rows.sort_by([("file_path", "ascending"), ("pos", "ascending")])
    sink = create(path)
    try:
        pq.write_table(ordered, sink, compression="zstd", store_schema=False)
        size = int(sink.tell())
    finally:
        sink.close()
    return WrittenPositions(path, size, len(ordered), _bounds_of_rows(ordered))


def _bounds_of_rows(rows: pa.Table) -> ColumnBounds:
    (path_low, path_high), (low, high) = (_min_and_max(rows.column(n)) for n in (0, 1))
    return ColumnBounds(
        {FILE_PATH_ID: path_low.encode(), POS_ID: struct.pack("<q", low)},
        {FILE_PATH_ID: path_high.encode(), POS_ID: struct.pack("<q", high)},
    )


def _min_and_max(column: pa.ChunkedArray) -> tuple[Any, Any]:
    both = pc.min_max(column)
    return both["min"].as_py(), both["max"].as_py()
