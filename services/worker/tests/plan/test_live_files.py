from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import firnline_worker.plan.live_files
import pytest
from firnline_iceberg.scan.planning import LiveFiles
from firnline_worker.plan.live_files import LiveFilesCache


def table(uuid="t"):
    return SimpleNamespace(identity=SimpleNamespace(key=uuid))


@pytest.fixture
def read(monkeypatch):
    """(table key, snapshot) of every reading of manifests."""
    done = []

    def live_files(loaded, snapshot_id):
        done.append((loaded.identity.key, snapshot_id))
        return LiveFiles(snapshot_id, (), ())

    monkeypatch.setattr(firnline_worker.plan.live_files, "live_files", live_files)
    return done


def test_the_orders_of_a_burst_read_the_manifests_once(read):
    kept = LiveFilesCache()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: kept.get_or_read(table(), 7), range(8)))
    assert read == [("t", 7)]
    assert all(one is found[0] for one in found)


def test_a_slow_reading_holds_up_no_other_table(monkeypatch):
    started, go_on = Event(), Event()

    def live_files(loaded, snapshot_id):
        if loaded.identity.key == "slow":
            started.set()
            assert go_on.wait(30)
        return LiveFiles(snapshot_id, (), ())

    monkeypatch.setattr(firnline_worker.plan.live_files, "live_files", live_files)
    kept = LiveFilesCache()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(kept.get_or_read, table("slow"), 1)
        assert started.wait(30)
        assert kept.get_or_read(table("quick"), 2).snapshot_id == 2
        go_on.set()
        assert slow.result().snapshot_id == 1


def test_another_snapshot_or_table_is_read_anew(read):
    kept = LiveFilesCache()
    for uuid, snapshot_id in [("t", 7), ("t", 8), ("u", 8), ("t", 7)]:
        assert kept.get_or_read(table(uuid), snapshot_id).snapshot_id == snapshot_id
    assert read == [("t", 7), ("t", 8), ("u", 8), ("t", 7)]


def test_a_very_large_snapshot_is_not_kept(read, monkeypatch):
    monkeypatch.setattr(firnline_worker.plan.live_files, "_MAX_FILES", -1)
    kept = LiveFilesCache()
    kept.get_or_read(table(), 7)
    kept.get_or_read(table(), 7)
    assert len(read) == 2


def test_a_reading_that_fails_is_not_kept(read, monkeypatch):
    kept = LiveFilesCache()

    def broken(*_):
        raise OSError("storage")

    with monkeypatch.context() as patched:
        patched.setattr(firnline_worker.plan.live_files, "live_files", broken)
        with pytest.raises(OSError, match="storage"):
            kept.get_or_read(table(), 7)
    assert kept.get_or_read(table(), 7).snapshot_id == 7
