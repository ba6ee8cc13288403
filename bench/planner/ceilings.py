"""What one gateway and one enricher take in, on a commit's way to its order: their own ceilings.

A JVM commits to tables through a real gateway, one commit after the other; the catalog and the
client are what takes time, so the gateway's ceiling is told by its CPU. Then an enricher works off
what lies on `table-commits`, with the tables on the local disk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from firnline_local.processes.command import Command
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import Process, run_process
from firnline_local.servers import catalog
from firnline_local.stack.parts import ReadyLine

from bench.planner.parts import rates
from bench.planner.polling import commit, made
from bench.planner.stage import Followed, broker, cpu_s, ends, samples
from bench.rewrite.lake import Lake, java, running

TABLES, COMMITS = 20, 50  # of each: what a stream of minutes has after an hour
TOPIC, GROUP = "table-commits", "enricher"
PATIENCE_S = 60.0

Ceiling = dict[str, float]


def ceilings() -> dict[str, Ceiling]:
    """By service: commits a second as measured, and for each second of its CPU."""
    with tempfile.TemporaryDirectory(prefix="firnline-bench-ceilings-") as text:
        folder = Path(text)
        with broker(folder) as kafka, running(folder / "lake") as lake:
            passed = _passed(kafka, lake)
            return {"gateway": passed, "enricher": _enriched(kafka, lake)}


def _passed(kafka: str, lake: Lake) -> Ceiling:
    with _gateway(kafka, lake) as (process, fronted), java(fronted) as machine:
        tables = [made(machine, f"t{number}") for number in range(TABLES)]
        began_s, before_s = time.monotonic(), cpu_s(process)
        for number in range(COMMITS):
            for table in tables:
                commit(machine, table, files=1, upsert=number % 3 == 0)
        took_s = time.monotonic() - began_s
        _await_events(kafka, TABLES * (COMMITS + 1))
        return _ceiling(TABLES * COMMITS, took_s, cpu_s(process) - before_s)


@contextmanager
def _gateway(kafka: str, lake: Lake) -> Iterator[tuple[Process, Lake]]:
    port, folder = free_port(), lake.folder / "gateway"
    given = {
        "FIRNLINE_UPSTREAM_URI": lake.uri,
        "FIRNLINE_LISTEN_ADDRESS": str(port),
        "FIRNLINE_STATE_DIR": str(folder),
    }
    ready = catalog.make_probe(catalog.uri(port))
    with run_process(_service("gateway", kafka, folder, given, ready), folder / "log") as process:
        yield process, replace(lake, uri=catalog.uri(port))


def _enriched(kafka: str, lake: Lake) -> Ceiling:
    folder = lake.folder / "enricher"
    line = ReadyLine(folder / "log")
    given = {"FIRNLINE_CATALOG_URI": lake.uri}
    command = replace(
        _service("enricher", kafka, folder, given, line.is_logged), prepare=line.skip_earlier_lines
    )
    with run_process(command, folder / "log") as process:
        found = samples(Followed(kafka, GROUP, TOPIC), process, sum(ends(kafka, TOPIC).values()))
    rate = rates(found)
    return {"per_s": rate["events_per_s"], "per_cpu_s": rate["events_per_cpu_s"]}


def _service(name: str, kafka: str, folder: Path, given: dict[str, str], ready: Any) -> Command:
    return Command(
        name=name,
        argv=(sys.executable, "-m", f"firnline_{name}"),
        cwd=folder,
        env={"FIRNLINE_KAFKA": kafka, **given},
        ready=ready,
    )


def _await_events(kafka: str, count: int) -> None:
    """Raises TimeoutError where the gateway has not told of them all."""
    until_s = time.monotonic() + PATIENCE_S
    while (found := sum(ends(kafka, TOPIC).values())) < count:
        if time.monotonic() > until_s:
            raise TimeoutError(f"{found} of {count} commits are on {TOPIC}")
        time.sleep(0.1)


def _ceiling(commits: int, took_s: float, spent_s: float) -> Ceiling:
    return {"per_s": round(commits / took_s), "per_cpu_s": round(commits / max(spent_s, 1e-9))}
