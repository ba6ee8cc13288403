"""A burst of tasks on the whole stack: no worker runs before it and none after it, none ends while
it runs a task, and no row is lost or doubled."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pyarrow as pa
import pytest
from firnline_local.stack.stack import Stack, run_stack
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]
PARTITIONS, APPENDS = 24, 5
PATIENCE_S = 300.0
SCHEMA = Schema(NestedField(1, "p", LongType()), NestedField(2, "id", LongType()))
BY_P = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
PROPERTIES = {
    "firnline.rewrite.min-fragments": str(APPENDS),
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "0",
}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with run_stack(tmp_path / "stack", workers="0..4:5:2") as stack:
        yield stack


def burst(stack: Stack) -> tuple[Table, list[tuple[int, int]]]:
    """Write as many partitions that each need a rewrite. Return the table and its rows."""
    catalog = RestCatalog("lake", uri=stack.gateway_uri)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_P, properties=PROPERTIES)
    rows = []
    for number in range(APPENDS):
        batch = [(partition, number) for partition in range(PARTITIONS)]
        columns = {"p": [p for p, _ in batch], "id": [one for _, one in batch]}
        table.append(pa.table(columns, schema=table.schema().as_arrow()))
        rows += batch
    return table, rows


def eventually(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


def lives(stack: Stack) -> list[str]:
    return [part.life for name, part in stack.record.parts.items() if name.startswith("worker")]


def open_tasks(stack: Stack) -> int:
    with build_opener(ProxyHandler({})).open(f"{stack.console_uri}/api/workers") as answer:
        return sum(lane["orders"] for lane in json.load(answer).values())


def events(stack: Stack) -> list[dict[str, Any]]:
    lines = (stack.state.root / "events.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["part"].startswith("worker")]


def lines_of_workers(stack: Stack, action: str) -> list[str]:
    logs = sorted((stack.state.root / "logs").glob("worker*.log"))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if f"action={action} " in f"{line} "]


def test_a_burst_brings_four_workers_and_its_end_removes_them(stack: Stack) -> None:
    assert lives(stack) == ["stopped"] * 4
    table, rows = burst(stack)
    eventually(lambda: lives(stack), lambda found: "stopped" not in found)
    eventually(lambda: lives(stack), lambda found: found == ["stopped"] * 4)
    assert open_tasks(stack) == 0
    files = table.refresh().inspect.data_files()
    per_partition = Counter(one["p"] for one in files["partition"].to_pylist())
    assert per_partition == dict.fromkeys(range(PARTITIONS), 1)
    found = table.scan().to_arrow()
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(rows)
    rewrites = [
        one.summary for one in table.snapshots() if one.summary.operation.value == "replace"
    ]
    added = sum(int(one["added-data-files"] or 0) for one in rewrites)
    assert added == PARTITIONS  # each was rewritten once
    assert [one["detail"] for one in events(stack) if one["what"] == "crashed"] == []
    ended = lines_of_workers(stack, "stopping")
    assert len(ended) >= 4
    assert [line for line in ended if "running=0" not in line] == []
    assert lines_of_workers(stack, "work_interrupted") == []
