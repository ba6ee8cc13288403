"""A planner of a fleet in shadow, as a process on a real broker: it tells everything and orders
nothing, until it is started without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import FilesChanged, PartitionChange
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableAdvice, TableState
from firnline_local.processes.command import Command
from firnline_local.processes.process import run_process
from firnline_local.stack.parts import ReadyLine

from tests.kit.changes import delta

pytestmark = pytest.mark.stack

BUCKETS = 8
TOPICS = ("rewrite-tasks", "table-states", "advice")
DEFAULTS = {"firnline.rewrite.min-fragments": "3"}
MISSPELT = {"firnline.rewrite.min-fragment": "9"}


def append(table: TableName, snapshot: int, **settings: str) -> FilesChanged:
    part = PartitionChange(Scope(0, "[]"), FileTally(fragments=Tally(1, 1, 1)), FileTally())
    return delta(table, snapshot, 1_000, part, settings=settings, observed_at_ms=snapshot)


Told = Callable[[Callable[[list[Any]], bool]], list[Any]]


@pytest.fixture
def publisher(kafka: str) -> KafkaPublisher:
    return KafkaPublisher(kafka, BUCKETS, "shadow")


@pytest.fixture
def table() -> TableName:
    return TableName(str(uuid.uuid4()), ("db",), "t")


@pytest.fixture
def told(kafka: str, publisher: KafkaPublisher, table: TableName) -> Iterator[Told]:
    """Everything that was told of the table since the last call, as soon as it is enough.

    The planner reads what earlier tests have left in the topics as well, and speaks of that too.
    """
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, TOPICS, publisher, Log("shadow"))

    def until(enough: Callable[[list[Any]], bool]) -> list[Any]:
        found: list[Any] = []
        for _ in range(90):
            records = [one.record for one in inbox.poll(1.0)]
            found += [one for one in records if one.table == table]
            if enough(found):
                return found
        pytest.fail(f"not told: {found}")

    yield until
    inbox.close()


@pytest.fixture
def planner(kafka: str, tmp_path: Path) -> Command:
    environment = {
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_STATE_DIR": str(tmp_path / "state"),
        "FIRNLINE_PLANNER_APP": f"planner-{uuid.uuid4().hex[:8]}",
        "FIRNLINE_BUCKETS": str(BUCKETS),
        "FIRNLINE_DEFAULTS": json.dumps({**DEFAULTS, "firnline.shadow": "true"}),
    }
    line = ReadyLine(tmp_path / "planner.log")
    return Command(
        name="planner",
        argv=(sys.executable, "-m", "firnline_planner"),
        cwd=tmp_path,
        env={**os.environ, **environment},
        ready=line.is_logged,
        prepare=line.skip_earlier_lines,
    )


def test_all_is_told_and_nothing_ordered_until_the_fleet_leaves_the_shadow(
    planner: Command, publisher: KafkaPublisher, table: TableName, told: Told, tmp_path: Path
) -> None:
    log = tmp_path / "planner.log"

    def put(snapshot: int, **settings: str) -> None:
        publisher.publish("file-changes", table.uuid, append(table, snapshot, **settings))
        publisher.flush()

    with run_process(planner, log, timeout_s=120):
        for snapshot in (1, 2, 3):
            put(snapshot, **MISSPELT)
        records = told(lambda found: any(would_order(one) for one in found))
        [advice] = [one for one in records if isinstance(one, TableAdvice)]
        assert (advice.rule, advice.withdrawn) == ("unknown_settings", False)
        state = next(one for one in records if would_order(one))
        assert state.advised == ("unknown_settings",)
        in_force = {one.name: (one.value, one.origin) for one in state.in_force or ()}
        assert in_force["firnline.rewrite.min-fragments"] == ("3", "fleet")
        assert in_force["firnline.shadow"] == ("true", "fleet")
        assert not any(isinstance(one, RewriteFiles) for one in records)
    lit = replace(planner, env={**planner.env, "FIRNLINE_DEFAULTS": json.dumps(DEFAULTS)})
    with run_process(lit, log, timeout_s=120):
        put(4)
        records = told(
            lambda found: (
                any(isinstance(one, RewriteFiles) for one in found)
                and any(isinstance(one, TableAdvice) for one in found)
            )
        )
    [advice] = [one for one in records if isinstance(one, TableAdvice)]
    assert (advice.rule, advice.withdrawn) == ("unknown_settings", True)


def would_order(record: Any) -> bool:
    return isinstance(record, TableState) and any(
        part.status == "would_order" for part in record.partitions
    )


def test_a_default_that_is_no_setting_keeps_the_planner_from_starting(
    planner: Command, tmp_path: Path
) -> None:
    wrong = {**planner.env, "FIRNLINE_DEFAULTS": '{"firnline.windows": "22:00-06:00"}'}
    ended = subprocess.run(
        planner.argv, env=wrong, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert "firnline.window is meant?" in ended.stderr
