"""Deliveries: what was to be expected just before the commit, and whether the events say that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from firnline_domain.commits.conflicts import output_files
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished

from firnline_schedules.deliveries import Expected, expected, yields_to
from firnline_schedules.oracle import Broken, Said, said
from firnline_schedules.table import LabTable
from tests.kit.lake.rows import Rows


@dataclass(frozen=True)
class Task:
    """A rewrite that was started. `since`: the steps after that."""

    result: RewriteFinished
    right: bool = True  # the worker was: else its result has to be refused
    deliveries: int = 0
    committed: bool = False
    waits: bool = True  # its files may still be needed
    since: tuple[str, ...] = ()

    @property
    def waiting(self) -> Iterator[str | None]:
        """Its files, while they may be needed."""
        if self.waits:
            yield from (file.path for file in output_files(self.result))
            yield from (self.result.row_map, self.result.output_list)


Tasks = Mapping[str, Task]


@dataclass(frozen=True)
class Look:
    """The table just before a delivery is committed. `expected`: by name of the task."""

    expected: dict[str, Expected]
    head: int
    snapshots: frozenset[int]
    said: Said
    rows: Rows


def look(table: LabTable, tasks: Tasks, names: str) -> Look:
    """`names`: of the tasks that are delivered together."""
    found = dict[str, Expected]()
    with table.still():
        for name in names:
            task = tasks[name]
            found[name] = expected(table, task.result, task.committed, task.since)
            for earlier, ought in list(found.items())[:-1]:
                yields_to(found[name], task.result, ought, tasks[earlier].result)
        snapshots = frozenset(one.snapshot_id for one in table.loaded.snapshots)
        return Look(found, table.head, snapshots, said(table), table.meant())


def judged(task: Task, ought: Expected, event: Any, counts: Counter[str]) -> tuple[Task, bool]:
    """The task afterwards, and whether the event tells of a new commit. Raises Broken."""
    task = replace(task, deliveries=task.deliveries + 1)
    if isinstance(event, RewriteConflicted):
        counts[f"refused: {event.reason.value}"] += 1
        return _refused(task, ought, event), False
    assert isinstance(event, RewriteCommitted), event
    if not task.right:
        raise Broken("a wrong result was committed")
    if event.redelivered is not ought.in_table:
        raise Broken(f"redelivered={event.redelivered}, in the table: {ought.in_table}")
    task = replace(task, committed=True)
    if event.redelivered:
        counts["committed before"] += 1
        return task, False
    task = replace(task, waits=event.groups_lost > 0)  # for the sweep
    if not len(ought.must) <= event.groups_lost <= len(ought.must | ought.may):
        raise Broken(f"{event.groups_lost} groups lost: {event.lost_reason}, not {ought}")
    counts[f"committed: {event.classification}"] += 1
    counts["of these less a lost group"] += event.groups_lost
    return task, True


def _refused(task: Task, ought: Expected, event: RewriteConflicted) -> Task:
    lost = ought.must | ought.may
    accepted = set().union(*ought.must.values(), *ought.may.values())
    hazard = ought.hazard and event.reason is ConflictReason.HAZARD_10312
    whole = len(lost) == len(task.result.groups) and event.reason in accepted
    if task.right and (ought.in_table or not (whole or hazard)):
        raise Broken(f"refused without need: {event.reason.value} {event.detail}")
    return task  # after a rollback it may be fit again
