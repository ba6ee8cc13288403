"""What runs say beside each other."""

from __future__ import annotations

import pytest
from firnline_benchmark_runs import benchmark_run

from bench.rewrite.engines import FIRNLINE, SAIL, TRINO
from bench.rewrite.pairs import bars, better, cpu, cpu_and_commit, in_turn, line, summary, wall

COMMIT = {"commit": {"wall_s": 0.5, "cpu_s": 0.25}}


def test_each_round_begins_with_the_next_contestant():
    names = [one.name for one in in_turn((FIRNLINE, SAIL, TRINO), 4)]
    assert names == [
        "firnline", "sail", "trino",
        "sail", "trino", "firnline",
        "trino", "firnline", "sail",
        "firnline", "sail", "trino",
    ]  # fmt: skip


def test_the_better_stock_is_chosen_for_each_measure():
    found = {
        "stock": [benchmark_run("stock", wall=9.0, cpu=10.0)],
        "stock_cached": [benchmark_run("stock_cached", wall=8.0, cpu=11.0)],
    }
    assert better(found, cpu)[0].engine == "stock"
    assert better(found, wall)[0].engine == "stock_cached"


def test_a_stock_that_never_finished_is_not_the_better_one():
    found = {"stock": [], "stock_cached": [benchmark_run("stock_cached")]}
    assert better(found, cpu)[0].engine == "stock_cached"


def test_bars_hold_the_first_against_stock_and_floor():
    found = {
        "firnline": [benchmark_run("firnline", 1.0, 2.0, extra=COMMIT)],
        "stock": [benchmark_run("stock", 20.0, 40.0)],
        "stock_cached": [benchmark_run("stock_cached", 10.0, 20.0)],
        "floor": [benchmark_run("floor", 1.0, 1.6)],
        "floor_lean": [benchmark_run("floor_lean", 1.0, 1.0)],
    }
    medians = {bar.what: bar.found.median for bar in bars(found)}
    assert medians["CPU without the commit against the better stock"] == pytest.approx(0.1)
    assert medians["CPU with the commit against the better stock"] == pytest.approx(2.25 / 20)
    assert medians["wall with the commit against the better stock"] == pytest.approx(1.5 / 10)
    assert medians["CPU against the floor"] == pytest.approx(2 / 1.6)
    assert medians["CPU against the lean floor"] == pytest.approx(2.0)
    # 2 M rows in: 2.0 s in all, of which the JVM takes 1.0 and the driver 0.5.
    assert medians["CPU s per million input rows, whole tree"] == pytest.approx(1.0)
    assert medians["CPU s per million input rows, all of Python"] == pytest.approx(0.5)
    assert medians["CPU s per million input rows, Python tasks alone"] == pytest.approx(0.25)


def test_who_commits_by_itself_has_it_in_its_figures():
    assert cpu_and_commit(benchmark_run("stock", cpu=3.0)) == 3.0
    assert cpu_and_commit(benchmark_run("firnline", cpu=3.0, extra=COMMIT)) == 3.25


def test_a_summary_has_medians_and_the_rows_of_every_run():
    runs = [benchmark_run("sail", wall=w) for w in (3.0, 1.0)] + [
        benchmark_run("sail", 2.0, same_rows=False)
    ]
    one = summary({"sail": runs, "trino": []})["sail"]
    assert one["wall_s"] == {"median": 2.0, "low": 1.0, "high": 3.0}
    assert one["start_cpu_s"]["median"] == 4.0
    assert one["same_rows"] is False
    assert one["commit"] == {}


def test_who_was_never_run_is_left_out_of_the_summary():
    assert summary({"trino": []}) == {}


def test_wrong_rows_are_shouted():
    assert "ROWS DIFFER" in line(benchmark_run("sail", same_rows=False))
    assert "same rows" in line(benchmark_run("sail"))
