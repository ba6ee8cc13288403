"""A planner of a fleet with groups, as a process on a real broker: whose topic gets an order, and
what it does not start with."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.fleet.lanes import topics_of_group
from firnline_domain.records.events import FilesChanged, PartitionChange
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableAdvice
from firnline_domain.settings.groups import Group
from firnline_local.processes.process import run_process
from firnline_local.topics.topics import make_topics

from tests.kit.changes import delta
from tests.kit.long_run import mark_long
from tests.services import service

pytestmark = pytest.mark.stack

BUCKETS = 8


def change(**settings: str) -> FilesChanged:
    """A table's first snapshot, with debt enough for an order."""
    part = PartitionChange(Scope(0, "[]"), FileTally(fragments=Tally(9, 9, 9)), FileTally())
    table = TableName(str(uuid.uuid4()), ("db",), "t")
    return delta(table, 1, 1_000, part, settings=settings, observed_at_ms=1)


def environment(kafka: str, at: Path, groups: str) -> dict[str, str]:
    return {
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_STATE_DIR": str(at / "state"),
        "FIRNLINE_PLANNER_APP": f"planner-{uuid.uuid4().hex[:8]}",
        "FIRNLINE_BUCKETS": str(BUCKETS),
        "FIRNLINE_GROUPS": groups,
    }


@pytest.mark.parametrize("driver", mark_long(["kafka", "faust"], but=["kafka"]))
def test_orders_wait_with_their_group_and_those_of_an_unknown_one_with_the_default(
    kafka: str, tmp_path: Path, driver: str
) -> None:
    group = f"etl-{uuid.uuid4().hex[:8]}"
    make_topics(kafka, BUCKETS, [Group(group)])
    wanted = {
        "rewrite-tasks": [change(), change(**{"firnline.group": "nobody"})],
        f"rewrite-tasks.{group}": [
            change(**{"firnline.group": group}),
            change(**{"namespace:firnline.group": group}),
        ],
    }
    publisher = KafkaPublisher(kafka, BUCKETS, "test")
    command, log = service(
        "planner", tmp_path, **environment(kafka, tmp_path, f"{group}=2.5"),
        FIRNLINE_PLANNER_DRIVER=driver,
    )  # fmt: skip
    topics = [*topics_of_group(""), *topics_of_group(group), "advice"]
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, topics, publisher, Log("test"))
    uuids = {one.table.uuid: topic for topic, changes in wanted.items() for one in changes}
    ordered: dict[str, str] = {}
    advised: list[Any] = []
    with run_process(command, log, 120):
        for one in (one for changes in wanted.values() for one in changes):
            publisher.publish("file-changes", one.table.uuid, one)
        publisher.flush()
        for _ in range(120):
            for delivery in inbox.poll(0.5):
                record = delivery.record
                if record.table.uuid not in uuids:
                    continue  # another test's
                if isinstance(record, RewriteFiles):
                    ordered[record.table.uuid] = delivery.topic
                elif isinstance(record, TableAdvice):
                    advised.append(record)
            if ordered == uuids and advised:
                break
    inbox.close()
    assert ordered == uuids
    assert [one.rule for one in advised] == ["unknown_group"]
    assert advised[0].table == wanted["rewrite-tasks"][1].table


def test_a_planner_does_not_start_where_the_topics_of_a_group_are_missing(
    kafka: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "firnline_planner"),
        env={**os.environ, **environment(kafka, tmp_path, "no-such-topics")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "rewrite-tasks.no-such-topics is not there" in done.stderr
    assert "firnline topics" in done.stderr
