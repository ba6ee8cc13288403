"""Counted scans: by table and column, few of each, and sent once in a while."""

from __future__ import annotations

import json

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from firnline_domain.records.events import FilteredBy, PartitionClock, TableLayout, TableScanned
from firnline_gateway.reads.scan_counts import (
    KEPT_S,
    MAX_COLUMNS,
    UNKNOWN_S,
    Identities,
    ScanCounts,
    ScannedTable,
)
from firnline_gateway.reads.scan_sender import BATCH, ScanSender
from firnline_gateway.rest.scan_report import Scan, scan_of
from firnline_gateway.rest.table_layout import Loaded

from services.gateway.tests.conftest import UUID

TABLE = "/v1/w/namespaces/a%1Fb/tables/t"
NAME = TableName(UUID, ("a", "b"), "t")


def test_identities_are_few_and_grow_old() -> None:
    now = [0.0]
    known = Identities(2, lambda: now[0])
    first, second, third = (("w", "a", name) for name in "xyz")
    known.set_identity(first, Loaded("u1"))
    known.set_identity(second, None)
    assert (first in known, second in known, third in known) == (True, True, False)
    assert (known[second], known[first]) == (
        None,
        ScannedTable(TableName("u1", ("a",), "x", prefix="w")),
    )
    known.set_identity(third, Loaded("u3"))
    assert (first in known, second in known) == (True, False)  # asked for last
    now[0] = KEPT_S - 0.1
    assert first in known
    now[0] = KEPT_S
    assert first not in known
    known.set_identity(second, None)
    now[0] += UNKNOWN_S
    assert second not in known
    known.set_identity(second, Loaded("u2"))
    known.forget_names(second)
    assert second not in known


def scans(*files: int, by: tuple[str, ...] = ()) -> list[Scan]:
    return [Scan(one, frozenset(by)) for one in files]


def test_counts_are_of_so_many_tables_and_taken_once() -> None:
    counts = ScanCounts(1_000, most=2)
    names = [TableName(name, ("a",), name) for name in "xyz"]
    x, y, z = map(ScannedTable, names)
    assert [counts.add_scans(one, scans(2, 3)) for one in (x, y, z, x)] == [True, True, False, True]
    assert counts.take_events(1, 2_000) == [TableScanned(names[0], 1_000, 2_000, 4, 10)]
    assert counts.add_scans(z, scans(1))
    assert counts.take_events(9, 3_000) == [
        TableScanned(names[1], 1_000, 3_000, 2, 5),
        TableScanned(names[2], 2_000, 3_000, 1, 1),
    ]
    assert counts.take_events(9, 4_000) == []
    counts.add_scans(x, scans(1))
    # the clock was set back
    assert counts.take_events(9, 3_900) == [TableScanned(names[0], 3_900, 3_900, 1, 1)]


def test_scans_are_counted_by_the_columns_of_their_filters() -> None:
    counts, layout = ScanCounts(0), TableLayout(("id",), ())
    counts.add_scans(
        ScannedTable(NAME), [*scans(7), *scans(5, by=("id",)), *scans(3, 2, by=("day", "id"))]
    )
    counts.add_scans(ScannedTable(NAME, layout), scans(1, by=("day",)))
    [event] = counts.take_events(9, 1)
    assert (event.scans, event.data_files, event.layout) == (5, 18, layout)
    assert event.filtered == (FilteredBy("id", 3, 10), FilteredBy("day", 3, 6))
    counts.add_scans(ScannedTable(NAME), scans(1))
    [event] = counts.take_events(9, 2)
    assert event.filtered == ()


def test_columns_of_a_table_are_few() -> None:
    counts, several = ScanCounts(0), [f"c{number:02}" for number in range(MAX_COLUMNS + 1)]
    for column in (*several, *several):
        counts.add_scans(ScannedTable(NAME), scans(1, by=(column,)))
    [event] = counts.take_events(9, 1)
    assert [(one.column, one.scans) for one in event.filtered] == [(x, 2) for x in several[:-1]]
    assert event.scans == 2 * MAX_COLUMNS + 2


class Away(MemoryPublisher):
    """A broker that confirms nothing."""

    def flush(self, timeout_s: float = 30.0) -> bool:
        raise RetryLater("away")


def test_a_broker_that_is_away_costs_one_batch_and_stops_nothing() -> None:
    broker, counts = MemoryBroker(), ScanCounts(0)
    for number in range(BATCH + 1):
        counts.add_scans(ScannedTable(TableName(str(number), ("a",), "t")), scans(1))
    sender = ScanSender(counts, Away(broker), 0.01, Log("gateway"), lambda: 1)
    with pytest.raises(RetryLater):
        sender.send_counts()
    assert len(counts.take_events(BATCH, 2)) == 1
    sender.start()
    sender.stop(5)


@pytest.mark.parametrize("unit", ["hour", "day", "month", "year"])
@pytest.mark.parametrize(
    "until",
    ["9999-12-31T23:59:59.999999", "9999-12-31T23:59:59-23:59", "0001-01-01", "0001-01-01T00+23"],
)
def test_a_filter_up_to_the_end_of_the_calendar_is_counted(unit: str, until: str) -> None:
    """As `valid_to < '9999-12-31 ...'` in a table of versions."""
    part = {"type": "lt", "term": "at", "value": until}
    metrics = {"result-data-files": {"value": 3}}
    report = {"report-type": "scan-report", "metrics": metrics, "filter": part}
    scan = scan_of(json.dumps(report).encode(), 1_700_000_000_000)
    assert scan is not None
    clock = PartitionClock(0, 0, unit, "at")
    counts = ScanCounts(0)
    counts.add_scans(ScannedTable(NAME, TableLayout((), ("at",), clock)), [scan], 1_700_000_000_000)
    [event] = counts.take_events(1, 1_700_000_000_000)
    assert event.scans == 1
