"""`make bench-planner TABLES=1000,100000 SCALE=1`: measure, print, leave results/planner.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.planner import parts
from bench.planner.ceilings import ceilings
from bench.planner.latency import latency
from bench.planner.polling import polling
from bench.planner.stage import Stage, broker
from bench.planner.takeover import takeover
from bench.planner.turns import turns

RESULTS = Path(__file__).parents[1] / "results" / "planner.json"
EVENTS = 100_000  # of a throughput run at scale 1; Faust gets a quarter
SLOWER = {"faust": 4}
MOST = {"faust": 100_000}  # tables
LATENCY_S = 30.0
RATES = (500, 2_000)  # FilesChanged a second
LATENCY_TABLES = 100_000
PARTS = ("polling", "ceilings", "turns", "sizes", "takeovers", "latency")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--tables", default="1000,100000,1000000")
    asked.add_argument("--drivers", default="kafka,faust", help="or none: only what polling reads")
    asked.add_argument("--scale", type=float, default=1.0, help="of events and seconds")
    asked.add_argument("--parts", default=",".join(PARTS), help="what to measure")
    given = asked.parse_args()
    parts_ = set(given.parts.split(","))
    run = {"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", **_machine(), "scale": given.scale}
    if "polling" in parts_:
        run["polling"] = polling()
        print("polling", run["polling"], flush=True)
    if "ceilings" in parts_:
        run["ceilings"] = ceilings()
        print("ceilings", run["ceilings"], flush=True)
    earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    drivers = [] if given.drivers == "none" else given.drivers.split(",")
    sizes = [int(one) for one in given.tables.split(",")]
    _store(earlier, run)
    if "turns" in parts_ and "kafka" in drivers and len(sizes) > 1:
        run["turns"] = turns((min(sizes), max(sizes)), given.scale)
        print("turns", run["turns"], flush=True)
    run["drivers"] = {driver: {"sizes": {}, "latency": []} for driver in drivers}
    _store(earlier, run)
    for driver in drivers:
        for _ in _measured(driver, run["drivers"][driver], sizes, given.scale, parts_):
            _store(earlier, run)  # what was measured stays, should the rest not be


def _store(earlier: list[Any], run: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([*earlier, run], indent=1) + "\n")


def _measured(
    driver: str, found: dict[str, Any], sizes: list[int], scale: float, parts_: set[str]
) -> Iterator[None]:
    """Put into `found` what was measured, one thing after the other."""
    for tables in sizes if "sizes" in parts_ else ():
        if tables <= MOST.get(driver, tables):
            found["sizes"][str(tables)] = _with_broker(
                driver, tables, lambda stage: _size(stage, scale, "takeovers" in parts_)
            )
            yield
    tables = min(LATENCY_TABLES, max(sizes))
    for rate in RATES if "latency" in parts_ else ():
        found["latency"].append(_with_broker(driver, tables, _latency_at(rate, scale)))
        print(driver, "latency", found["latency"][-1], flush=True)
        yield


def _latency_at(rate: int, scale: float) -> Callable[[Stage], dict[str, Any]]:
    def measured(stage: Stage) -> dict[str, Any]:
        before_s = _additions_s()
        found = latency(stage, rate, LATENCY_S * min(scale, 1.0))
        return {**found, "host_s": [before_s, _additions_s()]}

    return measured


def _with_broker(driver: str, tables: int, use: Callable[[Stage], dict[str, Any]]) -> Any:
    """A broker and topics of its own: nothing of one measurement is left in the next."""
    with (
        tempfile.TemporaryDirectory(prefix="firnline-bench-planner-") as folder,
        broker(Path(folder)) as kafka,
    ):
        return use(Stage(kafka, Path(folder), driver, tables))


def _size(stage: Stage, scale: float, takeovers: bool) -> dict[str, Any]:
    events = int(EVENTS * scale / SLOWER.get(stage.driver, 1))
    found: dict[str, Any] = {"seeded": parts.seed(stage), "recovery": parts.cold_start(stage)}
    print(stage.driver, stage.tables, found, flush=True)
    if stage.driver == "kafka" and takeovers:
        found["takeover"] = {"cold": takeover(stage)}
        print(stage.driver, stage.tables, found["takeover"], flush=True)
    before_s = _additions_s()
    found["throughput"] = parts.throughput(stage, events, random.Random(stage.tables))
    found["host_s"] = [before_s, _additions_s()]
    print(stage.driver, stage.tables, found["throughput"], flush=True)
    return found


def _machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "machine": f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}",
        "load": os.getloadavg()[0],
        "commit": commit.stdout.strip(),
        "started": time.strftime("%H:%M:%S"),
    }


def _additions_s() -> float:
    """What ten million additions take in Python: on some days a host is three times as slow."""
    total, began_s = 0, time.perf_counter()
    for number in range(10_000_000):
        total += number
    return round(time.perf_counter() - began_s, 2)


if __name__ == "__main__":
    main()
