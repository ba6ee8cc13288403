"""What is written out for speed says the same as what it stands for."""

from __future__ import annotations

import random

from firnline_domain.counters.state.debt import Debt
from firnline_domain.records.parts.tallies import NO_FILES, FileTally, Tally

DICE = random.Random(1)


def a_tally() -> Tally:
    return Tally(*(DICE.randrange(-2, 3) for _ in range(3))) if DICE.random() < 0.7 else NO_FILES


def files() -> FileTally:
    return FileTally(*(a_tally() for _ in range(7)))


def debt() -> Debt:
    return Debt(*(DICE.choice([0, 0, 0, 3, -1]) for _ in range(5)))


def test_a_change_is_an_addition_and_a_subtraction() -> None:
    for _ in range(500):
        held, added, removed = files(), files(), files()
        assert held.with_changes(added, removed) == held + added - removed
        assert held.with_changes(added, added) == held
        assert held.data_files == held.all_data.files


def test_what_is_empty_after_a_change_takes_no_room_in_the_state() -> None:
    held, gone = FileTally(fragments=Tally(1, 2, 3)), FileTally(fragments=Tally(1, 2, 3))
    empty = FileTally(fragments=Tally(0, 0, 0))
    assert held.with_changes(empty, gone).fragments is NO_FILES
    assert FileTally().with_changes(empty, empty).fragments is NO_FILES


def test_debt_beyond_a_floor_and_a_floor_that_sinks() -> None:
    for _ in range(2_000):
        one, other = debt(), debt()
        pairs = list(zip(one.counts, other.counts, strict=True))
        assert one.above(other).counts == tuple(max(a - b, 0) for a, b in pairs)
        assert one.at_most(other).counts == tuple(min(a, b) for a, b in pairs)
        assert (one + other).counts == tuple(a + b for a, b in pairs)
        assert one.above(Debt()).counts == tuple(max(a, 0) for a in one.counts)
        assert Debt().at_most(one).counts == tuple(min(a, 0) for a in one.counts)
