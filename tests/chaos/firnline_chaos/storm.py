"""Strikes as planned, one step after another, on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil
from firnline_local.process import NotReady

from firnline_chaos.faults import FAULTS, Fault
from firnline_chaos.ground import Ground
from firnline_chaos.missed import Missed, Skipped
from firnline_chaos.plan import Blow


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
        for at_s, begins, blow in steps(blows):
            stop.wait(max(0.0, started + at_s - time.monotonic()))
            if not begins:
                self._end(blow)
            elif not stop.is_set():
                self._begin(blow)

    def _begin(self, blow: Blow) -> None:
        name = f"{blow.fault} {blow.target}"
        fault = FAULTS[blow.fault](self.ground, blow)
        try:
            fault.begin()
        except Skipped as skipped:
            self.skipped[blow.fault] = str(skipped)
            return
        except (Missed, NotReady, psutil.NoSuchProcess) as missed:
            self.missed[name] += 1
            self.say(f"missed: {name}: {missed}")
            return
        self._going[blow] = fault
        self.struck[name] += 1
        self.say(f"{name} for {blow.seconds:g} s" if blow.seconds else name)

    def _end(self, blow: Blow) -> None:
        if fault := self._going.pop(blow, None):
            fault.end()
