"""The Spark stage of a rewrite: what travels to the executors, and what runs there.

Only these small descriptors pass through Spark; rows go from Parquet to Parquet inside Arrow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from firnline_adapters import clock
from firnline_deletes.apply import RewriteTally, RowWriter, find_dead_rows, write_live_rows
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes import delete_set, positions
from firnline_deletes.deletes.masks import Deletes
from firnline_deletes.deletes.row_map import MaskedRows
from firnline_deletes.files.hilbert_curve import CurveWriter
from firnline_deletes.files.parquet import WHOLE_BYTES, SequencedFile
from firnline_deletes.files.sorting import SortingWriter, SortKey
from firnline_deletes.files.writer import RollingWriter, WrittenFile
from firnline_deletes.files.writer_properties import ParquetProperties
from firnline_deletes.unsupported_files import Reason, UnsupportedFile
from firnline_domain.identity import normal_path
from firnline_iceberg.storage.file_io import TableStorage, s3_bucket
from pyiceberg.io import FileIO
from pyspark import TaskContext

from firnline_worker.spark import executor_delete_sets
from firnline_worker.spark.executor_delete_sets import LiveSets, SetFile


@dataclass(frozen=True)
class StageOrder:
    """The common part of all groups of a task."""

    storage: TableStorage
    target: TargetSchema
    properties: ParquetProperties
    target_bytes: int
    sets: tuple[SetFile, ...]
    positions: SetFile | None
    together: bool  # the sets fit in memory together
    live: LiveSets | None = None  # of executors that keep sets on disks of their own
    tries: int = 1  # that Spark may make of a group; each has names of its own
    threads: int = 1  # that a group may use; more than one where cores would else be idle


@dataclass(frozen=True)
class GroupOrder:
    """One group: inputs, and the names its outputs may take."""

    index: int
    files: tuple[SequencedFile, ...]
    output_paths: tuple[str, ...]  # as many for each try
    converts: bool = False  # its files stay: only the masked rows are wanted
    sort_keys: tuple[SortKey, ...] = ()  # () = rows stay in the order of the inputs
    along_curve: bool = False  # through all of these columns

    def names_of_try(self, tried: int, tries: int) -> tuple[str, ...]:
        """Return the names of a try, counted from 0: a try that was given up may still be writing
        to its own. Raises RuntimeError if none are left."""
        if tried >= tries:
            raise RuntimeError(f"group {self.index}: {tried} executors were lost under it")
        each = len(self.output_paths) // tries
        return self.output_paths[tried * each : (tried + 1) * each]


@dataclass(frozen=True)
class GroupDone:
    """A group's outputs are on storage."""

    index: int
    tally: RewriteTally
    files: tuple[WrittenFile, ...]
    started_ms: int
    masked: Mapping[str, bytes]  # path of an input -> vector of its masked rows (`row_map`)
    tried: int = 0  # tries of it that were lost before


@dataclass(frozen=True)
class GroupRefused:
    """The kernel does not serve an input of this group."""

    index: int
    reason: Reason
    detail: str


@dataclass(frozen=True)
class GroupLacksFile:
    """An input of this group is not there."""

    index: int
    detail: str


GroupResult = GroupDone | GroupRefused | GroupLacksFile


def run_groups(order: StageOrder, groups: Iterable[GroupOrder]) -> Iterator[GroupResult]:
    """Run groups inside a Spark task. Arrow's own pool is held to one core."""
    pa.set_cpu_count(1)
    io = order.storage.make_io()
    if order.live is not None:
        executor_delete_sets.remove_unused_sets(order.live)
    deletes = _open_deletes(order, io)
    for group in groups:
        done = _run_group(order, group, io, deletes)
        pa.default_memory_pool().release_unused()  # before this process idles, or runs the next
        yield done


def import_stage(_: Iterable[Any]) -> Iterator[str]:
    """Import this module inside a Spark task. Code that runs there is never in `spark`, which
    executors on other hosts cannot import."""
    yield __name__


def _open_deletes(order: StageOrder, io: FileIO) -> Deletes:
    paths = [executor_delete_sets.on_this_host(io, file) for file in order.sets]
    where = order.positions and executor_delete_sets.on_this_host(io, order.positions)
    dead = positions.open_mapped(where, normal_path) if where else None
    if not order.together:
        return Deletes(positions=dead, parts=paths)
    return Deletes([delete_set.open_mapped(path) for path in paths], dead)


def _run_group(order: StageOrder, group: GroupOrder, io: FileIO, deletes: Deletes) -> GroupResult:
    started_ms = clock.now_ms()
    masked, files = MaskedRows(), tuple[WrittenFile, ...]()
    try:
        if group.converts:  # what its position deletes say stays as it is
            of_equality = replace(deletes, positions=None)
            open_file = file_opener(io, group.files)
            tally = find_dead_rows(group.files, of_equality, order.target, open_file, masked)
        else:
            tally, files = _write_outputs(order, group, io, deletes, masked)
    except UnsupportedFile as refused:
        return GroupRefused(group.index, refused.reason, refused.detail)
    except FileNotFoundError as gone:
        return GroupLacksFile(group.index, str(gone))
    return GroupDone(group.index, tally, files, started_ms, masked.to_blobs(), _earlier_tries())


def _earlier_tries() -> int:
    """Return the number of times that Spark has tried this task before; 0 outside of one."""
    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0


def _write_outputs(
    order: StageOrder, group: GroupOrder, io: FileIO, deletes: Deletes, masked: MaskedRows
) -> tuple[RewriteTally, tuple[WrittenFile, ...]]:
    target, paths = order.target, group.names_of_try(_earlier_tries(), order.tries)
    writer = RollingWriter(
        target.output_schema,
        order.properties,
        order.target_bytes,
        paths,
        file_creator(io),
        target.proved,
    )
    try:
        with _in_order(writer, group) as into:
            tally = write_live_rows(
                group.files,
                deletes,
                target,
                file_opener(io, group.files),
                into,
                order.threads,
                masked,
            )
        return tally, tuple(writer.close())
    finally:
        writer.abort()


@contextmanager
def _in_order(writer: RollingWriter, group: GroupOrder) -> Iterator[RowWriter]:
    """Yield the writer of the rows: in their order of arrival, or sorted by way of this host's
    disk."""
    keys = group.sort_keys
    if not keys:
        yield writer
        return
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    with TemporaryDirectory(prefix="firnline-sort-", dir=scratch) as folder:
        place, columns = Path(folder), [key.column for key in keys]
        sorting: SortingWriter | CurveWriter = (
            CurveWriter(writer, columns, place)
            if group.along_curve
            else SortingWriter(writer, keys, place)
        )
        yield sorting
        sorting.finish()


def file_opener(io: FileIO, files: Iterable[SequencedFile] = ()) -> Any:
    """Return a function path -> Arrow's file of any PyIceberg FileIO. Those of `files` that are
    small come whole in one request, because Arrow asks for a size first. Manifests with wrong sizes
    do no harm: the store returns the object's length."""
    small = {file.path for file in files if 0 < file.bytes <= WHOLE_BYTES}

    def open_path(path: str) -> Any:
        if path in small and (place := s3_bucket(io, path)):
            bucket, key = place
            if (found := bucket.fetch_small(key, WHOLE_BYTES)) is not None:
                return pa.BufferReader(found)
        return io.new_input(path).open()

    return open_path


def file_creator(io: FileIO) -> Any:
    """Return a function path -> new file. Its name has a fresh uuid (`outputs`), so the storage is
    not asked whether it exists: that would be two requests."""
    return lambda path: io.new_output(path).create(overwrite=True)
