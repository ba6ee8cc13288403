"""Writers as users have them, one row of `ENGINES` each: Flink's upserts, Spark Structured
Streaming, PyIceberg, DuckDB, and the Iceberg sink of Kafka Connect (`connect`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from bench.soak.connect import connect_worker, produce_rows, read_failed_commits
from bench.soak.writers import NAMESPACE
from tests.kit.duck import connect_duckdb
from tests.kit.flink import flink_sql

FIELDS = pa.schema([("id", pa.int64()), ("v", pa.int64())])
CHECKPOINT_S = 10.0  # of the streams: Flink, Spark and Kafka Connect
STATEMENT_S = 5.0  # between two statements of a table
LOOK_S = 1.0
DRAIN_S = 300.0  # at most, until Kafka Connect has committed all rows of its topic
STREAM_ROWS = 20  # a second
KEYS = 500  # of Flink's upserts
INSERTED, CHANGED = 50, 10  # rows of a statement
LAST = 100_000  # number of the last row; Flink keeps all numbers up to it in its checkpoints
Rows = Mapping[int, int]


@dataclass
class Book:
    """What was written to one table. `system`: what maintains the table; `way`: how its writer
    reaches the catalog. `commits`: ids of the writer's snapshots, as samples have seen them."""

    engine: str
    way: str
    system: str
    statements: int = 0
    failures: list[str] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"{self.engine}_{self.way}_{self.system}"

    @property
    def tried(self) -> int:
        """Statements, or the commits of a stream with those that failed."""
        return self.statements or len(self.commits) + len(self.failures)


@dataclass(frozen=True)
class Stage:
    """What writers work with. `uris`: the catalog by way; `spark` has a catalog of each name."""

    uris: Mapping[str, str]
    spark: Any
    kafka: str
    folder: Path
    stop: threading.Event

    def read_rows(self, name: str) -> list[tuple[int, int]]:
        """Return the rows of a table, as Spark reads them."""
        way = next(iter(self.uris))
        found = self.spark.sql(f"SELECT id, v FROM {way}.{NAMESPACE[0]}.{name}").collect()
        return sorted((row[0], row[1]) for row in found)


def write_by_flink(stage: Stage, books: Sequence[Book]) -> None:
    """Upsert numbers 0, 1, ... by number modulo KEYS. A job that fails goes on after the last
    number that was committed."""
    with flink_sql(stage.uris, stage.folder / "flink.log", CHECKPOINT_S) as flink:
        jobs = {}
        for book in books:
            jobs[book.name] = flink.start(_flink_insert(flink, book, 0))
        while not stage.stop.wait(LOOK_S):
            for book in books:
                if (job := jobs[book.name]).status == "FAILED":
                    book.failures.append(job.read_failure())
                    first = max((v for _, v in stage.read_rows(book.name)), default=-1) + 1
                    jobs[book.name] = flink.start(_flink_insert(flink, book, first))
        for job in jobs.values():
            job.cancel()


def _flink_insert(flink: Any, book: Book, first: int) -> str:
    source = f"numbers_{book.name}_{first}"
    flink.execute(
        f"CREATE TEMPORARY TABLE {source} (n BIGINT) WITH ('connector'='datagen', "
        f"'rows-per-second'='{STREAM_ROWS}', 'fields.n.kind'='sequence', "
        f"'fields.n.start'='{first}', 'fields.n.end'='{LAST}')"
    )
    table = f"{book.way}.{NAMESPACE[0]}.{book.name}"
    options = "/*+ OPTIONS('upsert-enabled'='true') */"
    return f"INSERT INTO {table} {options} SELECT MOD(n, {KEYS}), n FROM {source}"


def write_by_spark(stage: Stage, books: Sequence[Book]) -> None:
    """Append numbers 0, 1, ...; a query that fails goes on from its checkpoint."""
    stage.spark.createDataFrame([(0,)], "id int")  # makes the session this thread's: toTable asks
    queries = {book.name: _spark_query(stage, book) for book in books}
    while not stage.stop.wait(LOOK_S):
        for book in books:
            if not (query := queries[book.name]).isActive:
                book.failures.append(str(query.exception()))
                queries[book.name] = _spark_query(stage, book)
    for query in queries.values():
        query.stop()


def _spark_query(stage: Stage, book: Book) -> Any:
    rows = stage.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", INSERTED).load()
    stream = rows.selectExpr("value AS id", "value AS v").writeStream.format("iceberg")
    stream = stream.trigger(processingTime=f"{CHECKPOINT_S:.0f} seconds")
    stream = stream.option("checkpointLocation", str(stage.folder / "checkpoints" / book.name))
    return stream.toTable(f"{book.way}.{NAMESPACE[0]}.{book.name}")


def write_by_connect(stage: Stage, books: Sequence[Book]) -> None:
    """Append numbers 0, 1, ... of a topic by a connector for each table."""
    tables = {book.name: stage.uris[book.way] for book in books}
    log = stage.folder / "connect.log"
    with connect_worker(stage.kafka, tables, CHECKPOINT_S, stage.folder / "connect", log):
        written = produce_rows(stage.kafka, STREAM_ROWS, stage.stop)
        end = time.monotonic() + DRAIN_S
        while time.monotonic() < end and any(
            len(stage.read_rows(book.name)) < written for book in books
        ):
            time.sleep(LOOK_S)
    for book in books:
        book.rows |= {number: number for number in range(written)}
        book.failures += read_failed_commits(log, book.name)


def write_by_pyiceberg(stage: Stage, books: Sequence[Book]) -> None:
    """Appends, and copy-on-write deletes."""
    _write_in_threads(stage, books, _pyiceberg_statements)


@contextmanager
def _pyiceberg_statements(stage: Stage, book: Book) -> Iterator[Callable[[int], None]]:
    catalog = RestCatalog(book.way, uri=stage.uris[book.way])

    def execute(number: int) -> None:
        table = catalog.load_table((*NAMESPACE, book.name))
        if number % 3 == 2:
            gone = list(book.rows)[::7][:CHANGED]
            table.delete(f"id IN ({', '.join(map(str, gone))})")
            book.rows = {key: v for key, v in book.rows.items() if key not in set(gone)}
        else:
            new = range(number * INSERTED, (number + 1) * INSERTED)
            table.append(pa.table([list(new), list(new)], schema=FIELDS))
            book.rows |= {key: key for key in new}

    yield execute


def write_by_duckdb(stage: Stage, books: Sequence[Book]) -> None:
    """Inserts, and merge-on-read deletes and updates."""
    _write_in_threads(stage, books, _duckdb_statements)


@contextmanager
def _duckdb_statements(stage: Stage, book: Book) -> Iterator[Callable[[int], None]]:
    with connect_duckdb(stage.uris[book.way]) as connection:
        table = f"ice.{NAMESPACE[0]}.{book.name}"

        def execute(number: int) -> None:
            some = list(book.rows)[::7][:CHANGED]
            listed = ", ".join(map(str, some))
            if number % 4 == 1:
                connection.execute(f"DELETE FROM {table} WHERE id IN ({listed})")
                book.rows = {key: v for key, v in book.rows.items() if key not in set(some)}
            elif number % 4 == 3:
                connection.execute(f"UPDATE {table} SET v = {-number} WHERE id IN ({listed})")
                book.rows |= dict.fromkeys(some, -number)
            else:
                new = range(number * INSERTED, (number + 1) * INSERTED)
                values = ", ".join(f"({one}, {one})" for one in new)
                connection.execute(f"INSERT INTO {table} VALUES {values}")
                book.rows |= {key: key for key in new}

        yield execute


def _write_in_threads(stage: Stage, books: Sequence[Book], open_writer: Any) -> None:
    """A thread for each table: a statement that fails has changed nothing, and the next is
    tried."""

    def write(book: Book) -> None:
        with open_writer(stage, book) as execute:
            for number in count():
                if stage.stop.wait(STATEMENT_S if number else 0):
                    return
                book.statements += 1
                try:
                    execute(number)
                except Exception as error:
                    book.failures.append(str(error))

    threads = [threading.Thread(target=write, args=(book,)) for book in books]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def expect_upserts(found: Sequence[tuple[int, int]], _: Book) -> Rows:
    """Return the newest number of each key, up to the last that was committed."""
    last = max((v for _, v in found), default=-1)
    return {v % KEYS: v for v in range(max(last + 1 - KEYS, 0), last + 1)}


def expect_all(found: Sequence[tuple[int, int]], _: Book) -> Rows:
    """Return every number up to the last that was committed."""
    return {number: number for number in range(max((v for _, v in found), default=-1) + 1)}


def expect_statements(_: Sequence[tuple[int, int]], book: Book) -> Rows:
    """Return what the statements have left."""
    return book.rows


@dataclass(frozen=True)
class Engine:
    """`write` returns when the stage stops. `expect`: rows by id, of those that were found."""

    write: Callable[[Stage, Sequence[Book]], None]
    expect: Callable[[Sequence[tuple[int, int]], Book], Rows]


ENGINES: Mapping[str, Engine] = {
    "flink": Engine(write_by_flink, expect_upserts),
    "spark": Engine(write_by_spark, expect_all),
    "connect": Engine(write_by_connect, expect_statements),
    "pyiceberg": Engine(write_by_pyiceberg, expect_statements),
    "duckdb": Engine(write_by_duckdb, expect_statements),
}
