"""How long the buckets of a killed planner are nobody's, beside a second one."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

from bench.planner.stage import Stage, assure_alive, await_idle

LOOK_S = 0.05
RESTORED = re.compile(r"action=restored buckets=(\d+) records=(\d+)")


def takeover(stage: Stage) -> dict[str, Any]:
    """Two planners share the buckets and one is killed: from there until the other one has all.
    Raises RuntimeError where one of them ends by itself."""
    second = replace(stage, folder=stage.folder / "second")
    with stage.planner() as dying, second.planner() as heir:
        await_idle(dying)
        await_idle(heir)
        said = len(_restored(second))
        killed_s = time.monotonic()
        dying.kill_group()
        dying.wait_or_kill()
        while len(_restored(second)) == said:
            assure_alive(heir)
            time.sleep(LOOK_S)
        seconds = time.monotonic() - killed_s
    buckets, records = _restored(second)[-1]
    return {"seconds": round(seconds, 2), "buckets": buckets, "records_read": records}


def _restored(stage: Stage) -> list[tuple[int, int]]:
    found = RESTORED.findall(stage.log.read_text())
    return [(int(buckets), int(records)) for buckets, records in found]
