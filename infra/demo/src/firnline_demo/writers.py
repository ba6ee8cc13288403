"""Three real writers at once, each on its own table, all through the gateway."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from firnline_demo.model import Row, TableModel
from firnline_demo.session import CATALOG
from firnline_demo.upserts import upsert

NAMESPACE = "demo"
APPEND_ROWS = 400
UPSERT_ROWS = 150
UPSERT_KEYS = 8_000  # per tenant; the base holds every one of them once
INSERT_ROWS = 600
BASE_ROWS = 40_000  # what `accounts` and `orders` hold before their writers start
TRIES = 12  # Spark's DELETE is replanned after a swap under its feet (README, "For writers")

CLICKS = pa.schema(
    [("id", pa.int64()), ("page", pa.string()), ("user", pa.string()), ("at", pa.int64())]
)
# Small targets make fragments of small files; a fleet leaves Iceberg's 512 MB.
# Firnline watches and does nothing until the owner says `firnline.enabled` = true.
PROPERTIES = {
    "write.target-file-size-bytes": str(8 * 1024 * 1024),
    "format-version": "2",
    "firnline.enabled": "false",
}


@dataclass
class Writer:
    """One writer's thread: commits until it is stopped, pauses where it is told to."""

    model: TableModel
    commit: Callable[[TableModel], None]
    pause_s: float
    stopping: threading.Event
    going: threading.Event
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Run in the background."""
        self.thread = threading.Thread(target=self._run, name=self.model.name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.going.wait()
                with self.model.lock:
                    self.commit(self.model)
                    self.model.commits += 1
                self.stopping.wait(self.pause_s)
        except BaseException as error:
            self.error = error


def clicks(catalog: RestCatalog, dice: random.Random) -> Callable[[TableModel], None]:
    """Many small appends by PyIceberg."""
    table = catalog.create_table(f"{NAMESPACE}.clicks", CLICKS, properties=PROPERTIES)

    def commit(model: TableModel) -> None:
        start = model.commits * APPEND_ROWS
        rows: list[Row] = [
            (start + n, f"/page/{dice.randrange(50)}", f"user-{dice.randrange(500)}", start)
            for n in range(APPEND_ROWS)
        ]
        columns: list[Any] = list(zip(*rows, strict=True))
        table.append(pa.table(columns, schema=CLICKS))
        model.append(rows)

    return commit


def accounts(
    spark: SparkSession, dice: random.Random, model: TableModel
) -> Callable[[TableModel], None]:
    """An upsert stream: every commit brings equality deletes; one id in fifty is NULL."""
    name = f"{CATALOG}.{NAMESPACE}.accounts"
    spark.sql(
        f"CREATE TABLE {name} (tenant STRING, id BIGINT, balance DOUBLE, version BIGINT) "
        f"USING iceberg TBLPROPERTIES ({properties()})"
    )
    base: list[Row] = [
        (f"tenant-{n % 5}", n // 5, dice.randrange(10**6) / 100, -1) for n in range(BASE_ROWS)
    ]
    insert(spark, name, base)
    model.upsert(base)

    def commit(model: TableModel) -> None:
        rows: dict[Row, Row] = {}
        for _ in range(UPSERT_ROWS):
            tenant = f"tenant-{dice.randrange(5)}"
            number = None if dice.randrange(50) == 0 else dice.randrange(UPSERT_KEYS)
            rows[tenant, number] = (tenant, number, dice.randrange(10**6) / 100, model.commits)
        upsert(spark, name, ("tenant", "id"), list(rows.values()))
        model.upsert(rows.values())

    return commit


def orders(
    spark: SparkSession, dice: random.Random, model: TableModel
) -> Callable[[TableModel], None]:
    """Spark inserts, and merge-on-read DELETEs that leave position-delete files."""
    name = f"{CATALOG}.{NAMESPACE}.orders"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, region STRING, amount DOUBLE) USING iceberg "
        f"PARTITIONED BY (region) TBLPROPERTIES ({properties()}, "
        "'write.delete.mode'='merge-on-read')"
    )

    def add(start: int, count: int) -> None:
        rows: list[Row] = [
            (start + n, ("north", "south", "east")[n % 3], dice.randrange(10**5) / 100)
            for n in range(count)
        ]
        insert(spark, name, rows)
        model.append(rows)

    def delete() -> None:
        rest = dice.randrange(97)
        attempt(model, lambda: spark.sql(f"DELETE FROM {name} WHERE id % 97 = {rest}"))
        model.delete_where(lambda row: int(str(row[0])) % 97 == rest)

    def commit(model: TableModel) -> None:
        if model.commits % 3 == 2:
            delete()
        else:
            add(BASE_ROWS + model.commits * INSERT_ROWS, INSERT_ROWS)

    add(0, BASE_ROWS)
    return commit


def insert(spark: SparkSession, table: str, rows: list[Row]) -> None:
    """One append by Spark, one file per partition."""
    frame = spark.createDataFrame(rows, spark.table(table).schema)
    frame.coalesce(1).writeTo(table).append()


def attempt(model: TableModel, action: Callable[[], object]) -> None:
    """A writer's own retry: its plan read files that have been replaced since."""
    for left in range(TRIES - 1, -1, -1):
        try:
            action()
            return
        except Exception as error:
            if left == 0 or not is_conflict(error):
                raise
            model.retries += 1
            time.sleep(0.2)


def is_conflict(error: Exception) -> bool:
    """True where Iceberg refused the commit and the writer may plan again."""
    text = str(error)
    return any(
        sign in text for sign in ("ValidationException", "CommitFailedException", "data files")
    )


def properties() -> str:
    """Table properties as Spark SQL takes them."""
    return ", ".join(f"'{name}'='{value}'" for name, value in PROPERTIES.items())
