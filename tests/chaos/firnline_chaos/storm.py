"""Strikes as planned, one step after another, on a thread of its own."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import psutil
from firnline_local.processes.process import PartNotReady

from firnline_chaos.faults import FAULTS, Fault
from firnline_chaos.ground import Ground
from firnline_chaos.missed import Missed, Skipped
from firnline_chaos.plan import STORM_S, Blow, Sort

AGAIN_S = 3.0  # until a fault that met nothing is tried once more


def steps(blows: tuple[Blow, ...]) -> list[tuple[float, bool, Blow]]:
    """Beginnings (True) and ends by time."""
    begun = [(blow.at_s, True, blow) for blow in blows]
    ended = [(blow.until_s, False, blow) for blow in blows]
    return sorted(begun + ended, key=lambda step: (step[0], not step[1]))


@dataclass
class Storm:
    """`struck`: fault and target -> how often; `say` is told of each."""

    ground: Ground
    say: Callable[[str], None]
    struck: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    skipped: dict[str, str] = field(default_factory=dict)
    _going: dict[Blow, Fault] = field(default_factory=dict)

    def rage(self, blows: tuple[Blow, ...], started: float, stop: threading.Event) -> None:
        """Begin and end each at its time. Told to stop, begin no more, and end what goes on."""
        count = itertools.count()  # of two steps at the same time the earlier one comes first
        waiting = [(at_s, next(count), begins, blow) for at_s, begins, blow in steps(blows)]
        while waiting:
            at_s, _, begins, blow = heapq.heappop(waiting)
            stop.wait(max(0.0, started + at_s - time.monotonic()))
            if not begins:
                self._end(blow)
            elif not stop.is_set() and not self._begin(blow) and at_s + AGAIN_S < STORM_S:
                again = replace(blow, at_s=at_s + AGAIN_S)
                for when_s, begun, one in steps((again,)):
                    heapq.heappush(waiting, (when_s, next(count), begun, one))

    def _begin(self, blow: Blow) -> bool:
        """False: there was nothing to strike, and there may be in a moment."""
        name = f"{blow.fault} {blow.target}"
        if any(other.target == blow.target for other in self._going):
            return False
        fault = FAULTS[blow.fault](self.ground, blow)
        try:
            fault.begin()
        except Skipped as skipped:
            self.skipped[blow.fault] = str(skipped)
            return True
        except (Missed, PartNotReady, psutil.NoSuchProcess) as missed:
            self.missed[name] += 1
            if self.missed[name] == 1:
                self.say(f"missed: {name}: {missed}")
            return False
        self._going[blow] = fault
        self.struck[name] += 1
        self.say(f"{name} for {blow.seconds:g} s" if blow.seconds else name)
        return True

    def never_struck(self, sorts: tuple[Sort, ...]) -> list[str]:
        """Sorts of faults that none of which met anything."""
        return [
            f"{sort.fault} {'/'.join(dict.fromkeys(sort.targets))}"
            for sort in sorts
            if not any(self.struck[f"{sort.fault} {target}"] for target in sort.targets)
        ]

    def _end(self, blow: Blow) -> None:
        if fault := self._going.pop(blow, None):
            fault.end()
