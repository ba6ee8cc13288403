"""Planners as processes, killed and frozen; a writer whose files are known, and a listener."""

from __future__ import annotations

import os
import random
import sys
import uuid
from collections import defaultdict
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.orders import ResyncTable, RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableState
from firnline_local.processes.command import Command
from firnline_local.processes.process import Process, run_process
from firnline_local.stack.parts import ReadyLine

from tests.kit.changes import delta

SEED = int(os.environ.get("FIRNLINE_KILL_SEED", "20261122"))
BUCKETS = 8
TABLES = 12
COMMITS = 40  # a table
SCOPES = [Scope(0, f'["{name}"]') for name in "abc"]
# Decisions must not depend on when a record is read, or two runs could not be compared.
SETTINGS = {"firnline.rewrite.quiet-ms": "0", "firnline.rewrite.cool-down-ms": "0"}
NOW_MS = 4_000_000_000_000  # later than any clock: what a decision waits for does not pass


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
        return self._told(parts, task_id=task_id)

    def whole(self) -> FilesChanged:
        """Everything that it holds in the end, read from the table."""
        parts = tuple(
            PartitionChange(scope, fragments(count), fragments(0))
            for scope, count in self.holds.items()
        )
        return self._told(parts, event_id=f"whole{self.head}", kind=ChangeKind.ABSOLUTE)

    def _told(self, parts: tuple[PartitionChange, ...], **more: object) -> FilesChanged:
        values = {"settings": SETTINGS, "observed_at_ms": NOW_MS + self.head, **more}
        return delta(self.table, self.head, NOW_MS, *parts, **values)


def fragments(count: int) -> FileTally:
    return FileTally(fragments=Tally(count, count * 10, count * 100))


@dataclass
class Script:
    """The stream in order, and what has to come of it."""

    stream: list[FilesChanged]
    writers: list[Writer]
    orders: dict[str, RewriteFiles]


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


@dataclass(frozen=True)
class Members:
    """Planners of one application on one broker, each with a directory of its own."""

    kafka: str
    folder: Path
    app: str = field(default_factory=lambda: f"planner-{uuid.uuid4().hex[:8]}")

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def command(self, driver: str, name: str) -> Command:
        line = ReadyLine(self.log(name))
        environment = {
            "FIRNLINE_KAFKA": self.kafka,
            "FIRNLINE_STATE_DIR": str(self.folder / name),
            "FIRNLINE_PLANNER_APP": self.app,
            "FIRNLINE_PLANNER_DRIVER": driver,
            "FIRNLINE_BUCKETS": str(BUCKETS),
        }
        return Command(
            name="planner",
            argv=(sys.executable, "-m", "firnline_planner"),
            cwd=self.folder,
            env={**os.environ, **environment},
            ready=line.is_logged,
            prepare=line.skip_earlier_lines,
        )

    def serving(self, driver: str, name: str) -> AbstractContextManager[Process]:
        return run_process(self.command(driver, name), self.log(name), timeout_s=120)


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
        """As the enricher would: the deltas after the known snapshot, or all that there is."""
        if request.known_snapshot_id is None:
            [writer] = [one for one in self.script.writers if one.table == request.table]
            self.publisher.publish("file-changes", request.table.uuid, writer.whole())
            self.publisher.flush()
            return
        for change in self.script.stream:
            known = request.known_snapshot_id or 0
            if change.table == request.table and (change.snapshot_id or 0) > known:
                self.publisher.publish("file-changes", change.table.uuid, change)
        self.publisher.flush()

    def at_the_end(self) -> bool:
        """A state may name the last snapshot and still wait for what came before it."""
        states = [self.heard.states.get(writer.table.uuid) for writer in self.script.writers]
        return all(
            state is not None
            and state.head_snapshot_id == writer.head
            and not state.waiting_for_resync
            for state, writer in zip(states, self.script.writers, strict=True)
        )
