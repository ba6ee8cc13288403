"""What Prometheus sees of a service, from its start."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from firnline_adapters.observability.metric_list import ALL, METRICS, Metric
from firnline_adapters.observability.metrics import measure_at_scrape
from prometheus_client import REGISTRY

ROOT = Path(__file__).parents[4]
SHOWS = """
from firnline_adapters.observability import metrics
from prometheus_client import generate_latest
metrics.declare("worker")
metrics.count("rows_compared", outcome="differ")
print(generate_latest().decode())
"""


STARTS = """
import json
from firnline_adapters.observability import metrics
from firnline_adapters.observability.metric_list import ALL
found = {}
for service in ALL:
    metrics.declare(service)
    series = {one.name: len(one.samples) for one in metrics.REGISTRY.collect()}
    found[service] = [one.name for one in metrics.METRICS.values() if one.kind == "counter"
                      and service in one.services and not series[f"firnline_{one.name}"]]
    for family in metrics._made.values():
        metrics.REGISTRY.unregister(family)
    metrics._made.clear()
print(json.dumps(found))
"""
TYPES = {"counter", "gauge", "histogram", "summary"}
# As `promtool check metrics` has them; a share or a number of things has no unit.
UNITS = (
    *("s", "ms", "us", "ns", "sec", "min", "h", "d", "b", "kb", "mb", "gb", "tb", "pb"),
    *("minutes", "hours", "days", "weeks", "bits", "percent", "kilobytes", "gigabytes"),
    *("milliseconds", "microseconds", "nanoseconds"),
)


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


def test_each_counter_of_each_service_has_a_series_at_its_start() -> None:
    done = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True)
    without = {name: set(found) for name, found in json.loads(done.stdout).items()}
    assert without.keys() == set(ALL)
    # Series of a catalog or a source are made when the service reads which it has.
    of_sources = {"doorbells", "doorbells_dropped", "source_failures", "source_slots_made"}
    assert set().union(*without.values()) <= {"catalog_errors"} | of_sources


def test_names_and_labels_are_as_promtool_asks_for() -> None:
    wrong = []
    for one in METRICS.values():
        words = one.name.split("_")
        wrong += [
            (one.prometheus_name, why)
            for why, found in {
                "case": not all(re.fullmatch("[a-z][a-z_]*", name) for name in names(one)),
                "type": TYPES & set(words),
                "unit": set(UNITS) & set(words),
                "total": "total" in words,  # the library adds it to a counter
                "suffix": words[-1] in ("count", "sum", "bucket", "created"),
                "label": {"le", "quantile", "job", "instance"} & set(one.labels),
                "seconds": one.kind == "histogram" and words[-1] != "seconds",
            }.items()
            if found
        ]
    assert wrong == []


def names(metric: Metric) -> list[str]:
    return [metric.name, *metric.labels]


def members(name: str) -> set[str]:
    """The services whose own code has that text."""
    return {
        path.relative_to(ROOT).parts[1]
        for path in ROOT.glob("services/*/src/**/*.py")
        if name in path.read_text()
    }


def test_a_service_has_the_metrics_that_its_code_counts() -> None:
    counting: dict[str, set[str]] = {}
    for service in ALL:
        for name, _ in calls(f"services/{service}/src/**/*.py"):
            counting.setdefault(name, set()).add(service)
    by_libraries = {name for name, _ in calls("libs/*/src/**/*.py")}
    assert len(counting) > 30
    assert [name for name, found in counting.items() if found - set(METRICS[name].services)] == []
    assert [
        name
        for name, found in counting.items()
        if name not in by_libraries and found != set(METRICS[name].services)
    ] == []


def test_who_takes_records_shows_how_many_wait() -> None:
    takers = members("KafkaInbox(") | members("ConsumerLag(")
    assert takers == set(METRICS["consumer_lag_records"].services)


def calls(*among: str) -> Iterator[tuple[str, set[str | None]]]:
    """Every metric that code names, with the labels that it gives."""
    for path in (path for one in among for path in ROOT.glob(one)):
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
    found = list(calls("libs/*/src/**/*.py", "services/*/src/**/*.py"))
    assert len(found) > 30
    assert [one for one in found if set(METRICS[one[0]].labels) != one[1]] == []


def test_no_meaning_is_left_to_its_name() -> None:
    assert [one.name for one in METRICS.values() if not one.meaning.endswith(".")] == []


def test_a_gauge_that_is_read_at_the_scrape_has_what_is_found_then() -> None:
    found = {("g", "t", "0"): 4.0}
    labels = {"group": "g", "topic": "t", "partition": "0"}

    def lag() -> float | None:
        return REGISTRY.get_sample_value("firnline_consumer_lag_records", labels)

    with measure_at_scrape("consumer_lag_records", lambda: found):
        assert lag() == 4
        found[("g", "t", "0")] = 5.0
        assert lag() == 5
    assert lag() is None
