"""The constants that explain what small tables cost."""

from __future__ import annotations

import pytest

from bench.rewrite.prices import Amounts, Measured, fit, foretold, in_code, off
from bench.rewrite.prices_report import prices_tables

TRUE = {"fixed": 0.3, "files": 0.004, "loads": 2e-6}


def case(files: float, loads: float, *more_s: float) -> Measured:
    amounts = Amounts(files=files, loads=loads)
    cost_s = 0.3 + 0.004 * files + 2e-6 * loads
    return Measured(f"{files}x{loads}", amounts, (cost_s, *(cost_s + one for one in more_s)))


CASES = [case(1, 0, 0.2), case(100, 0), case(10, 1e6, 0.1, 3.0), case(400, 5e6), case(30, 1e4)]


def test_the_constants_that_made_the_costs_are_found():
    assert fit(CASES, ("files", "loads")) == pytest.approx(TRUE)


def test_what_a_neighbour_adds_to_a_round_changes_nothing():
    noisy = [Measured(one.name, one.amounts, (*one.cpu_s, 99.0)) for one in CASES]
    assert fit(noisy, ("files", "loads")) == pytest.approx(TRUE)


def test_nothing_is_paid_for_with_less_than_nothing():
    """The bytes fall where the files grow: alone they would have a price below zero."""
    cases = [
        Measured("a", Amounts(files=1, bytes=1e8), (1.0,)),
        Measured("b", Amounts(files=100, bytes=1e6), (1.4,)),
        Measured("c", Amounts(files=200, bytes=5e7), (1.7,)),
    ]
    found = fit(cases, ("files", "bytes"))
    assert found["bytes"] == 0.0
    assert found["files"] == pytest.approx(0.0035, rel=0.05)


def test_worker_and_committer_are_summed_by_round():
    both = Measured("a", Amounts(), (1.0, 3.0)).beside(Measured("a", Amounts(), (0.5, 0.25)))
    assert both.cpu_s == (1.5, 3.25)


def test_what_is_foretold_is_the_sum_of_its_parts():
    assert foretold(TRUE, Amounts(files=10, loads=1e6)) == pytest.approx(0.3 + 0.04 + 2.0)


@pytest.mark.parametrize(
    ("code", "is_off"), [(1.0, False), (1.25, False), (1.3, True), (0.7, True)]
)
def test_a_constant_is_off_from_a_quarter_on(code, is_off):
    assert off(1.0, code) is is_off


def test_the_table_marks_constants_that_are_off():
    right = in_code()["read"]["loads"]
    prices = {"read": {"fixed": 0.3, "files": 1.0, "loads": right}}
    one = {"name": "eq", "amounts": {"files": 4, "loads": 20_000}, "cpu_s": [2.0, 1.0, 3.0]}
    work = {"name": "convert many_10 v2", "amounts": {"files": 10}, "cpu_s": [0.5]}
    text = prices_tables(
        {
            "prices": prices,
            "reads": [one],
            "rewrites": [{"worker": work, "commit": {**work, "cpu_s": [0.1]}}],
            "commit_walls": [{**work, "cpu_s": [0.2]}],
        }
    )
    lines = text.splitlines()
    assert next(line for line in lines if "a data file |" in line).endswith("(**off**) |")
    assert "off" not in next(line for line in lines if "that it reaches" in line)
    assert "| eq | 4 | 0 | 20,000 | 0 | 1.00 | 2.00 |" in lines
    assert "| convert many_10 v2 | 10 | 0 | 0.00 | 0.50 | 0.10 | 0.20 |" in lines
