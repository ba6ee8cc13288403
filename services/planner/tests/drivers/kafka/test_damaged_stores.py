"""A planner's state on disk is a cache of the changelog: damaged, it is removed and read anew."""

from __future__ import annotations

import gc
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.assignments import Board
from firnline_domain.settings.policies import TablePolicies
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.drivers import store_check
from firnline_planner.drivers.kafka.local_store import (
    DAMAGED,
    DamagedStore,
    LocalStore,
    StorePosition,
    shared_cache,
)
from firnline_planner.drivers.kafka.owned_buckets import OwnedBuckets
from firnline_planner.placement.routing import BucketFleet
from firnline_planner.state.encoding import ref_key, to_bytes

TABLES = 300
PARTS = 3  # of the changelog, each a file of the store
CHANGES = [
    {
        ref_key(f"u{number}", MAIN): to_bytes(
            Table(TableCounters(TableName(f"u{number}", ("db",), f"t{number}"), MAIN, known=True))
        )
        for number in range(part, TABLES, PARTS)
    }
    for part in range(PARTS)
]
WRITER = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from firnline_planner.drivers.kafka.local_store import LocalStore, StorePosition, shared_cache
from test_damaged_stores import CHANGES

store = LocalStore(Path(sys.argv[1]), shared_cache())
for at, changes in enumerate(CHANGES, 1):
    store.write_changes(changes, StorePosition("id", at, 1))
    if at < len(CHANGES):
        store._rocks.flush()
os._exit(0)  # killed: the last part is in the log alone
"""


class Changelog:
    """Of a bucket for each number, all with the same records."""

    topic_id = "id"
    read = 0

    def add_partitions(self, buckets: int) -> None:
        """It has a partition for each bucket."""

    def catch_up(self, stores: dict[int, LocalStore], now_ms: int) -> int:
        for store in stores.values():
            start = store.usable_position(self.topic_id, len(CHANGES), now_ms)
            for at, changes in enumerate(CHANGES[start:], start + 1):
                store.write_changes(changes, StorePosition(self.topic_id, at, now_ms))
                self.read += 1
        return self.read


def cut_off(data: bytearray) -> bytes:
    return bytes(data[: len(data) // 2])


def zeroed(data: bytearray) -> bytes:
    return bytes(len(data))


def garbled(data: bytearray) -> bytes:
    start = len(data) // 3
    data[start : start + 64] = random.Random(7).randbytes(len(data[start : start + 64]))
    return bytes(data)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a kill has left: two files of tables, and a log."""
    found = tmp_path_factory.mktemp("whole") / "0"
    here = [str(Path(__file__).parent), str(Path(__file__).parents[5])]
    subprocess.run([sys.executable, "-c", WRITER, str(found), *here], check=True)
    return found


def open_buckets(folder: Path, count: int) -> OwnedBuckets:
    found = OwnedBuckets(
        folder,
        Changelog(),  # type: ignore[arg-type]
        Thresholds(),
        TablePolicies,
        Log("planner"),
        lambda: 1,
        shared_cache(),
        BucketFleet(Board(count), RecordCodec()),
    )
    found.open(range(count))
    return found


def names(buckets: OwnedBuckets, number: int) -> set[str]:
    """Of the tables that the bucket can read."""
    state = buckets[number].bucket._state
    found = (state.table_at(key) for key in state.table_keys())
    return {one.counters.table.name for one in found if one}


def test_a_whole_store_is_gone_on_from(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "0")
    assert store_check.find_damage([tmp_path / "0", tmp_path / "none"]) == {}
    buckets = open_buckets(tmp_path, 1)
    assert len(names(buckets, 0)) == TABLES
    assert buckets._changelog.read == 0
    buckets.close([0])
    gc.unfreeze()


@pytest.mark.parametrize("damage", [cut_off, zeroed, garbled, None])
def test_whatever_happens_to_a_file_every_table_is_there(
    damage: Callable[[bytearray], bytes] | None, whole: Path, tmp_path: Path
) -> None:
    files = sorted(one.name for one in whole.iterdir())
    assert {Path(one).suffix for one in files} >= {".sst", ".log"}
    for number, name in enumerate(files):
        shutil.copytree(whole, tmp_path / str(number))
        file = tmp_path / str(number) / name
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage(bytearray(file.read_bytes())))
    buckets = open_buckets(tmp_path, len(files))
    try:
        lost = {files[n]: TABLES - len(names(buckets, n)) for n in range(len(files))}
        assert {name: count for name, count in lost.items() if count} == {}
    finally:
        buckets.close(range(len(files)))
        gc.unfreeze()


def test_a_store_that_never_opens_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As RocksDB spins over some MANIFESTs; a pipe as one is waited for in the same way."""
    monkeypatch.setattr(store_check, "CHECK_S", 3.0)
    store = LocalStore(tmp_path / "0", shared_cache())
    store.write_changes(CHANGES[0], StorePosition("id", 1, 1))
    store.close()
    [manifest] = (tmp_path / "0").glob("MANIFEST-*")
    manifest.unlink()
    subprocess.run(["mkfifo", str(manifest)], check=True)
    buckets = open_buckets(tmp_path, 1)
    assert len(names(buckets, 0)) == TABLES
    buckets.close([0])
    gc.unfreeze()


def test_what_is_found_out_later_is_removed_at_the_next_start(whole: Path, tmp_path: Path) -> None:
    """A block of a table that no start reads."""
    shutil.copytree(whole, tmp_path / "0")
    file = next((tmp_path / "0").glob("*.sst"))
    file.write_bytes(garbled(bytearray(file.read_bytes())))
    store = LocalStore(tmp_path / "0", shared_cache())
    keys = [key for changes in CHANGES for key in changes]
    with pytest.raises(DamagedStore):
        store.get_all(keys)
    with pytest.raises(DamagedStore):
        list(store.scan(b"2"))
    with pytest.raises(DamagedStore):
        [store.get(key) for key in keys]
    store.close()
    assert (tmp_path / "0" / DAMAGED).exists()
    again = LocalStore(tmp_path / "0", shared_cache())
    assert again.usable_position("id", 3, 1) == 0
    assert list(again.scan(b"2")) == []
    again.close()
