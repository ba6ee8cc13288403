"""Three real writers at once, each on its own table, all through the gateway."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from firnline_demo.landing import MARKER, commit_once, find_marker
from firnline_demo.model import Row, TableModel
from firnline_demo.upserts import commit_upsert

APPEND_ROWS = 400
UPSERT_ROWS = 1_500
UPSERT_KEYS = 8_000  # per tenant; the base holds every one of them once
INSERT_ROWS = 600
DELETED_SHARE = 20  # every third commit deletes one order in so many
BASE_ROWS = 40_000  # what `accounts_writer` and `orders_writer` hold before their writers start

CLICKS = pa.schema(
    [("id", pa.int64()), ("page", pa.string()), ("user", pa.string()), ("at", pa.int64())]
)
# Small targets make fragments of small files; a fleet leaves Iceberg's 512 MB.
# Its writers never pause, and two minutes are short: hot partitions wait 5 s instead of a minute.
# Firnline watches and does nothing until the owner says `firnline.enabled` = true.
PROPERTIES = {
    "write.target-file-size-bytes": str(8 * 1024 * 1024),
    "format-version": "2",
    "firnline.rewrite.hot-max-ms": "5000",
    "firnline.enabled": "false",
    "firnline.shadow": "false",  # also where a running planner is in shadow mode
}


@dataclass
class DemoWriter:
    """A writer's thread: it commits until it is stopped, and pauses on request."""

    model: TableModel
    commit: Callable[[TableModel], None]
    pause_s: float
    stopping: threading.Event
    going: threading.Event
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Start the thread in the background."""
        self.thread = threading.Thread(
            target=self._commit_until_stopped, name=self.model.name, daemon=True
        )
        self.thread.start()

    def _commit_until_stopped(self) -> None:
        try:
            while not self.stopping.is_set():
                self.going.wait()
                with self.model.lock:
                    self.commit(self.model)
                    self.model.commits += 1
                self.stopping.wait(self.pause_s)
        except BaseException as error:
            self.error = error


def clicks_writer(
    catalog: RestCatalog, namespace: str, dice: random.Random
) -> Callable[[TableModel], None]:
    """Return a writer of many small appends by PyIceberg."""
    name = f"{namespace}.clicks"
    catalog.create_table(name, CLICKS, properties=PROPERTIES)
    landed = find_marker(catalog, name)

    def commit(model: TableModel) -> None:
        start = model.commits * APPEND_ROWS
        rows: list[Row] = [
            (start + n, f"/page/{dice.randrange(50)}", f"user-{dice.randrange(500)}", start)
            for n in range(APPEND_ROWS)
        ]
        columns: list[Any] = list(zip(*rows, strict=True))
        batch = pa.table(columns, schema=CLICKS)
        commit_once(
            model, lambda marker: catalog.load_table(name).append(batch, {MARKER: marker}), landed
        )
        model.append(rows)

    return commit


def accounts_writer(
    catalog: RestCatalog,
    spark: SparkSession,
    namespace: str,
    dice: random.Random,
    model: TableModel,
) -> Callable[[TableModel], None]:
    """Return a writer of an upsert stream: every commit adds equality deletes; one id in fifty is
    NULL."""
    name = f"{catalog.name}.{namespace}.accounts"
    spark.sql(
        f"CREATE TABLE {name} (tenant STRING, id BIGINT, balance DOUBLE, version BIGINT) "
        f"USING iceberg TBLPROPERTIES ({sql_properties()})"
    )
    base: list[Row] = [
        (f"tenant-{n % 5}", n // 5, dice.randrange(10**6) / 100, -1) for n in range(BASE_ROWS)
    ]
    insert_rows(spark, name, base)
    model.upsert(base)
    landed = find_marker(catalog, f"{namespace}.accounts")

    def commit(model: TableModel) -> None:
        rows: dict[Row, Row] = {}
        for _ in range(UPSERT_ROWS):
            tenant = f"tenant-{dice.randrange(5)}"
            number = None if dice.randrange(50) == 0 else dice.randrange(UPSERT_KEYS)
            rows[tenant, number] = (tenant, number, dice.randrange(10**6) / 100, model.commits)
        fresh = list(rows.values())
        keys = ("tenant", "id")
        commit_once(
            model, lambda marker: commit_upsert(spark, name, keys, fresh, {MARKER: marker}), landed
        )
        model.upsert(fresh)

    return commit


def orders_writer(
    catalog: RestCatalog,
    spark: SparkSession,
    namespace: str,
    dice: random.Random,
    model: TableModel,
) -> Callable[[TableModel], None]:
    """Return a writer of Spark inserts, and of merge-on-read DELETEs that leave position-delete
    files."""
    name = f"{catalog.name}.{namespace}.orders"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, region STRING, amount DOUBLE) USING iceberg "
        f"PARTITIONED BY (region) TBLPROPERTIES ({sql_properties()}, "
        "'write.delete.mode'='merge-on-read')"
    )

    landed = find_marker(catalog, f"{namespace}.orders")

    def make_rows(start: int, count: int) -> list[Row]:
        return [
            (start + n, ("north", "south", "east")[n % 3], dice.randrange(10**5) / 100)
            for n in range(count)
        ]

    def with_marker(action: Callable[[], object]) -> Callable[[str], object]:
        def run_marked(marker: str) -> object:
            # The only writer of this session that commits by Spark SQL.
            spark.conf.set(f"spark.sql.iceberg.snapshot-property.{MARKER}", marker)
            return action()

        return run_marked

    def commit(model: TableModel) -> None:
        if model.commits % 3 == 2:
            rest = dice.randrange(DELETED_SHARE)
            doomed = f"DELETE FROM {name} WHERE id % {DELETED_SHARE} = {rest}"
            commit_once(model, with_marker(lambda: spark.sql(doomed)), landed)
            model.delete_where(lambda row: int(str(row[0])) % DELETED_SHARE == rest)
        else:
            rows = make_rows(BASE_ROWS + model.commits * INSERT_ROWS, INSERT_ROWS)
            commit_once(model, with_marker(lambda: insert_rows(spark, name, rows)), landed)
            model.append(rows)

    base = make_rows(0, BASE_ROWS)
    insert_rows(spark, name, base)
    model.append(base)
    return commit


def insert_rows(spark: SparkSession, table: str, rows: list[Row]) -> None:
    """Append rows by Spark in one commit, one file per partition."""
    frame = spark.createDataFrame(rows, spark.table(table).schema)
    frame.coalesce(1).writeTo(table).append()


def sql_properties() -> str:
    """Return the table properties as Spark SQL takes them."""
    return ", ".join(f"'{name}'='{value}'" for name, value in PROPERTIES.items())
