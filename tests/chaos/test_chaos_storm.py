"""A storm: faults begin and end in their order, and what met nothing is tried again."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest
from firnline_chaos import storm
from firnline_chaos.missed import Missed
from firnline_chaos.plan import STORM_S, Blow, Sort
from firnline_chaos.storm import AGAIN_S, Storm

LONG_AGO = time.monotonic() - 2 * STORM_S  # every step is due


class Shy:
    """Meets nothing at first."""

    misses = 2
    said: list[str]

    def __init__(self, _: Any, blow: Blow) -> None:
        self.blow = blow

    def begin(self) -> None:
        if self.misses:
            type(self).misses -= 1
            raise Missed("nobody is there")
        self.said.append(f"begins at {self.blow.at_s:g}")

    def end(self) -> None:
        self.said.append("ends")


@pytest.fixture
def raged(monkeypatch: pytest.MonkeyPatch) -> Storm:
    monkeypatch.setitem(storm.FAULTS, "shy", Shy)
    monkeypatch.setattr(Shy, "said", [], raising=False)
    monkeypatch.setattr(Shy, "misses", 2)
    return Storm(cast(Any, None), lambda _: None)


def test_what_met_nothing_is_tried_until_it_strikes(raged: Storm) -> None:
    raged.rage((Blow(5.0, "shy", "store", 4.0, 0),), LONG_AGO, threading.Event())
    assert Shy.said == [f"begins at {5 + 2 * AGAIN_S:g}", "ends"]
    assert raged.struck == {"shy store": 1}
    assert raged.missed == {"shy store": 2}


def test_a_target_that_is_struck_is_left_until_that_ends(raged: Storm) -> None:
    Shy.misses = 0
    blows = (Blow(5.0, "shy", "store", 4.0, 0), Blow(8.0, "shy", "store", 1.0, 1))
    raged.rage(blows, LONG_AGO, threading.Event())
    assert Shy.said == ["begins at 5", "ends", "begins at 11", "ends"]


def test_nothing_is_tried_after_the_storm_or_once_it_was_stopped(raged: Storm) -> None:
    raged.rage((Blow(STORM_S - 2, "shy", "store", 0.0, 0),), LONG_AGO, threading.Event())
    stopped = threading.Event()
    stopped.set()
    raged.rage((Blow(1.0, "shy", "store", 0.0, 0),), LONG_AGO, stopped)
    assert Shy.said == []
    assert raged.missed == {"shy store": 1}


def test_a_sort_of_which_no_target_was_struck_is_told_of(raged: Storm) -> None:
    raged.struck.update(["kill planner"])
    sorts = (Sort("kill", 1, ("planner", "worker")), Sort("end_keys", 1, ("store",)))
    assert raged.never_struck(sorts) == ["end_keys store"]
