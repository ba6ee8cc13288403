"""`firnline run` as cron starts it: one process, an exit code, rows as they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

pytestmark = [pytest.mark.stack, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
FILES = 10
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def firnline(catalog_uri: str) -> Run:
    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        kept = ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "XDG_CACHE_HOME", "PYTHONPATH")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {"FIRNLINE_CATALOG_URI": catalog_uri, **more}
        argv = [sys.executable, "-m", "firnline_cli", *words]
        return subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=250)

    return run


def made(lake: RestCatalog, namespace: str, **properties: str) -> Table:
    """Small files, and a copy-on-write delete of nothing."""
    given = {"format-version": "2", **properties}
    table = lake.create_table(f"{namespace}.t", schema=SCHEMA, properties=given)
    for number in range(FILES):
        ids = range(number * 10, number * 10 + 10)
        rows = pa.table({"id": ids, "v": [f"r{one}" for one in ids]}, schema=SCHEMA)
        table.append(rows)
    return table


def rows(table: Table) -> list[dict[str, Any]]:
    table.refresh()
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_a_compaction_from_first_to_last(lake: RestCatalog, namespace: str, firnline: Run) -> None:
    table = made(lake, namespace)
    before, name = rows(table), f"{namespace}.t"
    head = table.current_snapshot()

    shown = firnline("run", name, "compact", "--dry-run", "--json")
    (would,) = map(json.loads, shown.stdout.splitlines())
    assert (would["event"], would["files"], would["action"]) == ("would_run", FILES, "compact")
    table.refresh()
    assert table.current_snapshot() == head

    done = firnline("run", name, "compact", "--verify", "--json")
    assert done.returncode == 0, done.stderr
    told = {one["event"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert told["ended"]["outcome"] == "committed", done.stdout
    assert told["ended"]["files_removed"] == FILES
    assert told["compared"]["outcome"] == "equal"
    assert done.stderr == ""
    assert rows(table) == before
    assert table.inspect.files().num_rows < FILES
    summary = table.current_snapshot()
    assert summary is not None
    assert summary.summary is not None
    assert summary.summary.additional_properties["firnline.task-id"] == told["ended"]["task_id"]

    again = firnline("run", name, "compact", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout.splitlines()[-1])["event"] == "nothing_to_do"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "{name}", "compact", "--partition", "[1]"], 1, "has no partition [1]"),
        (["run", "{name}", "compakt"], 2, "compakt"),
        (["run", "{name}", "compact", "--memory", "much"], 2, "say 512m or 4g"),
        (["run", "nowhere.t", "compact"], 1, "no table nowhere.t"),
        (["run", "{name}", "compact", "--kafka", "127.0.0.1:9"], 1, "--here"),
    ],
    ids=lambda one: one[-1] if isinstance(one, list) else None,
)
def test_what_cannot_be_done_says_so_by_its_code(
    lake: RestCatalog, namespace: str, firnline: Run, words: list[str], code: int, said: str
) -> None:
    made(lake, namespace)
    found = firnline(*(word.format(name=f"{namespace}.t") for word in words))
    assert (found.returncode, said in found.stderr) == (code, True), found.stderr


def test_an_owner_who_wants_none_gets_none(
    lake: RestCatalog, namespace: str, firnline: Run
) -> None:
    table = made(lake, namespace, **{"firnline.enabled": "false"})
    found = firnline("run", f"{namespace}.t", "compact", "--all-partitions")
    assert found.returncode == 1
    assert "firnline.enabled=false" in found.stderr
    assert table.inspect.files().num_rows == FILES
