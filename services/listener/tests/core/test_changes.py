from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.identity import TableName
from firnline_iceberg.table.catalog_client import StoredMetadata
from firnline_listener.core.changes import find_changes
from firnline_listener.core.known_tables import KnownTables, Place
from firnline_listener.port import Doorbell
from firnline_listener.sources.sweep import Sweep, SweepTimes

TABLE = TableName("u", ("ns",), "t")


@pytest.mark.parametrize("ms", [10**400, -(10**400), 2**64, -1, 0, None])
def test_no_time_in_a_tables_metadata_stops_the_sweep(ms: Any) -> None:
    known = KnownTables()
    metadata = {"table-uuid": "u", "last-updated-ms": ms, "refs": {}, "snapshots": []}
    known.keep_table(find_changes(None, TABLE, StoredMetadata("", metadata, "", 0), 1_000).known)
    sweep = Sweep("lake", (), known, SweepTimes(600), now=lambda: 0.0, now_ms=lambda: 1_000)
    assert [one.namespace for one in sweep.poll(0)][:1] == [()]


def test_names_that_are_asked_for_and_unknown_are_not_kept() -> None:
    known = KnownTables()
    for number in range(100):
        place = Place("lake", (str(number),), "t")
        assert not known.is_published(Doorbell("lake", (str(number),), "t"), place)
        assert known.names_in(place) == set()
    assert not known._names
