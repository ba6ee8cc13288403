"""Runs schedules, one step at a time, and looks at the table after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firnline_domain.conflicts import LASTING, inputs, outputs
from firnline_domain.events import ConflictReason, RewriteCommitted, RewriteConflicted
from firnline_domain.identity import Scope
from firnline_domain.results import DeleteKind, RewriteFinished

from firnline_schedules import writers
from firnline_schedules.deliveries import Expected, expected
from firnline_schedules.ground import Ground
from firnline_schedules.rows import MAIN
from firnline_schedules.table import Kind, Memory, Table
from firnline_schedules.worker import RIGHT, Order, Wrong, rewrite
from firnline_schedules.writers import WRITERS

MOST_TASKS = 2
MOST_DELIVERIES = 2  # of one task


class Broken(AssertionError):
    """A schedule after which the table is not what it has to be."""


@dataclass(frozen=True)
class Task:
    """A rewrite that was started. `since`: the steps after that."""

    result: RewriteFinished
    right: bool = True  # the worker was: else its result has to be refused
    deliveries: int = 0
    committed: bool = False
    waits: bool = True  # its files may still be needed
    since: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """All that a schedule has led to: schedules with the same beginning go on from one."""

    location: str
    gone: frozenset[str]
    made: frozenset[str]
    memory: Memory
    tasks: Mapping[str, Task]
    words: tuple[str, ...]


@dataclass
class Look:
    """The table just before a delivery is committed."""

    expected: dict[str, Expected]
    head: int
    snapshots: set[int]
    said: dict[tuple[str, int], int]


@dataclass
class Lab:
    """One table and the tasks on it, in one state at a time."""

    ground: Ground
    kind: Kind
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.ground.storage.made.clear()
        self.ground.storage.gone.clear()
        self.table = Table(self.ground, self.kind)
        self.tasks: dict[str, Task] = {}
        self.words: tuple[str, ...] = ()
        writers.base(self.table)
        self.look_around()
        self.start = self.state

    # ---- states

    @property
    def state(self) -> State:
        storage, location = self.ground.storage, self.ground.location(self.kind.name)
        gone, made = frozenset(storage.gone), frozenset(storage.made)
        return State(location, gone, made, self.table.memory, dict(self.tasks), self.words)

    def set(self, state: State) -> None:
        storage = self.ground.storage
        storage.gone.clear()
        storage.gone |= state.gone
        storage.made.clear()
        storage.made |= state.made
        self.ground.point(self.kind.name, state.location)
        self.table.memory, self.words = state.memory, state.words
        self.tasks = dict(state.tasks)

    # ---- steps

    def possible(self, deliveries_alone: bool = False) -> list[str]:
        """Steps that do something here."""
        with self.table.still():
            return [*(() if deliveries_alone else self._changes()), *self._deliveries()]

    def _changes(self) -> Iterator[str]:
        for word, step in WRITERS.items():
            if self._knows(step) and step.applies(self.table):
                yield word
        if len(self.tasks) < MOST_TASKS:
            yield from self._starts()

    def _knows(self, step: writers.Step) -> bool:
        fits = step.partitioned in (None, self.kind.partitioned)
        return fits and self.kind.version in step.versions

    def _starts(self) -> Iterator[str]:
        files = self.table.live().files_of_scope(self.kind.scope)
        if files:
            yield "start"
        if len(files) > 1:
            yield from ("start.2", "start.m")
        if self.table.live().files_of_scope(Scope(1, '["b"]')) and self.kind.partitioned:
            yield "start.b"

    def _deliveries(self) -> Iterator[str]:
        for name, task in self.tasks.items():
            if task.deliveries < MOST_DELIVERIES:
                yield f"deliver.{name}"
                if not task.deliveries:
                    for racer in writers.RACERS:
                        step = WRITERS[racer]
                        if self._knows(step) and step.applies(self.table):
                            yield f"deliver.{name}~{racer}"
        if len(self.tasks) > 1 and not any(task.deliveries for task in self.tasks.values()):
            yield f"deliver.{''.join(self.tasks)}"

    def run(self, word: str) -> None:
        """One step. Raises Broken."""
        self.words = (*self.words, word)
        try:
            if word.startswith("deliver."):
                self._deliver(word.removeprefix("deliver."))
            elif word.startswith("start"):
                self._start(word)
            else:
                self._write(word)
        except Broken:
            raise
        except Exception as error:
            raise self._broken(f"{type(error).__name__}: {str(error)[:300]}") from error

    def _write(self, word: str) -> None:
        WRITERS[word].do(self.table)
        self._since(word)
        self.look_around()

    def _since(self, word: str) -> None:
        self.tasks = {
            name: replace(task, since=(*task.since, word)) for name, task in self.tasks.items()
        }

    def _start(self, word: str) -> None:
        """`start`, .2: two groups, .b: the other partition, .m: a merge, with !fault."""
        sort, _, fault = word.partition("!")
        name = "AB"[len(self.tasks)]
        scope = Scope(1, '["b"]') if sort == "start.b" else self.kind.scope
        order = Order(scope, 2 if sort == "start.2" else 1, merge=sort == "start.m")
        result = rewrite(self.table, f"task{name}", order, FAULTS[fault])
        self.tasks[name] = Task(result, not fault)

    # ---- deliveries

    def _deliver(self, text: str) -> None:
        names, _, racer = text.partition("~")
        looks = [self._look(names)]
        if racer:
            self.ground.racer = lambda: looks.append(self._raced(racer, names))
        events = self.ground.handlers.handle([self.tasks[name].result for name in names])
        self.ground.racer = None
        self._check(names, looks[-1], {event.task_id: event for event in events})
        self._since("deliver")

    def _raced(self, racer: str, names: str) -> Look:
        WRITERS[racer].do(self.table)
        self._since(racer)
        return self._look(names)

    def _look(self, names: str) -> Look:
        with self.table.still():
            return self._looked(names)

    def _looked(self, names: str) -> Look:
        loaded, found = self.table.loaded, dict[str, Expected]()
        taken = set[str]()
        for name in names:
            task = self.tasks[name]
            found[name] = expected(self.table, task.result, task.committed, task.since)
            taken_here = inputs_taken(task.result, taken)
            found[name].must |= {n: {ConflictReason.INPUTS_GONE} for n in taken_here}
            taken |= {file.path for file in inputs(task.result)}
        return Look(
            found,
            loaded.head(MAIN).snapshot_id,
            {one.snapshot_id for one in loaded.snapshots},
            self._said(),
        )

    def _said(self) -> dict[tuple[str, int], int]:
        """What position-delete files say of live files, and under which number."""
        live = self.table.live()
        paths = {file.path for file in live.data}
        return {
            mark: delete.sequence_number
            for delete in sorted(live.deletes, key=lambda one: one.sequence_number)
            if delete.kind is DeleteKind.POSITION
            for mark in self.table.marks_of(delete)
            if mark[0] in paths
        }

    def _check(self, names: str, look: Look, events: Mapping[str, Any]) -> None:
        loaded = self.table.loaded
        new = {one.snapshot_id for one in loaded.snapshots} - look.snapshots
        fresh = False
        for name in names:
            event = events[self.tasks[name].result.task_id]
            fresh |= self._judge(name, look.expected[name], event)
        if bool(new) is not fresh or (not fresh and loaded.head(MAIN).snapshot_id != look.head):
            raise self._broken(f"{len(new)} new snapshots, events {list(events.values())}")
        for snapshot_id in new:
            self.table.memory = replace(
                self.table.memory,
                model=self.table.memory.model.moved(MAIN, snapshot_id, self.table.rows()),
            )
            self._rows_of(snapshot_id, self.table.rows())
        with self.table.still():
            self._look_around()
            self._same_said(look)
            self._nothing_left()

    def _judge(self, name: str, look: Expected, event: Any) -> bool:
        """Whether the event is right; True: it tells of a new commit."""
        task = self.tasks[name]
        number = len(task.result.groups)
        if isinstance(event, RewriteConflicted):
            self.counts[f"refused: {event.reason.value}"] += 1
            waits = event.reason not in LASTING or any(
                not reasons & LASTING for reasons in look.must.values()
            )  # one group that may be fit again is enough
            self.tasks[name] = replace(task, deliveries=task.deliveries + 1, waits=waits)
            accepted = {one for ones in (*look.must.values(), *look.may.values()) for one in ones}
            accepted |= {ConflictReason.HAZARD_10312} if look.hazard else set()
            lost = look.must | look.may
            right = event.reason in accepted and (len(lost) == number or look.hazard)
            if task.right and (look.in_table or not right):
                raise self._broken(f"refused without need: {event.reason.value} {event.detail}")
            return False
        assert isinstance(event, RewriteCommitted), event
        if not task.right:
            raise self._broken("a wrong result was committed")
        self.tasks[name] = replace(
            task, deliveries=task.deliveries + 1, committed=True, waits=False
        )
        if event.redelivered is not look.in_table:
            raise self._broken(f"redelivered={event.redelivered}, was in: {look.in_table}")
        if event.redelivered:
            self.counts["committed before"] += 1
            return False
        if not len(look.must) <= event.groups_lost <= len(look.must | look.may):
            raise self._broken(f"{event.groups_lost} groups lost: {event.lost_reason}, not {look}")
        self.counts[f"committed: {event.classification}"] += 1
        self.counts["of these without a lost group"] += not event.groups_lost
        return True

    def _same_said(self, look: Look) -> None:
        """What is said of files that stay is said as before, and under the same number (H5)."""
        now, live = self._said(), {file.path for file in self.table.live().data}
        for mark, number in look.said.items():
            if mark[0] in live and now.get(mark) != number:
                raise self._broken(f"{mark} was deleted at {number}, and now at {now.get(mark)}")

    # ---- looking

    def look_around(self) -> None:
        """Rows of every branch by Iceberg's reader; every live file is there, and once."""
        with self.table.still():
            self._look_around()

    def _look_around(self) -> None:
        loaded = self.table.loaded
        for ref, rows in self.table.memory.model.refs.items():
            head = loaded.head(ref).snapshot_id
            self._rows_of(head, rows)
            live = self.table.live_at(head)
            paths = [file.path for file in live.data]
            if len(paths) != len(set(paths)):
                raise self._broken(f"a data file is live twice: {sorted(paths)}")
            for file in (*live.data, *live.deletes):
                if not self.ground.storage.exists(file.path):
                    raise self._broken(f"{file.path} is live on {ref} and does not exist")

    def _rows_of(self, snapshot_id: int, rows: Any) -> None:
        seen, ought = self.table.seen(snapshot_id), sorted(row.shown for row in rows)
        if seen != ought:
            more = [row for row in seen if row not in ought]
            less = [row for row in ought if row not in seen]
            raise self._broken(f"{snapshot_id}: came back {more}, lost {less} (key, version, p)")

    def _nothing_left(self) -> None:
        """No file of ours lies about that no retained snapshot has and no task waits for."""
        storage = self.ground.storage
        left = {path for path in storage.made - storage.gone if "/firnline-" in path}
        left |= {path for path in storage.made - storage.gone if "-firnline-" in path}
        for task in self.tasks.values():
            if task.waits:
                left -= {file.path for file in outputs(task.result)}
                left -= {task.result.row_map or "", task.result.output_list or ""}
        if left:
            left -= self._retained()
        if left:
            raise self._broken(f"left behind: {sorted(left)}")

    def _retained(self) -> set[str]:
        loaded = self.table.loaded
        found = (self.table.live_at(one.snapshot_id) for one in loaded.snapshots)
        return {file.path for live in found for file in (*live.data, *live.deletes)}

    def _broken(self, what: str) -> Broken:
        return Broken(f"{self.kind.name}: {' '.join(self.words)}\n    {what}")


FAULTS: dict[str, Wrong] = {
    "": RIGHT,
    "skips": Wrong(skips_deletes=True),
    "loses": Wrong(loses_a_row=True),
    "place": Wrong(foreign_place=(0, "[]")),
    "low": Wrong(stamp=1),
}


def inputs_taken(result: RewriteFinished, taken: set[str]) -> list[int]:
    """Groups with an input that another result of the same delivery replaces."""
    groups = enumerate(result.groups)
    return [n for n, group in groups if {file.path for file in group.inputs} & taken]


def replayed(lab: Lab, words: Sequence[str]) -> None:
    """One schedule from the start. Raises Broken."""
    lab.set(lab.start)
    for word in words:
        lab.run(word)
