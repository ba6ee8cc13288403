"""Faults on the way to the catalog."""

from __future__ import annotations

import random
from dataclasses import dataclass

from firnline_chaos.catalog_proxy import ONLY_FIRNLINE, Order, Spoil
from firnline_chaos.ground import Ground
from firnline_chaos.plan import Blow


@dataclass
class SpoilCommits:
    """The next one to three commits go wrong; every other time, the next ones of Firnline's."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        dice, spoil = random.Random(self.blow.dice), Spoil(self.blow.target)
        times, seconds = dice.randint(1, 3), dice.uniform(0.5, 4.0)
        firnlines = spoil in ONLY_FIRNLINE or dice.random() < 0.5
        self.ground.proxy.spoil(Order(spoil, times, seconds, firnlines))

    def end(self) -> None:
        pass


@dataclass
class Cut:
    """Nobody reaches the catalog, and calls on their way break."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        self.ground.proxy.cut_off()

    def end(self) -> None:
        self.ground.proxy.mend()
