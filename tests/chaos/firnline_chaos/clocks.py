"""Clocks that jump: the wall clock of one service's processes, by libfaketime, where that is
installed. Their monotonic clocks go on as they are, as with any step of a clock."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firnline_chaos.ground import Ground
from firnline_chaos.missed import Skipped
from firnline_chaos.plan import CLOCKS, Blow

LIBRARY = "libfaketimeMT.so.1"
PLACES = (Path("/usr/lib"), Path("/usr/local/lib"))
JUMPS_S = (-3600, -90, 90, 3600)


def library() -> Path | None:
    """Where libfaketime is."""
    found = (path for place in PLACES for path in place.glob(f"*/faketime/{LIBRARY}"))
    return next(found, next((path for place in PLACES for path in place.rglob(LIBRARY)), None))


def settings(root: Path) -> Mapping[str, Mapping[str, str]]:
    """What services need in their environment for their clocks to be moved later; nothing where the
    library is not there."""
    where = library()
    if where is None:
        return {}
    (root / "clocks").mkdir(parents=True, exist_ok=True)
    found = {}
    for part in CLOCKS:
        _file(root, part).write_text("+0\n")
        found[part] = {
            "LD_PRELOAD": str(where),
            "FAKETIME_TIMESTAMP_FILE": str(_file(root, part)),
            "FAKETIME_CACHE_DURATION": "1",  # seconds until a change is seen
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
    return found


def _file(root: Path, part: str) -> Path:
    return root / "clocks" / part


@dataclass
class JumpClock:
    """A service's clock is wrong for a while."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        if library() is None:
            raise Skipped("libfaketime is not installed (Debian: apt-get install libfaketime)")
        self.ground.clocks_jumped = True
        self._set(random.Random(self.blow.dice).choice(JUMPS_S))

    def end(self) -> None:
        self._set(0)

    def _set(self, seconds: int) -> None:
        draft = _file(self.ground.state.root, f"{self.blow.target}.part")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(_file(self.ground.state.root, self.blow.target))
