"""Which tests go to one worker of xdist, in which order, and how long each group took.

Tests that share a server are one group: the server is started by one worker. All others are grouped
by their file. Nothing here changes what a test does.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

# The long ones first: the short ones fill up the other worker's time.
FIRST = (
    "spark",
    "kafka",
    "tests/e2e/test_demo.py",
    "tests/integration/standalone",
    "tests/integration/commits",
    "tests/e2e",
    "tests/integration/lake",
    "tests/schedules",
    "tests/integration",
)
DIRECTORIES = tuple(  # whose servers live as long as the session
    f"tests/integration/{name}"
    for name in ("commits", "doctor", "gateway", "kafka", "lake", "standalone")
)
SLOWEST = 10


def group_of(item: pytest.Item) -> str:
    """Name the group of a test by the servers that it uses."""
    names = set(getattr(item, "fixturenames", ()))
    path = item.nodeid.partition("::")[0]
    stack = item.get_closest_marker("stack")
    if "spark" in names or ("way" in names and item.get_closest_marker("spark")):
        return "spark"
    if "kafka_address" in names or (stack and path.startswith("tests/contract/")):
        return "kafka"
    directory = str(Path(path).parent)
    return directory if directory in DIRECTORIES and stack else path


def rank_of(group: str) -> int:
    """Count the entries of FIRST before the one that names a group."""
    places = (place for place, start in enumerate(FIRST) if group.startswith(start))
    return next(places, len(FIRST))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("dist", "no") != "loadgroup":
        return
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[group_of(item)].append(item)
    items[:] = [item for group in sorted(groups, key=rank_of) for item in groups[group]]
    for group, members in groups.items():
        for item in members:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the groups that took longest, and how long each worker was busy."""
    seconds: dict[str, float] = defaultdict(float)
    workers: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                _, at, group = report.nodeid.rpartition("@")
                key = group if at and "]" not in group else report.nodeid.partition("::")[0]
                seconds[key] += report.duration
                workers[getattr(report, "worker_id", "one process")] += report.duration
                tests[key] += report.when == "call"
    if seconds:
        terminalreporter.section("slowest groups")
    for group in sorted(seconds, key=lambda one: -seconds[one])[:SLOWEST]:
        terminalreporter.line(f"{seconds[group]:8.1f}s {tests[group]:5d} tests  {group}")
    for worker, busy in sorted(workers.items()):
        terminalreporter.line(f"{busy:8.1f}s              {worker}")
