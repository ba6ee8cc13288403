"""Memory that is nearly exhausted is seen before anything is killed for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_domain.policy.fleet.worker_memory import MemoryKind
from firnline_worker.host.memory_pressure import (
    GC_SHARE,
    SAMPLE_S,
    SAMPLES,
    MemoryPressure,
    measure_limit_share,
)

MIB = 1 << 20


class Host:
    """A JVM that collects garbage for a share of its time, in a container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s, self.collected_s = 0.0, 100.0
        self.pressure = MemoryPressure(lambda: round(self.collected_s * 1000), folder)

    def after(self, samples: int, gc_share: float) -> MemoryKind | None:
        for _ in range(samples):
            self.now_s += SAMPLE_S
            self.collected_s += gc_share * SAMPLE_S
            self.pressure.sample(self.now_s)
        return self.pressure.nearly_exhausted

    def holds(self, anonymous: int, files: int, limit: str) -> None:
        (self.folder / "memory.stat").write_text(f"anon {anonymous}\nfile {files}\n")
        (self.folder / "memory.max").write_text(f"{limit}\n")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_half_a_minute_of_garbage_collection_is_the_heap(host: Host) -> None:
    assert host.after(SAMPLES, 0.05) is None
    assert host.after(SAMPLES - 2, GC_SHARE + 0.02) is None  # one sample is of a better time
    assert host.after(1, GC_SHARE + 0.02) is MemoryKind.HEAP
    assert host.after(2, 0.05) is None


def test_a_short_collection_is_nothing(host: Host) -> None:
    assert host.after(1, 0) is None
    assert host.after(1, 1.0) is None


def test_memory_near_the_limit_is_not_the_heaps_and_pages_of_files_do_not_count(host: Host) -> None:
    host.holds(94 * MIB, 6 * MIB, str(100 * MIB))
    assert host.after(SAMPLES, 0) is None
    host.holds(95 * MIB, 5 * MIB, str(100 * MIB))
    assert host.after(1, 0) is MemoryKind.OVERHEAD
    host.holds(95 * MIB, 5 * MIB, "max")
    assert host.after(1, 0) is None


def test_limits_of_older_systems_are_known(tmp_path: Path) -> None:
    assert measure_limit_share(tmp_path) == 0
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.stat").write_text(f"rss 1\ntotal_rss {30 * MIB}\n")
    (tmp_path / "memory/memory.limit_in_bytes").write_text(str(40 * MIB))
    assert measure_limit_share(tmp_path) == 0.75
