"""What is done to the running stack. `begin` strikes, `end` lets go; both may be called on whatever
state the part is in. Where a fault meets nothing to strike it raises Missed, and does not count."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import psutil

from firnline_chaos.clocks import JumpClock
from firnline_chaos.commits import Cut, SpoilCommits
from firnline_chaos.deliveries import Redeliver, Rewind
from firnline_chaos.disks import DamageState, FillDisk
from firnline_chaos.ground import Ground
from firnline_chaos.lake_faults import EndKeys, Forbid, RevokeTokens, Throttle
from firnline_chaos.missed import Missed
from firnline_chaos.plan import Blow


class Fault(Protocol):
    """A fault as it is going on."""

    def begin(self) -> None:
        """Raises Missed."""

    def end(self) -> None:
        """Nothing of it is left afterwards."""


@dataclass
class Kill:
    """SIGKILL to a part's main process; the supervisor clears up and starts it again."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        pid = self.ground.pid(self.blow.target)
        if pid is None:
            raise Missed(f"{self.blow.target} is not running")
        _signal(psutil.Process(pid), signal.SIGKILL)

    def end(self) -> None:
        pass


@dataclass
class KillChild:
    """SIGKILL to one process below a service: its JVM, Spark's Python daemon or a worker of it."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        main = self.ground.pid(self.blow.target)
        below = [one for one in self.ground.processes(self.blow.target) if one.pid != main]
        if not below:
            raise Missed(f"{self.blow.target} has no child")
        chosen = random.Random(self.blow.dice).choice(sorted(below, key=lambda one: one.pid))
        _signal(chosen, signal.SIGKILL)

    def end(self) -> None:
        pass


@dataclass
class Pause:
    """SIGSTOP to all processes of a part, SIGCONT to all that it has by then."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        found = self.ground.processes(self.blow.target)
        if not found:
            raise Missed(f"{self.blow.target} is not running")
        for process in found:
            _signal(process, signal.SIGSTOP)

    def end(self) -> None:
        for process in self.ground.processes(self.blow.target):
            _signal(process, signal.SIGCONT)


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return  # it has just ended


FAULTS: dict[str, Callable[[Ground, Blow], Fault]] = {
    "kill": Kill,
    "kill_child": KillChild,
    "pause": Pause,
    "spoil": SpoilCommits,
    "cut": Cut,
    "redeliver": Redeliver,
    "rewind": Rewind,
    "fill_disk": FillDisk,
    "jump_clock": JumpClock,
    "jump_clock_far": JumpClock,
    "damage_state": DamageState,
    "end_keys": EndKeys,
    "revoke_tokens": RevokeTokens,
    "throttle": Throttle,
    "forbid": Forbid,
}
