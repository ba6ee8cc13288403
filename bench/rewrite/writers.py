"""Writers that do not wait for anybody: one upsert commit and one position-delete commit a second,
each into every partition.

They keep book, so that at the end it is known which rows of the keys they touched must be there.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_deletes.deletes import position_files
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.scan.planning import live_files
from py4j.protocol import Py4JJavaError

from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena
from bench.rewrite.table import Place, commit_files, partition_path, write_file
from tests.kit.lake.writer import TableWriter

EVERY_S = 1.0
UPSERTED = 200  # rows per partition and commit
MARKED = 5  # rows per partition and commit
PLANNED_S = 0.5  # from reading the head to the commit: a short DELETE statement
Row = tuple[int, int]  # id, quantity: the quantity is the version


@dataclass
class Book:
    """What the writers did."""

    newest: dict[int, int] = field(default_factory=dict)  # id -> quantity of its last upsert
    killed: set[Row] = field(default_factory=set)
    versions: int = 1 << 40  # quantities that the base does not have
    commits: int = 0
    failures: list[str] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)  # each commit, from its first read on

    def expected(self) -> set[Row]:
        """Rows of the upserted keys that are alive."""
        return set(self.newest.items()) - self.killed


@dataclass(frozen=True)
class Writers:
    """Both writers of one table."""

    place: Arena
    shape: Shape
    name: str
    book: Book
    samples: list[pa.Table]  # per partition

    def upsert(self) -> None:
        """New versions of some keys of every partition."""
        table = self.place.machine.load(self.name)
        where = Place.of_location(table.location())
        files, rows = [], []
        for partition, sample in enumerate(self.samples):
            chosen = sample.take(random.sample(range(len(sample)), UPSERTED))
            self.book.versions += UPSERTED
            versions = list(range(self.book.versions, self.book.versions + UPSERTED))
            at = chosen.schema.get_field_index("quantity")
            chosen = chosen.set_column(at, "quantity", pa.array(versions))
            rows += list(zip(chosen["id"].to_pylist(), versions, strict=True))
            stem, path = uuid.uuid4().hex, partition_path(self.shape, partition)
            keys = chosen.select(["id"])
            files += [
                write_file(self.shape, where, path, f"{stem}.parquet", chosen),
                write_file(self.shape, where, path, f"{stem}-d.parquet", keys, deletes=True),
            ]
        commit_files(self.place.machine, self.shape, table, files)
        self.book.newest.update(rows)

    def mark(self) -> None:
        """Position deletes on rows of a live file of every partition, as a DELETE makes them."""
        loaded = self.place.loaded(self.name)
        head = loaded.head("main").snapshot_id
        by_scope: dict[object, list[DataFileEntry]] = {}
        for file in live_files(loaded, head).data:
            by_scope.setdefault(file.scope, []).append(file)
        chosen = [random.choice(files) for files in by_scope.values()]
        said = [(file, sorted(random.sample(range(file.records), MARKED))) for file in chosen]
        rows = {row for file, positions in said for row in _rows(file.path, positions)}
        texts = [self._position_delete(file, positions) for file, positions in said]
        time.sleep(PLANNED_S)
        table = self.place.machine.load(self.name)
        writer = TableWriter(self.place.machine.jvm, lambda: table)
        writer.row_delta(deletes=texts, read_at=head, must_exist=[one.path for one in chosen])
        self.book.killed |= rows

    def _position_delete(self, file: DataFileEntry, positions: list[int]) -> str:
        path = f"{file.path.rsplit('/', 1)[0]}/{uuid.uuid4().hex}-p.parquet"
        rows = position_files.of_one_file(file.path, pa.array(positions).to_numpy())
        written = position_files.write_positions(path, rows, lambda p: pa.OSFile(_local(p), "wb"))
        return json.dumps(
            {
                "spec-id": file.spec_id,
                "content": "position-deletes",
                "file-path": path,
                "file-format": "parquet",
                "partition": json.loads(file.partition),
                "file-size-in-bytes": written.bytes,
                "record-count": written.rows,
                "referenced-data-file": file.path,
            }
        )


def _rows(path: str, positions: list[int]) -> list[Row]:
    table = pq.read_table(_local(path), columns=["id", "quantity"]).take(positions)
    return list(zip(table["id"].to_pylist(), table["quantity"].to_pylist(), strict=True))


def _local(path: str) -> str:
    return "/" + path.removeprefix("file:").lstrip("/")


@contextmanager
def writing(place: Arena, shape: Shape, name: str) -> Iterator[Book]:
    """Both writers, each in a thread, until the block ends."""
    book, stop = Book(), threading.Event()
    writers = Writers(place, shape, name, book, _samples(place, shape, name))
    threads = [
        threading.Thread(target=_often, args=(act, book, stop))
        for act in (writers.upsert, writers.mark)
    ]
    for thread in threads:
        thread.start()
    try:
        yield book
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _often(act: Callable[[], None], book: Book, stop: threading.Event) -> None:
    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        due += EVERY_S
        since = time.monotonic()
        try:
            act()
        except Py4JJavaError as error:
            book.failures.append(str(error.java_exception)[:200])
        book.took_s.append(time.monotonic() - since)
        book.commits += 1


def _samples(place: Arena, shape: Shape, name: str) -> list[pa.Table]:
    """Rows of each partition to make new versions of."""
    loaded = place.loaded(name)
    found: dict[str, str] = {}
    for file in live_files(loaded, loaded.head("main").snapshot_id).data:
        found.setdefault(file.partition, file.path)
    paths = [found[text] for text in sorted(found)]
    assert len(paths) == shape.partitions
    return [pq.read_table(_local(path)).slice(0, 50_000) for path in paths]


def found(place: Arena, name: str, ids: set[int]) -> set[Row]:
    """Rows of some keys in a table to which no delete applies any more."""
    loaded = place.loaded(name)
    live = live_files(loaded, loaded.head("main").snapshot_id)
    left = [file for scope in live.scopes for file in live.files_of_scope(scope) if file.deletes]
    assert not left, f"{len(left)} files with deletes"
    rows: set[Row] = set()
    for file in live.data:
        keys = [("id", "in", sorted(ids))]
        table = pq.read_table(_local(file.path), columns=["id", "quantity"], filters=keys)
        rows |= set(zip(table["id"].to_pylist(), table["quantity"].to_pylist(), strict=True))
    return rows
