"""The buckets of a planner, opened without a broker."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from weakref import ref

import pytest
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.assignments import Board
from firnline_domain.settings.policies import TablePolicies
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.drivers.kafka.local_store import LocalStore, StorePosition, shared_cache
from firnline_planner.drivers.kafka.owned_buckets import OwnedBuckets
from firnline_planner.placement.routing import BucketFleet
from firnline_planner.state.encoding import ref_key, to_bytes


class Changelog:
    """One that holds a single table."""

    topic_id = "id"

    def add_partitions(self, buckets: int) -> None:
        """It has a partition for each bucket."""

    def catch_up(self, stores: dict[int, LocalStore], now_ms: int) -> int:
        table = Table(TableCounters(TableName("u", ("db",), "t"), MAIN, known=True))
        for store in stores.values():
            store.write_changes(
                {ref_key("u", MAIN): to_bytes(table)}, StorePosition("id", 1, now_ms)
            )
        return len(stores)


@pytest.fixture
def holdings(tmp_path: Path) -> Iterator[OwnedBuckets]:
    changelog, log = Changelog(), Log("planner")
    found = OwnedBuckets(
        tmp_path,
        changelog,  # type: ignore[arg-type]
        Thresholds(),
        TablePolicies,
        log,
        lambda: 1,
        shared_cache(),
        BucketFleet(Board(8), RecordCodec()),
    )
    yield found
    found.close([0, 1])
    gc.unfreeze()


def test_no_collection_goes_through_what_a_start_has_read(holdings: OwnedBuckets) -> None:
    holdings.open([0])
    assert holdings[0].bucket.table_count == 1
    assert not any(one is holdings[0].bucket for one in gc.get_objects())


def test_nor_through_what_is_read_again_after_a_refused_batch(holdings: OwnedBuckets) -> None:
    holdings.open([0])
    before = holdings[0].bucket
    holdings.reopen()
    assert holdings[0].bucket is not before
    assert not any(one is holdings[0].bucket for one in gc.get_objects())


def test_what_is_let_go_of_needs_no_collection(holdings: OwnedBuckets) -> None:
    holdings.open([0, 1])
    gone = [ref(one) for one in holdings.buckets]
    gc.disable()
    try:
        holdings.reopen()
        assert [one() for one in gone] == [None, None]
        gone = [ref(one) for one in holdings.buckets]
        holdings.close([0, 1])
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_a_bucket_that_is_held_is_not_opened_again(holdings: OwnedBuckets) -> None:
    holdings.open([0])
    before = holdings[0]
    holdings.open([0, 1])
    assert holdings[0] is before
    assert [one.table_count for one in holdings.buckets] == [1, 1]
