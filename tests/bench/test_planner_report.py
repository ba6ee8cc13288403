"""The planner's figures as its page shows them."""

from __future__ import annotations

from typing import Any

from firnline_adapters.records.codec import RecordCodec

from bench.planner import fleet
from bench.planner.parts import rates
from bench.planner.polling import Costs, Read, per_hour, polled, told
from bench.planner.report import PAGE, figures, load
from bench.planner.stage import Sample
from bench.simulate.parameters import KINDS, Kind

BEGIN, END = "<!-- planner: begin -->", "<!-- planner: end -->"


def run(rate: int, tables: str = "1000") -> dict[str, Any]:
    size = {
        "seeded": {"state_bytes_per_table": 1_200, "state_bytes_per_partition": 250},
        "recovery": {"cold_s": 3.21, "after_kill_s": 10.0},
        "throughput": {
            "events_per_s": rate,
            "events_per_cpu_s": rate * 2,
            "memory": {"rss": 140_000_000},
        },
    }
    latency = {"rate": 500, "orders": 9, "missing": 1, "p50_ms": 80, "p99_ms": 190}
    return {
        "at": "2026-01-01T00:00:00Z", "machine": "2 x CPU", "load": 0.1, "commit": "abc1234",
        "scale": 1.0, "drivers": {"kafka": {"sizes": {tables: size}, "latency": [latency]}},
    }  # fmt: skip


def test_each_figure_is_of_its_newest_run() -> None:
    text = figures([run(900), run(1_000), run(700, "100000")])
    assert "| kafka | 1,000 | 1,000 | 2,000 | 1,200 | 250 | 140 | 3.2 | 10.0 | 2 |" in text
    assert "| kafka | 100,000 | 700 |" in text
    assert "| kafka | 500 | 9 | 1 | 80 | 190 | 3 |" in text


def test_a_run_that_was_seen_at_one_moment_has_no_rate() -> None:
    leapt = run(9_000)
    leapt["drivers"]["kafka"]["sizes"]["1000"]["throughput"]["seconds"] = 0.1
    assert "| kafka | 1,000 | 900 |" in figures([run(900), leapt])


def test_turns_are_told_with_their_spread() -> None:
    played = run(900)
    # 1/4 s against 1/8 and 1/8 s; 1/6 against 1/8 and 1/4: twice as much, and 8/9
    played["turns"] = {"tables": [1_000, 1_000_000], "events_per_cpu_s": [[8, 8, 4], [4, 6]]}
    text = figures([run(800), played, run(700)])
    assert "an event of 1,000,000 tables costs 1.44 times one of 1,000 (median of 2 turns" in text
    assert "mean 1.44, 0.89 to 2.00)" in text
    assert "| 1,000 | 3 | 4 to 8 | 8 | 2 |" in text
    assert "| 1,000,000 | 2 | 4 to 6 | 5 | 2 |" in text
    assert "were not measured yet" in figures([run(900)])


def test_the_page_is_the_report_of_the_results() -> None:
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == figures(load())


def test_a_rate_is_taken_from_the_first_step_forward_to_the_last() -> None:
    samples = [Sample(0, 0, 5), Sample(1, 1, 5), Sample(2, 2, 105), Sample(3, 2.5, 205)]
    assert rates(samples) == {"events_per_s": 100, "events_per_cpu_s": 133, "seconds": 2}


def test_the_quick_bytes_are_those_of_the_record() -> None:
    for commit in (1, 7, 14):
        uuid, data = fleet.message(3, commit)
        assert RecordCodec().decode(data) == fleet.change(3, commit)
        assert uuid == fleet.table_of(3).uuid


def test_what_polling_reads_is_shown_of_its_newest_run() -> None:
    kind = {name: {"files": 2.4, "bytes": 19_700} for name in ("metadata", "commit", "plan")}
    read = {"files": 1_234_567.0, "bytes": 5_210_000_000}
    sides = dict.fromkeys(("firnline", "firnline_unknown", "amoro"), read)
    newer = {**run(1), "polling": {"tables": 100_000, "kinds": {"hourly": kind}, **sides}}
    assert "not measured" in figures([run(1)])
    text = figures([{**run(1), "polling": {}}, newer, run(2)])
    assert "| a loop that asks every table each minute, as Amoro's | 1,234,567 | 5.2 | 2 |" in text
    assert "| hourly | 20 | 2.4 | 20 | 2 | 20 |" in text


def test_a_loop_plans_once_a_minute_at_the_most_and_loads_sixty_times_an_hour() -> None:
    costs = Costs(Read(1, 100), Read(2, 10), Read(50, 1_000))
    fast, slow = Kind("f", 1.0, 1, 1, 1, 0, 0), Kind("s", 1.0, 7_200, 1, 1, 0, 0)
    assert per_hour(fast) == 3_600
    assert polled(fast, costs, 2) == Read(2 * 60 * (1 + 50), 2 * 60 * (100 + 1_000))
    assert polled(slow, costs, 1) == Read(60 + 0.5 * 50, 60 * 100 + 0.5 * 1_000)
    assert told(slow, costs, 4) == Read(0.5 * 4 * 2, 0.5 * 4 * 10)


def test_pauses_count_in() -> None:
    bursty = next(kind for kind in KINDS if kind.burst_s)
    assert per_hour(bursty) == 30 * 2 / 48
