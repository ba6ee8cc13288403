"""How long the buckets of a killed planner are nobody's, beside a second one."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

from firnline_local.process import Process

from bench.planner.stage import Stage, assure_alive, cpu_s

IDLE_S = 3.0  # without work for so long, it has caught up
IDLE_CPU_S = 0.6  # of these: its ticks
LOOK_S = 0.05
RESTORED = re.compile(r"action=restored buckets=(\d+) records=(\d+)")


def takeover(stage: Stage, standby: bool) -> dict[str, Any]:
    """Two planners share the buckets and one is killed: from there until the other one has all.
    Raises RuntimeError where one of them ends by itself."""
    first = replace(stage, standby=standby)
    second = replace(first, folder=stage.folder / ("standby" if standby else "second"))
    with first.planner() as dying, second.planner() as heir:
        _await_idle(dying)
        _await_idle(heir)
        said = len(_restored(second))
        killed_s = time.monotonic()
        dying.kill_group()
        dying.finish()
        while len(_restored(second)) == said:
            assure_alive(heir)
            time.sleep(LOOK_S)
        seconds = time.monotonic() - killed_s
    buckets, records = _restored(second)[-1]
    return {"seconds": round(seconds, 2), "buckets": buckets, "records_read": records}


def _restored(stage: Stage) -> list[tuple[int, int]]:
    found = RESTORED.findall(stage.log.read_text())
    return [(int(buckets), int(records)) for buckets, records in found]


def _await_idle(process: Process) -> None:
    while True:
        assure_alive(process)
        before = cpu_s(process)
        time.sleep(IDLE_S)
        if cpu_s(process) - before < IDLE_CPU_S:
            return
