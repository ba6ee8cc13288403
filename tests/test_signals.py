"""Alert rules and boards of infra/observability use metrics that exist, and each alert fires."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from firnline_adapters.observability.metric_list import ALL, METRICS
from firnline_cli.__main__ import COMMANDS

from tests.tools.reference.alerts import RULES, Rule, read_rules

FOLDER = RULES.parent
BOARDS = sorted(FOLDER.glob("boards/*.json"))
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool (Debian: prometheus)")
TESTS = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
OF_PROMETHEUS = {"le", "job", "instance"}
OF_PROCESSES = {"process_cpu_seconds_total", "process_resident_memory_bytes", "up"}
SHOWS = """
import sys
from firnline_adapters.observability import metrics
from prometheus_client import generate_latest
metrics.declare(sys.argv[1])
print(generate_latest().decode())
"""


def board_expressions(board: Path) -> Iterator[str]:
    for panel in json.loads(board.read_text())["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def all_expressions() -> Iterator[str]:
    yield from (rule.expression for rule in read_rules())
    for board in BOARDS:
        yield from board_expressions(board)
    for test in TESTS:
        yield from (one["series"] for one in test["input_series"])


def series_with_labels() -> dict[str, set[str]]:
    """Every name that Prometheus stores of the services, with its labels."""
    found = dict.fromkeys(OF_PROCESSES, OF_PROMETHEUS)
    for metric in METRICS.values():
        ends = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        for end in ends:
            found[metric.prometheus_name + end] = {*metric.labels, *OF_PROMETHEUS}
    return found


def find_unknown(expression: str, known: dict[str, set[str]]) -> list[str]:
    """Find the names of an expression that no service has, and labels that its metrics lack."""
    named = re.findall(r"\b(firnline_\w+|process_\w+|up)\b(?:\{([^}]*)\})?", expression)
    unknown = [name for name, _ in named if name not in known]
    labels = set[str]().union(*(known.get(name, set()) for name, _ in named))
    for name, matchers in named:
        matched = re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers)
        unknown += [f"{name}: {one}" for one in matched if one not in known.get(name, {one})]
    kept = ",".join(re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", expression))
    return unknown + [one for one in re.findall(r"\w+", kept) if one not in labels]


def test_rules_and_boards_name_what_a_service_shows() -> None:
    known = series_with_labels()
    expressions = [*all_expressions()]
    assert len(expressions) > 80
    assert {one: wrong for one in expressions if (wrong := find_unknown(one, known))} == {}


@pytest.mark.parametrize(
    "expression",
    [
        "sum(firnline_tables_gone)",
        "sum(rate(firnline_orders[5m]))",
        "rate(firnline_task_seconds[5m])",
        'firnline_orders_total{verb="x"}',
        "sum by (verb) (firnline_orders_total)",
    ],
)
def test_a_name_that_no_service_shows_is_found(expression: str) -> None:
    assert find_unknown(expression, series_with_labels()) != []


def labels_of_alerts() -> dict[str, set[str]]:
    """The labels that each alert has in its tests."""
    found = defaultdict[str, set[str]](set)
    for test in TESTS:
        for one in test["promql_expr_test"]:
            for sample in one["exp_samples"]:
                found[test["name"]].update(re.findall(r"(\w+)=", sample["labels"]))
    return found


@pytest.mark.parametrize("rule", read_rules(), ids=lambda rule: rule.name)
def test_an_alert_is_complete(rule: Rule) -> None:
    """With words for people, and a test in which it is silent first and fires then."""
    outcomes = [
        [bool(one["exp_samples"]) for one in test["promql_expr_test"]]
        for test in TESTS
        if test["name"] == rule.name
    ]
    assert outcomes
    assert all(found == [False, True] for found in outcomes)
    assert rule.severity in ("critical", "warning")
    assert all((rule.summary, rule.meaning, rule.remedy))
    shown = set(re.findall(r"\$labels\.(\w+)", rule.summary))
    assert shown <= labels_of_alerts()[rule.name]
    assert set(re.findall(r"`firnline ([a-z-]+)", rule.remedy)) <= {*COMMANDS}


@needs_promtool
def test_each_alert_fires_and_does_not() -> None:
    run_promtool("test", "rules", str(FOLDER / "alerts_test.yaml"))


@needs_promtool
def test_expressions_of_boards_are_valid(tmp_path: Path) -> None:
    rules = [
        {"record": f"board:x{number}", "expr": one.replace("$__rate_interval", "5m")}
        for number, one in enumerate(one for board in BOARDS for one in board_expressions(board))
    ]
    path = tmp_path / "boards.yaml"
    path.write_text(json.dumps({"groups": [{"name": "boards", "rules": rules}]}))
    assert len(rules) > 30
    run_promtool("check", "rules", str(path))


@needs_promtool
@pytest.mark.parametrize("service", ALL)
def test_promtool_has_no_objection_to_a_service(service: str) -> None:
    shown = subprocess.run([sys.executable, "-c", SHOWS, service], capture_output=True, check=True)
    assert run_promtool("check", "metrics", given=shown.stdout) == ""


def run_promtool(*arguments: str, given: bytes = b"") -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], input=given, capture_output=True)
    said = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, said
    return said
