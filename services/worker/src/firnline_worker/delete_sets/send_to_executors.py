"""Sends delete sets from the driver to executors on other hosts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from firnline_iceberg.outputs.names import TaskRun
from firnline_iceberg.removal import removal
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.io import FileIO

from firnline_worker.spark.executor_delete_sets import BLOCK, SetFile

INLINE_BYTES = 1 << 20  # of all sets of a task: above it Spark makes a broadcast of the order


@contextmanager
def send_sets(
    paths: Sequence[str], table: LoadedTable, run: TaskRun, places: Sequence[str]
) -> Iterator[tuple[SetFile, ...]]:
    """Send delete sets to executors on other hosts, for as long as the block runs. `places`: names
    on the table's storage, at least as many as there are paths; they are on the run's write-ahead
    list. Raises OSError."""
    files = [SetFile(path, bytes=Path(path).stat().st_size) for path in paths]
    if sum(file.bytes for file in files) <= INLINE_BYTES:
        yield tuple(replace(file, content=Path(file.path).read_bytes()) for file in files)
        return
    stored = [replace(file, stored_at=place) for file, place in zip(files, places, strict=False)]
    if len(stored) < len(files):
        raise ValueError(f"{len(files)} files of sets, {len(places)} names for them")
    try:
        for file in stored:
            _store_file(table.io, file)
        yield tuple(stored)
    finally:
        removal.remove_sets(table, run, [file.stored_at for file in stored if file.stored_at])


def _store_file(io: FileIO, file: SetFile) -> None:
    assert file.stored_at is not None
    with open(file.path, "rb") as source, io.new_output(file.stored_at).create(True) as sink:
        shutil.copyfileobj(source, sink, BLOCK)
