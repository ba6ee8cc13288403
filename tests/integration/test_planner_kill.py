"""The planner is killed in the middle of a stream, twice: nothing is lost, nothing counted twice.

A script of commits (with the commits that the planner's own orders lead to) is written by running
the twin; Faust then reads the same records from a real broker.
"""

from __future__ import annotations

import os
import random
import sys
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from firnline_adapters.kafka import KafkaInbox, KafkaPublisher
from firnline_adapters.logs import Log
from firnline_adapters.memory import MemoryBroker, MemoryPublisher
from firnline_adapters.records import RecordCodec
from firnline_domain.commands import ResyncTable, RewriteFiles
from firnline_domain.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.identity import Scope, TableName
from firnline_domain.states import TableState
from firnline_domain.tallies import FileTally, Tally
from firnline_domain.thresholds import Thresholds
from firnline_local.command import Command
from firnline_local.parts import ReadyLine
from firnline_local.process import Process, serving
from firnline_planner.inputs import Reader
from firnline_planner.twin import MemoryDriver

pytestmark = pytest.mark.stack

BUCKETS = 8
TABLES = 12
COMMITS = 40  # a table
SCOPES = [Scope(0, f'["{name}"]') for name in "abc"]
# Decisions must not depend on when a record is read, or two runs could not be compared.
SETTINGS = {"firnline.rewrite.quiet-ms": "0", "firnline.rewrite.cool-down-ms": "0"}
NOW_MS = 1_800_000_000_000


@dataclass
class Writer:
    """One table: its commits so far and what it holds by now."""

    table: TableName
    head: int = 0
    holds: dict[Scope, int] = field(default_factory=lambda: defaultdict(int))

    def commit(self, change: dict[Scope, tuple[int, int]], task_id: str | None) -> FilesChanged:
        self.head += 1
        for scope, (added, removed) in change.items():
            self.holds[scope] += added - removed
        parts = tuple(
            PartitionChange(scope, fragments(added), fragments(removed))
            for scope, (added, removed) in change.items()
        )
        return FilesChanged(
            event_id=f"e{self.head}",
            table=self.table,
            ref="main",
            kind=ChangeKind.DELTA,
            snapshot_id=self.head,
            parent_snapshot_id=self.head - 1 or None,
            sequence_number=self.head,
            timestamp_ms=NOW_MS,
            operation="append",
            partitions=parts,
            format_version=2,
            settings=SETTINGS,
            task_id=task_id,
            observed_at_ms=NOW_MS + self.head,
        )


def fragments(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count * 10, count * 100))


@dataclass
class Script:
    """The stream in order, and what has to come of it."""

    stream: list[FilesChanged]
    writers: list[Writer]
    orders: dict[str, RewriteFiles]


@pytest.fixture(scope="module")
def script() -> Script:
    dice = random.Random(20261121)
    broker = MemoryBroker(BUCKETS)
    twin = MemoryDriver(broker, Reader(RecordCodec(), Log("planner")), Thresholds(), lambda: NOW_MS)
    publisher = MemoryPublisher(broker)
    writers = [Writer(TableName(str(uuid.uuid4()), ("db",), f"t{n}")) for n in range(TABLES)]
    done: set[str] = set()
    made = Script([], writers, {})
    for _ in range(COMMITS):
        for writer in writers:
            made.stream.append(next_commit(writer, made.orders, done, dice))
            publisher.publish("file-changes", writer.table.uuid, made.stream[-1])
        twin.run()
        made.orders |= {one.task_id: one for one in broker.records("rewrite-tasks")}
    return made


def next_commit(
    writer: Writer, orders: dict[str, RewriteFiles], done: set[str], dice: random.Random
) -> FilesChanged:
    """An append, or the commit of a task that was ordered for the table."""
    for task_id, order in orders.items():
        if order.table == writer.table and task_id not in done and dice.random() < 0.5:
            done.add(task_id)
            return writer.commit({order.scope: (1, writer.holds[order.scope])}, task_id)
    scopes = dice.sample(SCOPES, dice.randint(1, 3))
    return writer.commit({scope: (dice.randint(1, 3), 0) for scope in scopes}, None)


@pytest.fixture
def command(kafka: str, tmp_path: Path) -> Command:
    line = ReadyLine(tmp_path / "planner.log")
    environment = {
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_STATE_DIR": str(tmp_path / "state"),
        "FIRNLINE_PLANNER_APP": f"planner-{uuid.uuid4().hex[:8]}",
        "FIRNLINE_BUCKETS": str(BUCKETS),
    }
    return Command(
        name="planner",
        argv=(sys.executable, "-m", "firnline_planner"),
        cwd=tmp_path,
        env={**os.environ, **environment},
        ready=line.seen,
        prepare=line.mark,
    )


@dataclass
class Heard:
    """What the planner has sent about the script's tables."""

    orders: list[RewriteFiles] = field(default_factory=list)
    requests: list[ResyncTable] = field(default_factory=list)
    states: dict[str, TableState] = field(default_factory=dict)


class Listener:
    def __init__(self, bootstrap: str, script: Script) -> None:
        self.publisher = KafkaPublisher(bootstrap, BUCKETS, "kill")
        topics = ("rewrite-tasks", "resync-requests", "table-states")
        group = f"kill-{uuid.uuid4().hex}"
        self.inbox = KafkaInbox(bootstrap, group, topics, self.publisher, Log("kill"))
        self.script = script
        self.tables = {writer.table.uuid for writer in script.writers}
        self.heard = Heard()

    def listen(self) -> None:
        for record in (one.record for one in self.inbox.poll(1.0)):
            if record.table.uuid not in self.tables:
                continue
            match record:
                case RewriteFiles():
                    self.heard.orders.append(record)
                case ResyncTable():
                    self.heard.requests.append(record)
                    self.answer(record)
                case TableState():
                    self.heard.states[record.table.uuid] = record

    def answer(self, request: ResyncTable) -> None:
        """As the enricher would: the deltas after the known snapshot."""
        for change in self.script.stream:
            known = request.known_snapshot_id or 0
            if change.table == request.table and (change.snapshot_id or 0) > known:
                self.publisher.publish("file-changes", change.table.uuid, change)
        self.publisher.flush()

    def at_the_end(self) -> bool:
        states = self.heard.states
        return all(
            writer.table.uuid in states
            and states[writer.table.uuid].head_snapshot_id == writer.head
            for writer in self.script.writers
        )


@pytest.fixture
def listener(kafka: str, script: Script) -> Iterator[Listener]:
    made = Listener(kafka, script)
    yield made
    made.inbox.close()


def killed_while_reading(
    command: Command, log: Path, listener: Listener, part: list[FilesChanged]
) -> None:
    """Send a part of the stream and kill the planner when it has sent something of it."""
    with serving(command, log, timeout_s=120) as process:
        send(listener, part)
        before = len(listener.heard.orders)
        while len(listener.heard.orders) == before:
            listener.listen()
        kill(process)


def send(listener: Listener, part: list[FilesChanged]) -> None:
    for change in part:
        listener.publisher.publish("file-changes", change.table.uuid, change)
    listener.publisher.flush()


def kill(process: Process) -> None:
    process.kill_group()


def test_counters_and_orders_survive_two_kills(
    command: Command, tmp_path: Path, listener: Listener, script: Script
) -> None:
    log, third = tmp_path / "planner.log", len(script.stream) // 3
    killed_while_reading(command, log, listener, script.stream[:third])
    killed_while_reading(command, log, listener, script.stream[third : 2 * third])
    with serving(command, log, timeout_s=120):
        send(listener, script.stream[2 * third :])
        for _ in range(120):
            listener.listen()
            if listener.at_the_end():
                break
    assert log.read_text().count("action=restoring") == 2
    heard = listener.heard
    assert {writer.table.name: held(heard, writer.table) for writer in script.writers} == {
        writer.table.name: dict(writer.holds) for writer in script.writers
    }
    assert not any(state.waiting_for_resync for state in heard.states.values())
    # Where Faust lost an event and a resync healed it, an order may have come later.
    healed = {request.table for request in heard.requests}
    assert order_set(heard.orders, healed) == order_set(script.orders.values(), healed)


def held(heard: Heard, table: TableName) -> dict[Scope, int]:
    state = heard.states[table.uuid]
    return {one.scope: one.holds.fragments.files for one in state.partitions}


def order_set(
    orders: Iterable[RewriteFiles], without: set[TableName]
) -> set[tuple[str, Scope, str]]:
    """Orders without their repetitions and moments."""
    return {
        (order.task_id, order.scope, order.reason) for order in orders if order.table not in without
    }
