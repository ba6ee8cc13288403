"""How far files are from their target, and what a merge would mend."""

from __future__ import annotations

import pytest
from firnline_domain.counters.state.file_sizes import mendable_error, merged_files, size_error
from firnline_domain.records.parts.tallies import FileTally, Tally, size_class

TARGET = 1_000


def of(*sizes: int) -> FileTally:
    holds = FileTally()
    for size in sizes:
        holds += FileTally(**{size_class(size, TARGET).value: Tally(1, size, size)})
    return holds


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ((), 0.0),
        ((1_000,), 0.0),
        ((5_000, 1_900), 0.0),  # large files are nobody's debt
        ((500,), 0.5),
        ((500, 1_000), 0.125**0.5),
        ((100, 100, 100), 0.9),
    ],
)
def test_the_error_is_the_root_mean_square_distance(sizes: tuple[int, ...], error: float) -> None:
    assert size_error(of(*sizes), TARGET) == pytest.approx(error)


def test_files_of_a_class_count_as_their_mean_so_it_is_a_lower_bound() -> None:
    sizes = (10, 60, 120)
    exact = (sum((1 - size / TARGET) ** 2 for size in sizes) / 3) ** 0.5
    found = size_error(of(*sizes), TARGET)
    assert found <= exact
    assert exact - found < 1 / 16


@pytest.mark.parametrize(
    ("sizes", "files"), [((), 0), ((9,), 1), ((9, 9), 1), ((120,) * 20, 3), ((100,) * 10, 1)]
)
def test_into_how_few_files(sizes: tuple[int, ...], files: int) -> None:
    assert merged_files(of(*sizes).fragments, TARGET) == files


def test_a_merge_mends_what_it_brings_nearer() -> None:
    assert mendable_error(of(120, 120, 120), TARGET) == pytest.approx(0.24)
    assert mendable_error(of(*[100] * 10), TARGET) == pytest.approx(0.9)
    assert mendable_error(of(120, 120, 120, 1_000, 1_000), TARGET) == pytest.approx(0.24)


def test_what_a_merge_leaves_is_not_mended_again() -> None:
    assert mendable_error(of(124), TARGET) == 0.0
    assert mendable_error(of(300, 700, 1_000), TARGET) == 0.0  # no fragments


def test_tiny_fragments_beside_good_files_are_not_worth_it() -> None:
    """By all files it would be 0.71 to 0.5."""
    assert mendable_error(of(1, 1, 1, 1_000, 1_000, 1_000), TARGET) < 0.01
