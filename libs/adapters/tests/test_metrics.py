"""What Prometheus sees of a service, from its start."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from firnline_adapters.metric_list import METRICS
from firnline_adapters.metrics import measured
from prometheus_client import REGISTRY

ROOT = Path(__file__).parents[3]
SHOWS = """
from firnline_adapters import metrics
from prometheus_client import generate_latest
metrics.declare("worker")
metrics.count("rows_compared", outcome="differ")
print(generate_latest().decode())
"""


def shown() -> str:
    """By a worker, in a process of its own: the library's registry is one for a process."""
    return subprocess.run([sys.executable, "-c", SHOWS], capture_output=True, text=True).stdout


def test_series_are_there_at_0_before_the_first_event() -> None:
    lines = shown().splitlines()
    assert 'firnline_rows_compared_total{outcome="equal"} 0.0' in lines
    assert 'firnline_rows_compared_total{outcome="differ"} 1.0' in lines
    assert 'firnline_records_read_total{topic="rewrite-tasks"} 0.0' in lines
    assert 'firnline_dead_letters_total{reason="too_large"} 0.0' in lines
    assert "firnline_task_seconds_count 0.0" in lines
    assert any(line.startswith('firnline_build_info{service="worker",version="') for line in lines)


def test_help_says_what_is_counted() -> None:
    assert "# HELP firnline_rows_in_total Rows read by rewrites." in shown()


def test_no_series_of_another_service_and_none_of_creation() -> None:
    assert "gateway" not in shown()
    assert "_created" not in shown()


def calls() -> Iterator[tuple[str, set[str | None]]]:
    """Every metric that code names, with the labels that it gives."""
    for path in [*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Name("metrics"), attr="count" | "gauge" | "observe"
                    ),
                    args=[ast.Constant(value=str(name)), *_],
                    keywords=labels,
                ):
                    yield name, {one.arg for one in labels}


def test_code_counts_what_the_list_has_with_its_labels() -> None:
    found = list(calls())
    assert len(found) > 30
    assert [one for one in found if set(METRICS[one[0]].labels) != one[1]] == []


def test_no_meaning_is_left_to_its_name() -> None:
    assert [one.name for one in METRICS.values() if not one.meaning.endswith(".")] == []


def test_a_gauge_that_is_read_at_the_scrape_has_what_is_found_then() -> None:
    found = {("g", "t", "0"): 4.0}
    labels = {"group": "g", "topic": "t", "partition": "0"}

    def lag() -> float | None:
        return REGISTRY.get_sample_value("firnline_consumer_lag_records", labels)

    with measured("consumer_lag_records", lambda: found):
        assert lag() == 4
        found[("g", "t", "0")] = 5.0
        assert lag() == 5
    assert lag() is None
