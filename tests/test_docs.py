"""What a person can set, read or watch is in the documentation."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest
from firnline_adapters import metrics
from firnline_adapters.settings import all_settings
from firnline_domain.settings.parquet import PARQUET, PARQUET_COLUMNS
from firnline_domain.settings.thresholds import PROPERTIES, RANGES, WORKERS
from firnline_schemas.topics import all_topics

ROOT = Path(__file__).parents[1]
OPERATING = (ROOT / "docs/operating.md").read_text()
README = (ROOT / "README.md").read_text()
SERVICES = ("gateway", "enricher", "planner", "worker", "committer", "console")


def variables(service: str) -> set[str]:
    return {one.variable for one in all_settings() if service in one.services}


def names(literal: object) -> set[str]:
    return {f"firnline_{name}" for name in typing.get_args(literal)}


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting(service: str) -> None:
    assert {name for name in variables(service) if f"`{name}`" not in OPERATING} == set()


def test_no_setting_that_is_gone() -> None:
    told = set(re.findall(r"^\| `(FIRNLINE_\w+)`", OPERATING, re.MULTILINE))
    assert told == set().union(*map(variables, SERVICES))


def test_every_property_topic_and_metric() -> None:
    wanted = set(PROPERTIES) | {topic.name for topic in all_topics()}
    wanted |= names(metrics.CounterName) | names(metrics.GaugeName) | names(metrics.HistogramName)
    assert {name for name in wanted if f"`{name}`" not in OPERATING} == set()


def test_every_range_of_a_number() -> None:
    fields = {name: RANGES[field] for name, field in PROPERTIES.items() if field in RANGES}
    columns = {f"{start}NAME": wanted for start, wanted in PARQUET_COLUMNS.items()}
    told = {**fields, **WORKERS, **PARQUET, **columns}.items()
    assert [name for name, one in told if f"| `{name}` | {one.words} |" not in OPERATING] == []


def test_the_readme_has_a_row_per_service() -> None:
    assert all(f"| [{name}](services/{name}) |" in README for name in SERVICES)


def test_links_in_the_documentation_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_commands_named_in_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", README)) <= targets
    modules = (ROOT / "services/cli/src/firnline_cli").glob("[a-z]*.py")
    commands = {path.stem.replace("_", "-") for path in modules}
    named = set(re.findall(r"`firnline ([a-z-]+)", README + OPERATING))
    assert named <= commands
