"""A full disk, as one part sees it, and a damaged one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

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


@dataclass
class DamageState:
    """A part is stopped, one file of its state is damaged, and it is started again."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        if not self.ground.is_ready(self.blow.target):
            raise Missed(f"{self.blow.target} is not ready")
        self.ground.stack.stop_part(self.blow.target)
        folder = self.ground.state.data_path(self.blow.target)
        dice = random.Random(self.blow.dice)
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
        if files:
            damage(dice.choice(files), dice)

    def end(self) -> None:
        self.ground.let_run(self.blow.target)


def damage(path: Path, dice: random.Random) -> None:
    """Cut, empty, remove or garble a file."""
    body = bytearray(path.read_bytes())
    start = dice.randrange(len(body))
    match dice.choice(("cut", "empty", "remove", "garble", "zero")):
        case "cut":
            path.write_bytes(body[:start])
        case "empty":
            path.write_bytes(b"")
        case "remove":
            path.unlink()
        case "garble":
            body[start : start + 64] = dice.randbytes(len(body[start : start + 64]))
            path.write_bytes(body)
        case "zero":
            path.write_bytes(bytes(len(body)))


def limit(process: psutil.Process, size: int | None) -> None:
    """The soft limit alone: it can be taken back. None: as much as is allowed at all."""
    try:
        _, most = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most if size is None else size, most))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return  # it has just ended
