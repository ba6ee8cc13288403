"""`make soak WRITERS=engines`: five engines write at once, each to a table that Firnline
looks after through the gateway, to one past it, to one that nobody looks after, and to one that
Iceberg's own actions do. Leaves bench/results/soak_engines.json, and its table in soak.md."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.servers.artifacts import iceberg_jar
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from bench.rewrite.markdown import first_cause
from bench.soak.engines import ENGINES, Book, Stage
from bench.soak.ground import PARTS, Ground
from bench.soak.report import MAINTAINERS
from bench.soak.samples import Sampler, plain
from bench.soak.writers import NAMESPACE
from tests.kit.spark_session import spark_builder

SIDES = (("with", "gateway"), ("with", "direct"), ("without", "direct"), ("action", "direct"))
CAPTURED = ("postgres", "listener", *PARTS)  # commits past the gateway are noticed, too
SAMPLE_S = 15.0
ACTION_PAUSE_S = 30.0  # between two rounds of Iceberg's actions over its tables
RETAINED_S = 90.0  # as `properties` of the soak say it for Firnline
SETTLE_S = 20.0
START_S = 240.0  # at most, until each table has a commit: from then on the minutes count
COLUMNS = (NestedField(1, "id", LongType(), required=True), NestedField(2, "v", LongType()))
OPTIONAL = (NestedField(1, "id", LongType()), COLUMNS[1])
OURS = "firnline.version"


def mix_writers(
    made: Ground, minutes: float, properties: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    """Let all engines write for so many minutes; return what became of statements and tables."""
    uris = {"gateway": made.by_gateway.uri, "direct": made.direct.uri}
    books = [Book(engine, way, system) for engine in ENGINES for system, way in SIDES]
    make_tables(RestCatalog("soak", uri=made.direct.uri), books, properties, made)
    stop, errors, samples = threading.Event(), list[BaseException](), list[dict[str, Any]]()
    with ExitStack() as held:
        spark = held.enter_context(spark_session(uris, folder))
        machine = held.enter_context(IcebergJvm(made.class_path, 128 << 20))
        stage = Stage(uris, spark, made.running.kafka, folder, stop)
        tables, java = Tables(made.direct), rest_catalog(machine.jvm, made.direct)
        sampler = Sampler(tables, java, machine.jvm, machine.pid, made.path)
        actions = Counter[str]()

        def run(act: Any, *given: Any) -> None:
            try:
                act(*given)
            except BaseException as error:  # a writer that cannot write ends the run
                errors.append(error)
                stop.set()

        threads = [
            threading.Thread(target=run, args=(one.write, stage, of_engine(books, name)))
            for name, one in ENGINES.items()
        ]
        maintained = [one.name for one in books if one.system == "action"]
        threads.append(threading.Thread(target=run, args=(act_on, stage, maintained, actions)))
        for one in threads:
            one.start()
        begun = time.monotonic()
        all_write = None
        while not stop.wait(SAMPLE_S):
            for book in books:
                book.commits |= writers_commits(tables, book)
            tried = {one: sum(book.tried for book in of_engine(books, one)) for one in ENGINES}
            print(tried, flush=True)
            now = time.monotonic()
            if all_write is None and (all(one.tried for one in books) or now > begun + START_S):
                all_write = now
            if all_write is not None and now > all_write + minutes * 60:
                break
        stop.set()
        for one in threads:
            one.join()
        if errors:
            raise errors[0]
        time.sleep(SETTLE_S)  # what Firnline has begun ends
        for book in books:
            book.commits |= writers_commits(tables, book)
        found = {book.name: stage.read_rows(book.name) for book in books}
        rows = {
            system: {one.name: len(found[one.name]) for one in books if one.system == system}
            for system in MAINTAINERS
        }
        for _ in range(2):  # the second time, with a JVM that has planned
            samples = [
                {"system": system, **plain(sampler.sample(some, minutes * 60))}
                for system, some in rows.items()
            ]
    return {
        "engines": [describe_book(book, found[book.name]) for book in books],
        "samples": samples,
        "actions": dict(actions),
    }


def of_engine(books: Sequence[Book], name: str) -> list[Book]:
    return [one for one in books if one.engine == name]


def make_tables(
    catalog: RestCatalog, books: Sequence[Book], properties: Mapping[str, str], made: Ground
) -> None:
    """Make the table of each book, for Firnline or not."""
    catalog.create_namespace_if_not_exists(NAMESPACE)
    for book in books:
        keyed = Schema(*COLUMNS, identifier_field_ids=[1])
        enabled = "true" if book.system == "with" else "false"
        table = catalog.create_table(
            (*NAMESPACE, book.name),
            keyed if book.engine == "flink" else Schema(*OPTIONAL),
            properties={**properties, "format-version": "2", "firnline.enabled": enabled},
        )
        made.path(table.location()).joinpath("data").mkdir(parents=True, exist_ok=True)


@contextmanager
def spark_session(uris: Mapping[str, str], folder: Path) -> Iterator[Any]:
    """A session with a catalog for each way."""
    builder = spark_builder(uris["direct"], iceberg_jar(), folder)
    for name, uri in uris.items():
        given = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": uri}
        for key, value in {**given, ".cache-enabled": "false"}.items():
            builder = builder.config(f"spark.sql.catalog.{name}{key}", value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def act_on(stage: Stage, names: Sequence[str], done: Counter[str]) -> None:
    """Iceberg's own rewrite and expiry of each table, again and again."""
    while not stage.stop.wait(ACTION_PAUSE_S):
        for name in names:
            if stage.stop.is_set():
                return
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - RETAINED_S))
            table = f"table => 'direct.{NAMESPACE[0]}.{name}'"
            options = "'partial-progress.enabled', 'true', 'remove-dangling-deletes', 'true'"
            options += ", 'delete-file-threshold', '1'"
            for call in (
                f"rewrite_data_files({table}, options => map({options}))",
                f"expire_snapshots({table}, older_than => TIMESTAMP '{at}')",
            ):
                try:
                    stage.spark.sql(f"CALL direct.system.{call}").collect()
                    done["done"] += 1
                except Exception as error:  # it lost against a writer
                    done["failed"] += 1
                    print("action", name, first_cause(str(error)), flush=True)


def writers_commits(tables: Tables, book: Book) -> set[int]:
    """Return the retained snapshots of a table that its stream has made."""
    if book.statements:
        return set()
    return {
        one.snapshot_id
        for one in tables.load_named(NAMESPACE, book.name).snapshots
        if one.summary is not None
        and one.summary.operation.value != "replace"
        and OURS not in one.summary.additional_properties
    }


def describe_book(book: Book, found: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return what became of a writer's statements, and whether its table has the right rows."""
    expected = sorted(ENGINES[book.engine].expect(found, book).items())
    return {
        "engine": book.engine, "way": book.way, "system": book.system,
        "statements": book.tried, "failed": len(book.failures),
        "failures": dict(Counter(map(first_cause, book.failures))),
        "rows": len(found), "rows_right": list(found) == expected,
    }  # fmt: skip
