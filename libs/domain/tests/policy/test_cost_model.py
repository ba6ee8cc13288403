"""What a rewrite costs, against what it cost on the table of the bench."""

from __future__ import annotations

import pytest
from firnline_domain.policy.cost_model import (
    FIRNLINE,
    MAX_FACTOR,
    STOCK_CACHED,
    CpuRates,
    Work,
    learned_factor,
)

ROWS = 4_993_585  # delete rows of the bench's main table: 40 files in each of 6 partitions
LOADED = ROWS * 22  # 2 base files of a partition and, on average, half of its 40 later ones
MAIN = Work(465_157_667 / 6, 180_176_147 / 6, ROWS / 6, LOADED / 6, 492 / 6)  # of 6 orders, each


@pytest.mark.parametrize(("model", "measured"), [(FIRNLINE, 22.0), (STOCK_CACHED, 219.3)])
def test_the_constants_give_what_was_measured(model: CpuRates, measured: float) -> None:
    assert 6 * model.cpu_s(MAIN) == pytest.approx(measured, rel=0.1)


def test_a_file_that_is_converted_has_a_price_of_its_own() -> None:
    model = CpuRates(2.0, 0.0, 0.0, 0.0, 0.0, 1.0, open_s=0.5, convert_s=3.0)
    assert model.cpu_s(Work(0, 0, files=4, converted=10)) == 2.0 + 2.0 + 30.0


def test_a_thousand_small_files_cost_what_was_measured() -> None:
    """bench/results/prices.json: worker and committer together, 200 rows a file."""
    keys, small = 300_000, 5_000_000
    converted = FIRNLINE.cpu_s(Work(keys, 0, 40_000, files=1, converted=1_000))
    merged = FIRNLINE.cpu_s(Work(small, small, 40_000, files=1_001))
    assert converted == pytest.approx(10.1, rel=0.1)  # 9.3 as v3, 10.8 as v2
    assert merged == pytest.approx(2.1, rel=0.1)  # 1.8 to 2.2


def test_gb_hours_are_memory_times_wall() -> None:
    model = CpuRates(2.0, 0.0, 0.0, 0.0, 0.0, memory_gb=3.0, cores=2.0)
    assert model.wall_s(Work(1, 1)) == 1.0
    assert model.gb_hours(Work(1, 1)) == pytest.approx(3.0 / 3600)


def test_it_learns_the_speed_of_the_machine() -> None:
    factor = 1.0
    for _ in range(100):
        factor = learned_factor(factor, factor * FIRNLINE.cpu_s(MAIN), 2 * FIRNLINE.cpu_s(MAIN))
    assert factor == pytest.approx(2.0, rel=0.01)


def test_one_task_that_was_held_up_teaches_little() -> None:
    assert learned_factor(1.0, 3.0, 3_000.0) == pytest.approx(4**0.1)
    assert learned_factor(1.0, 3.0, 0.0) == pytest.approx(4**-0.1)


def test_a_task_as_foretold_teaches_nothing() -> None:
    assert learned_factor(1.7, 5.0, 5.0) == pytest.approx(1.7)


def test_what_was_learned_has_bounds() -> None:
    factor = 1.0
    for took_s in [1e9] * 500:
        factor = learned_factor(factor, 1.0, took_s)
    assert factor == MAX_FACTOR
    for took_s in [0.0] * 500:
        factor = learned_factor(factor, 1.0, took_s)
    assert factor == 1 / MAX_FACTOR
    assert learned_factor(1.7, 0.0, 5.0) == 1.7
