"""`firnline run` beside writers, and runs that are killed or told to stop: no row is lost, none
comes back, and no file is left that nothing names."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.base.times import DAY_MS
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.table.catalog_client import Tables
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tests.integration.standalone.conftest import Run
from tests.kit.long_run import mark_long

pytestmark = [pytest.mark.stack, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
Begin = Callable[..., subprocess.Popen[str]]


class Writer:
    """Appends twice a second, and knows every row that was committed."""

    def __init__(self, lake: RestCatalog, name: str) -> None:
        self._table = lake.load_table(name)
        self.ids: set[int] = set()
        self.commits = 0

    def append(self, rows: int = 5) -> None:
        ids = range(len(self.ids), len(self.ids) + rows)
        batch = pa.table({"id": ids, "v": [f"r{one}" for one in ids]}, schema=SCHEMA)
        while True:
            try:
                self._table.refresh()
                self._table.append(batch)
            except CommitFailedException:
                continue
            self.ids.update(ids)
            self.commits += 1
            return

    @contextmanager
    def at_work(self) -> Iterator[None]:
        stop = threading.Event()

        def write() -> None:
            while not stop.wait(0.5):
                self.append()

        thread = threading.Thread(target=write)
        thread.start()
        yield
        stop.set()
        thread.join()


def made(lake: RestCatalog, namespace: str) -> str:
    name = f"{namespace}.t"
    lake.create_table(name, schema=SCHEMA, properties={"format-version": "2"})
    return name


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_beside_a_writer_rows_stay(
    lake: RestCatalog, namespace: str, spark: Any, firnline: Run
) -> None:
    """PyIceberg appends, Spark deletes by position before and while the run is at work."""
    name = made(lake, namespace)
    writer = Writer(lake, name)
    for _ in range(10):
        writer.append(20)
    spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    spark.sql(f"DELETE FROM lake.{name} WHERE id % 40 = 7")
    gone = {one for one in writer.ids if one % 40 == 7}
    with writer.at_work():
        before = writer.commits
        done = firnline("run", name, "compact", "--all-partitions", "--verify", "--json")
        meanwhile = writer.commits - before
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one["outcome"] for one in told if one["event"] == "ended"][-1] == "committed"
    assert {one["outcome"] for one in told if one["event"] == "compared"} == {"equal"}
    assert meanwhile > 2
    table = lake.load_table(name)
    assert ids(table) == sorted(writer.ids - gone)
    seen = spark.sql(f"SELECT id FROM lake.{name}").collect()
    assert sorted(row.id for row in seen) == sorted(writer.ids - gone)


def ours(table: Table) -> set[str]:
    """Files of Firnline's on the storage."""
    root = Path(table.metadata.location.removeprefix("file:"))
    return {path.name for path in root.rglob("firnline-*")}


# SIGTERM ends it in order, which is shown by a unit, too.
@pytest.mark.parametrize("how", mark_long((signal.SIGKILL, signal.SIGTERM), but=(signal.SIGKILL,)))
def test_a_run_that_is_ended_in_the_middle(
    lake: RestCatalog,
    namespace: str,
    begun: Begin,
    firnline: Run,
    catalog_uri: str,
    how: signal.Signals,
) -> None:
    """After a signal nothing is left, or the commit is there. After `kill -9` the write-ahead list
    names what is left; the next run does the work, and one that comes when the list is old enough
    sweeps."""
    tables = Tables(catalog_uri)
    name = made(lake, namespace)
    writer = Writer(lake, name)
    for _ in range(30):
        writer.append(4_000)
    table = lake.load_table(name)
    process = begun("run", name, "compact", "--all-partitions", "--json")
    until = time.monotonic() + 120
    while not any(one.endswith(".parquet") for one in ours(table)) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.001)
    process.send_signal(how)
    said, errors = process.communicate(timeout=120)
    left = ours(table)
    committed = table.refresh().current_snapshot().summary.operation.value == "replace"
    assert ids(table) == sorted(writer.ids)
    if how is signal.SIGKILL:
        assert left
    else:
        assert process.returncode in (0, 130), errors
        live = {Path(path).name for path in table.inspect.files()["file_path"].to_pylist()}
        assert left <= live, said
        assert committed == (process.returncode == 0)
    again = firnline("run", name, "compact", "--all-partitions", "--json")
    assert again.returncode == 0, again.stderr
    assert table.refresh().current_snapshot().summary.operation.value == "replace"
    assert how is not signal.SIGKILL or left <= ours(table)  # too young to be swept
    days_later = int(time.time() * 1000) + 2 * DAY_MS
    sweeper = OutputSweeper(tables, lambda: days_later, DAY_MS, lambda _: days_later)
    swept = sweeper.sweep(tables.load_named((namespace,), "t").identity)
    assert bool(swept.lists) == (how is signal.SIGKILL)
    live = {Path(path).name for path in table.refresh().inspect.files()["file_path"].to_pylist()}
    assert ours(table) <= live
    assert ids(table) == sorted(writer.ids)
