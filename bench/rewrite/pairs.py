"""Engines in turn, round by round, and what their figures say beside each other."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bench.rewrite.benchmark_runs import BenchmarkRun, benchmark_run
from bench.rewrite.engines import Engine
from bench.rewrite.figures import Bar, figure, ratio_bar
from bench.rewrite.sources import Arena, Source

Rounds = dict[str, list[BenchmarkRun]]
STOCKS = ("stock", "stock_cached")


def rounds(place: Arena, origin: Source, who: Sequence[Engine], count: int) -> Rounds:
    """`count` rounds, in turn."""
    found: Rounds = {one.name: [] for one in who}
    for one in in_turn(who, count):
        made = benchmark_run(place, origin, one)
        found[one.name].append(made)
        print(line(made), flush=True)
    return found


def in_turn(who: Sequence[Engine], count: int) -> Iterator[Engine]:
    """Each round begins with the next engine, so that none is always first."""
    for number in range(count):
        first = number % len(who)
        yield from (*who[first:], *who[:first])


def line(made: BenchmarkRun) -> str:
    """One run for people."""
    commit = made.extra.get("commit")
    more = f" + commit {commit['wall_s']:.2f} s, CPU {commit['cpu_s']:.2f} s" if commit else ""
    rows = "same rows" if made.same_rows else "ROWS DIFFER"
    return (
        f"{made.engine:>13}: wall {made.wall_s:7.2f} s  CPU {made.cpu_s:7.2f} s"
        f"  peak PSS {made.pss_peak / 1e6:6.0f} MB  out {made.output_bytes / 1e6:6.1f} MB"
        f" in {made.output_files:3d}  {made.rows_out:,} rows, {rows}{more}"
    )


def summary(found: Rounds) -> dict[str, Any]:
    """Medians by engine."""
    return {name: _of(runs) for name, runs in found.items() if runs}


def _of(runs: list[BenchmarkRun]) -> dict[str, Any]:
    costs = ("wall_s", "cpu_s", "pss_before", "pss_peak", "output_bytes")
    names = (*costs, "start_s", "start_cpu_s", "warm_s")
    columns = {name: asdict(figure([getattr(one, name) for one in runs])) for name in names}
    kinds = {kind for one in runs for kind in one.cpu_by}
    by = {
        kind: statistics.median([one.cpu_by.get(kind, 0.0) for one in runs])
        for kind in sorted(kinds)
    }
    commits = [one.extra["commit"] for one in runs if "commit" in one.extra]
    commit = {
        name: asdict(figure([one[name] for one in commits]))
        for name in ("wall_s", "cpu_s")
        if commits
    }
    return {
        **columns,
        "cpu_by": by,
        "pss_by": max(runs, key=lambda one: one.pss_peak).pss_by,
        "commit": commit,
        "output_files": runs[0].output_files,
        "rows_out": runs[0].rows_out,
        "same_rows": all(one.same_rows for one in runs),
        "modes": sorted({mode for one in runs for mode in one.extra.get("modes", ())}),
    }


def better(found: Rounds, measure: Callable[[BenchmarkRun], float]) -> list[BenchmarkRun]:
    """The stock run that does better in the median."""
    stocks = [found[name] for name in STOCKS if found.get(name)]
    return min(stocks, key=lambda runs: statistics.median(map(measure, runs)))


def bars(found: Rounds) -> list[Bar]:
    """Those of the issue that one table answers."""
    ours = found["firnline"]
    return [
        *_against_stock(found, ours),
        ratio("CPU against the floor", 1.5, ours, found["floor"], cpu),
        ratio("CPU against the lean floor", None, ours, found["floor_lean"], cpu),
        Bar("CPU s per million input rows, all of Python", 0.75, _per_million(ours, _python)),
        Bar("CPU s per million input rows, Python tasks alone", None, _per_million(ours, _tasks)),
        Bar("CPU s per million input rows, whole tree", None, _per_million(ours, cpu)),
        ratio("output bytes against stock", 1.02, ours, found["stock"], _size),
    ]


def _against_stock(found: Rounds, ours: list[BenchmarkRun]) -> list[Bar]:
    by_cpu, by_wall, by_peak = better(found, cpu), better(found, wall), better(found, peak)
    return [
        ratio("CPU without the commit against the better stock", None, ours, by_cpu, cpu),
        ratio("CPU with the commit against the better stock", 0.1, ours, by_cpu, cpu_and_commit),
        ratio("wall without the commit against the better stock", None, ours, by_wall, wall),
        ratio("wall with the commit against the better stock", 0.1, ours, by_wall, wall_and_commit),
        ratio("peak PSS against the better stock, heaps as set", None, ours, by_peak, peak),
    ]


def ratio(
    what: str,
    limit: float | None,
    ours: list[BenchmarkRun],
    theirs: list[BenchmarkRun],
    measure: Callable[[BenchmarkRun], float],
) -> Bar:
    return ratio_bar(what, limit, [*map(measure, ours)], [*map(measure, theirs)])


def _per_million(runs: list[BenchmarkRun], measure: Callable[[BenchmarkRun], float]) -> Any:
    return figure([measure(one) / (one.rows_in / 1e6) for one in runs])


def cpu(one: BenchmarkRun) -> float:
    return one.cpu_s


def wall(one: BenchmarkRun) -> float:
    return one.wall_s


def peak(one: BenchmarkRun) -> float:
    return float(one.pss_peak)


def _size(one: BenchmarkRun) -> float:
    return float(one.output_bytes)


def cpu_and_commit(one: BenchmarkRun) -> float:
    return one.cpu_s + float(one.extra.get("commit", {}).get("cpu_s", 0.0))


def wall_and_commit(one: BenchmarkRun) -> float:
    return one.wall_s + float(one.extra.get("commit", {}).get("wall_s", 0.0))


def _tasks(one: BenchmarkRun) -> float:
    """Python below Spark's daemon: reading, matching, writing."""
    return one.cpu_by.get("python", 0.0)


def _python(one: BenchmarkRun) -> float:
    """The tasks and the driver, which plans, builds sets and describes outputs."""
    return sum(spent for kind, spent in one.cpu_by.items() if kind != "jvm")
