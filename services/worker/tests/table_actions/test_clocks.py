"""What takes rows or files away, or cannot be taken back, is not done by one clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.policy.reasons import Reason
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.connection import call_metrics
from firnline_worker.table_actions.archive_partitions import Archiver
from firnline_worker.table_actions.create_tags import TagCreator
from firnline_worker.table_actions.expire_partitions import PartitionExpirer
from firnline_worker.table_actions.expire_snapshots import Expirer
from firnline_worker.table_actions.remove_orphans import OrphanRemover
from firnline_worker.table_actions.upgrade_format import FormatUpgrader
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.types import NestedField, TimestampType

from tests.kit.expiries import expire
from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

NOTHING: Any = None  # of Java: nothing is committed
WISHES = {
    "firnline.partitions.ttl-hours": "720",
    "firnline.partitions.column": "at",
    "firnline.tags.create": "daily-{date}",
}
Own = Callable[[], int]


def now_ms() -> int:
    return int(time.time() * 1000)


def expire_partitions(tables: Any, own: Own, order: TableOrder) -> Any:
    return PartitionExpirer(tables, NOTHING, "w", own).expire(order)


def archive(tables: Any, own: Own, order: TableOrder) -> Any:
    return Archiver(tables, NOTHING, "w", own).archive(order)


def create_tags(tables: Any, own: Own, order: TableOrder) -> Any:
    return TagCreator(tables, "w", own).create(order)


def expire_snapshots(tables: Any, own: Own, order: TableOrder) -> Any:
    given = expire("t", order.table, order.ordered_at_ms, order.ordered_at_ms, agreed=True)
    return Expirer(tables, NOTHING, lambda _: (), "w", own).expire(given)


def remove_orphans(tables: Any, own: Own, order: TableOrder) -> Any:
    return OrphanRemover(tables, "w", own).remove(order)


def upgrade_format(tables: Any, own: Own, order: TableOrder) -> Any:
    return FormatUpgrader(tables, NOTHING, "w", own).upgrade(order)


ACTIONS = [
    expire_partitions, archive, create_tags, expire_snapshots, remove_orphans, upgrade_format,
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> tuple[Any, TableName, Path]:
    """A table with a row of 26 days and one of today, in two files."""
    catalog = MemoryCatalog(f"file://{tmp_path}")
    table = catalog.make("db.t", Schema(NestedField(1, "at", TimestampType())), **WISHES)
    for days in (26, 0):
        at = pa.array([(now_ms() - days * DAY_MS) * 1000], pa.timestamp("us"))
        table.append(pa.table({"at": at}))
    tables: Any = MemoryTables(catalog)
    name = TableName(str(table.metadata.table_uuid), ("db",), "t")
    found = tables.load(name)
    ToOutputFile.table_metadata(
        found.metadata, found.io.new_output(found.metadata_location), overwrite=True
    )
    return tables, name, tmp_path


def order_at(name: TableName, at_ms: int) -> TableOrder:
    numbers = {"ttl_h": 720.0, "archive_h": 720.0, "min_age_h": 24.0, "quarantine_h": 24.0}
    given = {**numbers, "announced_ms": float(at_ms - 7 * DAY_MS)}
    return TableOrder("t", name, "a", Reason.REQUESTED, 1, 1, at_ms, at_ms + HOUR_MS, given)


@pytest.mark.parametrize("act", ACTIONS)
@pytest.mark.parametrize("days", [6.9, 0.004, -6.9, 36_500])
@pytest.mark.parametrize("planner_is_right", [True, False])
def test_a_host_whose_clock_is_wrong_takes_nothing_away(
    place: tuple[Any, TableName, Path], act: Any, days: float, planner_is_right: bool
) -> None:
    """Also where the order is of the same host, as those of `firnline run` are. The storage is
    asked, and dates what it gets."""
    tables, name, folder = place
    before = {one for one in folder.rglob("*") if one.is_file()}
    wrong_ms = now_ms() + int(days * DAY_MS)
    order = order_at(name, now_ms() if planner_is_right else wrong_ms)
    with pytest.raises(TaskRefused) as refused:
        act(tables, lambda: wrong_ms, order)
    assert (refused.value.reason, refused.value.retryable) == ("clocks_differ", True)
    assert {one for one in folder.rglob("*") if one.is_file()} == before
    assert tables.load(name).head_id("main") is not None


@pytest.mark.parametrize("act", ACTIONS)
def test_an_order_of_a_planner_that_is_ahead_takes_nothing_away(
    place: tuple[Any, TableName, Path], act: Any
) -> None:
    tables, name, _ = place
    with pytest.raises(TaskRefused) as refused:
        act(tables, now_ms, order_at(name, now_ms() + DAY_MS))
    assert refused.value.reason == "clocks_differ"


def test_a_right_clock_keeps_rows_of_26_days(place: tuple[Any, TableName, Path]) -> None:
    tables, name, _ = place
    assert expire_partitions(tables, now_ms, order_at(name, now_ms())).numbers == {}


@pytest.mark.parametrize("act", ACTIONS)
def test_the_catalogs_clock_counts_too(
    place: tuple[Any, TableName, Path], act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local folder has the clock of this host; the catalog's answers are dated elsewhere."""
    tables, name, _ = place
    monkeypatch.setattr(call_metrics, "_dates", {})
    call_metrics.note_date(name.catalog, {"Date": "Mon, 26 Nov 2018 10:00:00 GMT"})
    with pytest.raises(TaskRefused, match="the catalog 2018-11-26T10:00:0"):
        act(tables, now_ms, order_at(name, now_ms()))


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 26 Nov 99999 10:00:00 GMT"])
def test_a_date_that_is_none_is_no_clock(date: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_metrics, "_dates", {})
    call_metrics.note_date("lake", {"Date": date})
    call_metrics.note_date("lake", {})
    assert call_metrics.catalog_now_ms("lake") is None
