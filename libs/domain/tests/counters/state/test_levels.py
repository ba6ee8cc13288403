"""Level by level, and never twice the same."""

from __future__ import annotations

import pytest
from firnline_domain.counters.state.file_sizes import fills_target, spared_by_merge, taken_by_merge
from firnline_domain.records.parts.tallies import FileTally, Tally

TARGET = 1_000
MANY = Tally(9, 9, 900)


def held(fragments: Tally = Tally(), undersized: Tally = Tally()) -> FileTally:  # noqa: B008
    return FileTally(fragments=fragments, undersized=undersized, on_target=Tally(50, 0, 50_000))


@pytest.mark.parametrize(
    ("case", "holds", "files"),
    [
        ("L0 alone goes to L1", held(MANY), 9),
        ("L0 that fills a file goes to L2 with L1", held(MANY, Tally(1, 0, 200)), 10),
        ("L1 that does not fill one waits", held(Tally(), Tally(2, 0, 600)), 0),
        ("L1 that does", held(Tally(), Tally(3, 0, 1_000)), 3),
        ("of two of 70 % none is taken", held(Tally(), Tally(2, 0, 1_400)), 0),
        ("and fragments beside them merge alone", held(MANY, Tally(2, 0, 1_400)), 9),
        ("a lone fragment", held(Tally(1, 0, 5)), 0),
        ("large files take no part", held(), 0),
    ],
)
def test_what_a_merge_takes(case: str, holds: FileTally, files: int) -> None:
    assert taken_by_merge(holds, TARGET).files == files


def test_what_is_spared() -> None:
    assert spared_by_merge(held(MANY), TARGET) == 8
    assert spared_by_merge(held(MANY, Tally(1, 0, 200)), TARGET) == 8  # 1,100 bytes in 2 files


@pytest.mark.parametrize("size", [130, 400, 749])
def test_what_it_leaves_it_does_not_take_again(size: int) -> None:
    assert not fills_target(held(Tally(), Tally(1, 0, size)), TARGET)
    assert taken_by_merge(held(Tally(), Tally(1, 0, size)), TARGET).files == 0
