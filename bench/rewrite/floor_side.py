"""The floor: PyArrow reads every file and writes the rows that survive, which it is told. No key
is looked at."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.rewrite.child import Act, Question, serve
from bench.rewrite.survivors import local, mask_path

ROW_GROUP_ROWS = 1 << 20
LOW_CARDINALITY = ["status", "p", "note", "tenant"]
DICTIONARY_BYTES = 2 << 20  # Iceberg's default, twice PyArrow's


def start(given: Question) -> Act:
    """A process per core; each takes partitions one by one, the largest first."""
    pool = multiprocessing.get_context("forkserver").Pool(given["cores"], pa.set_cpu_count, (1,))
    options = {"use_dictionary": LOW_CARDINALITY} if given["lean"] else {}

    def act(question: Question) -> dict[str, Any]:
        run = partial(_rewrite, question["masks"], question["outputs"], options)
        parts = sorted(question["partitions"], key=lambda one: -sum(one["bytes"]))
        written = pool.map(run, parts, chunksize=1)
        return {"sizes": written}

    return act


def _rewrite(masks: str, outputs: str, options: dict[str, Any], part: dict[str, Any]) -> int:
    for path in part["deletes"]:
        pq.read_table(local(path), use_threads=False)
    path = Path(outputs) / f"{part['index']}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pq.read_schema(local(part["data"][0]))
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=3,
        dictionary_pagesize_limit=DICTIONARY_BYTES,
        store_schema=False,
        **options,
    ) as writer:
        for rows in _grouped(_survivors(Path(masks), part["data"])):
            writer.write_table(rows, ROW_GROUP_ROWS)
    return path.stat().st_size


def _survivors(masks: Path, paths: list[str]) -> Iterator[pa.Table]:
    for path in paths:
        mask = pa.array(np.load(mask_path(masks, path)))
        with pq.ParquetFile(local(path)) as file:
            start = 0
            for index in range(file.num_row_groups):
                rows = file.read_row_group(index, use_threads=False)
                yield rows.filter(mask.slice(start, rows.num_rows))
                start += rows.num_rows


def _grouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """As many whole tables as fill a row group."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


if __name__ == "__main__":
    serve(start)
