"""The memory that a worker shows."""

from __future__ import annotations

import subprocess
import sys

from firnline_adapters.observability.metrics import measure_at_scrape
from firnline_worker.host.out_of_memory import measure_memory
from prometheus_client import REGISTRY

MB = 1 << 20
HOLDS = "held = bytearray(64 << 20); print(len(held), flush=True); input()"


def test_a_worker_shows_its_memory_and_that_of_its_children() -> None:
    with measure_at_scrape("worker_memory_bytes", measure_memory):
        alone = REGISTRY.get_sample_value("firnline_worker_memory_bytes") or 0.0
        assert alone > MB
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", HOLDS], **pipes) as child:
            assert child.stdout is not None
            child.stdout.readline()
            together = REGISTRY.get_sample_value("firnline_worker_memory_bytes") or 0.0
            child.communicate(b"\n")
    assert together - alone > 60 * MB
