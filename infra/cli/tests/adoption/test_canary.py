"""Which tables go first, and whether the others may follow."""

from __future__ import annotations

import pytest
from firnline_cli.adoption.canary import Candidate, Outcome, chosen, objections
from firnline_domain.base.values import replace


def candidates(namespace: str, count: int, size: int = 1000) -> list[Candidate]:
    return [Candidate(f"{namespace}-{size}-{n}", (namespace,), size) for n in range(count)]


def test_each_namespace_and_each_size_gives_its_share() -> None:
    kinds = [candidates(name, 40, size) for name in ("a", "b", "c") for size in (10, 10**6, 10**12)]
    found = chosen([candidate for kind in kinds for candidate in kind], 0.05)
    assert [len(found & {candidate.key for candidate in kind}) for kind in kinds] == [2] * 9


def test_namespaces_with_a_table_each_give_it_together() -> None:
    lone = [candidate for n in range(1000) for candidate in candidates(f"n{n}", 1)]
    assert 30 <= len(chosen(lone, 0.05)) <= 70


def test_whoever_asks_comes_to_the_same_ones() -> None:
    every = candidates("a", 200) + candidates("b", 30)
    assert chosen(every, 0.1) == chosen(reversed(every), 0.1)
    assert chosen(every, 0.1) < chosen(every, 0.2)


def test_tables_that_come_and_grow_move_few() -> None:
    before = chosen(candidates("a", 1000), 0.1)
    grown = [replace(candidate, bytes=candidate.bytes + 500) for candidate in candidates("a", 1000)]
    new = [Candidate(f"new-{n}", ("a",), 1000) for n in range(50)]
    assert len(before & chosen(grown + new, 0.1)) >= 0.9 * len(before)


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.001, 1), (1.0, 3)])
def test_the_ends(share: float, count: int) -> None:
    assert len(chosen(candidates("a", 3), share)) == count
    assert chosen([], share) == frozenset()


GOOD = Outcome(
    tables=10,
    adopted=10,
    parked=0,
    failing=1,
    committed=40,
    skipped=3,
    failed=1,
    conflicted=1,
    equal=2,
    differ=0,
)


def test_a_good_canary_has_nothing_against_it() -> None:
    assert objections(GOOD, 0.05) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"differ": 1}, "1 commits changed what readers see"),
        ({"adopted": 8}, "8 of 10 canary tables are adopted"),
        ({"failed": 3}, "4 of 47 tasks failed or were refused: 8.5%, 5.0% may be"),
        ({"conflicted": 3}, "4 of 47 tasks failed or were refused: 8.5%, 5.0% may be"),
        ({"parked": 1}, "1 of 10 canary tables have something parked: 10.0%, 5.0% may be"),
        ({"committed": 0, "failed": 0, "conflicted": 0}, "nothing is proved"),
    ],
)
def test_each_objection(change: dict[str, int], word: str) -> None:
    [found] = objections(replace(GOOD, **change), 0.05)
    assert word in found


def test_rows_that_differ_are_said_first_whatever_may_fail() -> None:
    found = objections(replace(GOOD, differ=1, failed=30, parked=9), 1.0)
    assert len(found) == 1
    assert "RowsCompared" in found[0]


def test_nine_in_ten_are_enough() -> None:
    assert objections(replace(GOOD, adopted=9), 0.05) == []
