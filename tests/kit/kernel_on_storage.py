"""The rewrite's kernel with its inputs, deletes and outputs on any storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from firnline_deletes.apply import RewriteTally, write_live_rows
from firnline_deletes.columns.fields import with_id
from firnline_deletes.columns.keys import KeyField
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes import build as building
from firnline_deletes.deletes import positions
from firnline_deletes.deletes.masks import Deletes
from firnline_deletes.deletes.positions import FILE_PATH_ID, POS_ID
from firnline_deletes.files.parquet import SequencedFile
from firnline_deletes.files.projection import table_schema
from firnline_deletes.files.writer import RollingWriter
from firnline_deletes.files.writer_properties import ParquetProperties
from firnline_domain.identity import normal_path
from pyiceberg.io import FileIO

ROWS = 1_500_000  # of random numbers: 24 MB in two files, so that uploads have several parts
SCHEMA = pa.schema(
    [
        with_id(pa.field("k", pa.int64()), 1),
        with_id(pa.field("v", pa.int64()), 2),
    ]
)
KEYS = pa.schema([SCHEMA.field(0)])
POSITIONS = pa.schema(
    [
        with_id(pa.field("file_path", pa.string(), False), FILE_PATH_ID),
        with_id(pa.field("pos", pa.int64(), False), POS_ID),
    ]
)


def rewritten(io: FileIO, location: str) -> tuple[RewriteTally, pa.Table, pa.Table]:
    """Two data files with equality deletes of every third key and position deletes of the first ten
    rows: (tally, rows as they come back, rows as they should)."""

    def opened(path: str) -> Any:
        return io.new_input(path).open()

    def stored(name: str, table: pa.Table, sequence: int) -> SequencedFile:
        path = f"{location}/{name}.parquet"
        with io.new_output(path).create(overwrite=True) as sink:
            pq.write_table(table, sink, store_schema=False, row_group_size=ROWS // 8)
        return SequencedFile(path, sequence, table.num_rows)

    values = np.random.default_rng(7).integers(0, 1 << 60, ROWS)
    every = pa.table([pa.array(np.arange(ROWS)), pa.array(values)], schema=SCHEMA)
    half = ROWS // 2
    data = [stored("a", every.slice(0, half), 1), stored("b", every.slice(half), 1)]
    third = pa.table([pa.array(np.arange(0, ROWS, 3))], schema=KEYS)
    by_key = building.build_delete_set(
        [stored("keys", third, 2)], [KeyField(1, pa.int64())], opened
    )
    first = pa.table([[data[0].path] * 10, np.arange(10)], schema=POSITIONS)
    gone = positions.build_position_set([stored("positions", first, 2)], data, opened, normal_path)
    writer = RollingWriter(
        table_schema(SCHEMA), ParquetProperties(), 8 << 20,
        [f"{location}/out-{number}.parquet" for number in range(8)],
        lambda path: io.new_output(path).create(overwrite=True),
    )  # fmt: skip
    target = TargetSchema(writer.schema)
    tally = write_live_rows(data, Deletes([by_key], gone), target, opened, writer)
    made = [pq.read_table(opened(file.path)) for file in writer.close()]
    keys = every.column("k").to_numpy()
    wanted = every.filter(pa.array((keys % 3 != 0) & (keys >= 10)))
    for file in (*(one.path for one in data), *(one.path for one in writer.files)):
        io.delete(file)
        assert not io.new_input(file).exists()
    return tally, pa.concat_tables(made).sort_by("k"), wanted
