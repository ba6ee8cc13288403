from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.identity import TableName
from firnline_iceberg.table.catalog_client import StoredMetadata
from firnline_listener.core.changes import find_changes
from firnline_listener.core.known_tables import KnownTable, KnownTables, Place
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


@pytest.mark.parametrize("path", ["s3://b/t#1/metadata/v1.json", "s3://b/v1.json", "//x", "s3://b"])
def test_no_place_of_a_tables_metadata_stands_for_a_listing(path: str) -> None:
    """One that may be read in two ways, or is not below a folder."""
    known = KnownTables()
    known.keep_table(KnownTable(TABLE, {}, None, 1, outline=b"x", location=path))
    for namespace in ((), ("other",)):
        listing = Doorbell("lake", namespace)
        assert known.resolve(listing) == Place("lake", namespace)
    odd = Doorbell("lake", metadata_location="s3://c/t?x/metadata/v1.json")
    assert known.resolve(odd) == Place("lake")
    known.forget(known.by_key[TABLE.key])
