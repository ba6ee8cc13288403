"""A slot is one process's at a time, and its next life takes over the leases of the one before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from firnline_adapters.in_memory import MemoryLeases
from firnline_adapters.kafka.client import SESSION_MS
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import takes_over
from firnline_worker.host.leases import Busy, TaskLeases
from firnline_worker.host.slot import acquire_slot
from firnline_worker.settings import WorkerSettings

HOLD = "import sys, time, pathlib; from firnline_worker.host.slot import acquire_slot; "
HOLD += (
    "slot = acquire_slot(pathlib.Path(sys.argv[1])); print(slot.name, flush=True); time.sleep(60)"
)


def test_a_dead_workers_leases_end_soon_after_the_next_one_has_its_partitions() -> None:
    parts = {"kafka": "", "redis": "", "catalog_uri": "", "iceberg_jar": "", "state_dir": ""}
    lease_s = WorkerSettings(**parts).lease_s
    assert 0 < lease_s - SESSION_MS / 1000 <= 3


def test_a_slot_is_free_again_when_its_process_is_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    other = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    with other.stdout as said:
        name = said.readline().strip()
    beside = acquire_slot(tmp_path)
    assert beside.name != name
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert acquire_slot(tmp_path).name == name


def test_two_state_directories_have_different_slots(tmp_path: Path) -> None:
    assert acquire_slot(tmp_path / "a").name != acquire_slot(tmp_path / "b").name


def test_what_a_killed_worker_held_is_its_next_lifes_at_once(tmp_path: Path) -> None:
    leases, slot = MemoryLeases(lambda: 0.0), acquire_slot(tmp_path)
    killed = TaskLeases(leases, slot.owner(), 30.0, Log("t"))
    other = TaskLeases(leases, acquire_slot(tmp_path).owner(), 30.0, Log("t"))
    again = TaskLeases(leases, slot.owner(), 30.0, Log("t"))
    with killed.hold("rewrite:u:s"):
        with pytest.raises(Busy), other.hold("rewrite:u:s"):
            pass  # another worker waits, as ever
        with pytest.raises(Busy), killed.hold("rewrite:u:s"):
            pass  # and so does another task of the same life
        with again.hold("rewrite:u:s"), pytest.raises(Busy), other.hold("rewrite:u:s"):
            pass


@pytest.mark.parametrize(
    ("owner", "held", "found"),
    [
        ("h.d.0#b/1", "h.d.0#a/1", True),
        ("h.d.0#a/2", "h.d.0#a/1", False),
        ("h.d.1#b/1", "h.d.0#a/1", False),
        ("finished", "finished", False),
        ("h.d.0#b/1", "finished", False),
        ("h.d.0#b/1", "h.d.0", False),
    ],
)
def test_only_another_life_of_the_same_slot_succeeds(owner: str, held: str, found: bool) -> None:
    assert takes_over(owner, held) is found
