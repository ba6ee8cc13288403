"""A full disk, as one part sees it."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from firnline_chaos.ground import Ground
from firnline_chaos.missed import Missed, Skipped
from firnline_chaos.plan import Blow

FULL_AT = 4096  # bytes: outputs, logs and databases are larger


@dataclass
class FillDisk:
    """No process of a part can write beyond the first 4 kB of any file (RLIMIT_FSIZE: EFBIG, where
    a full disk says ENOSPC). It needs no rights beyond those over one's own processes."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        if not hasattr(psutil.Process, "rlimit"):
            raise Skipped("the limits of another process can be set on Linux alone")
        found = self.ground.processes(self.blow.target)
        if not found:
            raise Missed(f"{self.blow.target} is not running")
        for process in found:
            limit(process, FULL_AT)

    def end(self) -> None:
        for process in self.ground.processes(self.blow.target):
            limit(process, None)


def limit(process: psutil.Process, size: int | None) -> None:
    """The soft limit alone: it can be taken back. None: as much as is allowed at all."""
    try:
        _, most = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most if size is None else size, most))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return  # it has just ended
