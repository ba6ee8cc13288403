"""Clocks that jump: `time.time` of all Python processes of one service. Its monotonic clock goes
on, as with any step of a clock; its JVMs keep the right time.

Not by libfaketime 0.9.10: under it `time.sleep` of CPython 3.11 fails with EINVAL now and then,
even where nothing is moved. And a JVM that is an hour ahead would write snapshots that Iceberg lets
no right clock follow for that hour.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firnline_chaos import clock
from firnline_chaos.ground import Ground
from firnline_chaos.plan import CLOCKS, Blow

JUMPS_S = (-3600, -90, 90, 3600)
FAR_S = (-864_000, 864_000)  # ten days: beyond what a signature, a pause or a TTL allows for


def settings(root: Path) -> Mapping[str, Mapping[str, str]]:
    """What services need in their environment for their clocks to be moved later, by part."""
    (root / "clocks").mkdir(parents=True, exist_ok=True)
    folders = [str(Path(next(iter(clock.__path__)))), *filter(None, [os.environ.get("PYTHONPATH")])]
    path = os.pathsep.join(folders)
    return {part: {"PYTHONPATH": path, "CHAOS_CLOCK": str(_file(root, part))} for part in CLOCKS}


def set_clock(root: Path, part: str, ahead_s: float) -> None:
    """Seen by the part within 0.2 s."""
    draft = _file(root, f"{part}.part")
    draft.write_text(str(ahead_s))
    draft.replace(_file(root, part))


def _file(root: Path, part: str) -> Path:
    return root / "clocks" / part


@dataclass
class JumpClock:
    """A service's clock is wrong for a while."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        self.ground.clocks_jumped = True
        far = self.blow.fault == "jump_clock_far"
        self.ground.clocks_far |= far
        jumps_s = FAR_S if far else JUMPS_S
        ahead_s = random.Random(self.blow.dice).choice(jumps_s)
        set_clock(self.ground.state.root, self.blow.target, ahead_s)

    def end(self) -> None:
        set_clock(self.ground.state.root, self.blow.target, 0)
