"""A planner that stands by has at hand what another one keeps, on a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from firnline_adapters.kafka_admin.replication import Replication
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import TableName
from firnline_domain.records.assignments import Board
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.inputs import wall_ms
from firnline_planner.drivers.kafka import changelog, standby
from firnline_planner.drivers.kafka.changelog import Changelog
from firnline_planner.drivers.kafka.clients import KafkaClients
from firnline_planner.drivers.kafka.local_store import (
    FRESH_MS,
    Changes,
    LocalStore,
    Mark,
    shared_cache,
)
from firnline_planner.drivers.kafka.owned_buckets import OwnedBuckets
from firnline_planner.drivers.kafka.serve import topic_of
from firnline_planner.drivers.kafka.standby import ChangelogFollower
from firnline_planner.placement.routing import Fleet
from firnline_planner.state.encoding import ref_key, to_bytes

pytestmark = pytest.mark.stack

LOG = Log("planner")
BUCKET = 3


@pytest.fixture
def log_of_state(kafka: str) -> Changelog:
    app = f"planner-{uuid.uuid4().hex[:8]}"
    return changelog.opened(KafkaClients(kafka, app), topic_of(app), 8, Replication(1, 1))


@pytest.fixture
def follower(log_of_state: Changelog, tmp_path: Path) -> Iterator[ChangelogFollower]:
    found = ChangelogFollower(tmp_path, log_of_state, shared_cache(), LOG, wall_ms)
    found.start()
    yield found
    found.end()


def keep(log_of_state: Changelog, *uuids: str) -> None:
    """As another planner's transaction does."""
    producer = log_of_state.clients.producer(uuid.uuid4().hex)
    producer.init_transactions(30)
    producer.begin_transaction()
    for one in uuids:
        value = to_bytes(Table(TableCounters(TableName(one, ("db",), one), "main", known=True)))
        producer.produce(log_of_state.topic, value, ref_key(one, "main"), partition=BUCKET)
    producer.commit_transaction(30)


def wait_for(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_bucket_that_was_read_along_is_taken_over_without_reading(
    log_of_state: Changelog, follower: ChangelogFollower, tmp_path: Path
) -> None:
    keep(log_of_state, "t1", "t2")
    follower.follow([BUCKET])
    wait_for(lambda: log_of_state.read == 2)
    keep(log_of_state, "t3")
    wait_for(lambda: log_of_state.read == 3)
    fleet = Fleet(Board(8), RecordCodec())
    holdings = OwnedBuckets(
        tmp_path, log_of_state, Thresholds(), LOG, wall_ms, shared_cache(), follower, fleet
    )
    holdings.open([BUCKET])
    assert holdings[BUCKET].bucket.tables == 3
    assert log_of_state.read == 3
    keep(log_of_state, "t4")
    time.sleep(0.5)
    assert log_of_state.read == 3  # owned: what it keeps itself it does not read
    holdings.close([BUCKET])
    wait_for(lambda: log_of_state.read == 4)


def test_a_bucket_is_let_go_of_before_all_of_it_is_read(
    log_of_state: Changelog, follower: ChangelogFollower, tmp_path: Path
) -> None:
    follower.follow(range(8))
    wait_for(lambda: (tmp_path / str(BUCKET)).exists())
    keep(log_of_state, "t1")
    follower.release([BUCKET])
    store = LocalStore(tmp_path / str(BUCKET), shared_cache())
    log_of_state.catch_up({BUCKET: store}, wall_ms())
    assert store.get(ref_key("t1", "main")) is not None
    store.close()


def test_what_could_not_be_kept_is_read_again(
    log_of_state: Changelog,
    follower: ChangelogFollower,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk: the reader is already behind what no store has."""
    kept = LocalStore.keep
    fails = iter([True])

    def failing(store: LocalStore, changes: Changes, mark: Mark) -> None:
        if changes and next(fails, False):
            raise OSError("no space left on device")
        kept(store, changes, mark)

    monkeypatch.setattr(LocalStore, "keep", failing)
    monkeypatch.setattr(standby, "AGAIN_S", 0.1)
    follower.follow([BUCKET])
    keep(log_of_state, "t1")
    wait_for(lambda: log_of_state.read == 1)
    keep(log_of_state, "t2")
    wait_for(lambda: log_of_state.read == 3)  # the first one twice
    follower.release([BUCKET])
    store = LocalStore(tmp_path / str(BUCKET), shared_cache())
    assert store.get(ref_key("t1", "main")) is not None
    assert store.get(ref_key("t2", "main")) is not None
    store.close()


def test_a_store_that_heard_nothing_for_long_is_read_anew(
    log_of_state: Changelog, tmp_path: Path
) -> None:
    """The topic has forgotten deletions by then."""
    times = [wall_ms()]
    found = ChangelogFollower(tmp_path, log_of_state, shared_cache(), LOG, lambda: times[0])
    keep(log_of_state, "t1")
    found.follow([BUCKET])
    found.start()
    wait_for(lambda: log_of_state.read == 1)
    times[0] += FRESH_MS
    wait_for(lambda: log_of_state.read == 2)
    found.end()
