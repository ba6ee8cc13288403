"""Runs schedules, one step at a time, and looks at the table after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firnline_domain.identity import Scope
from firnline_iceberg.outputs.names import TaskRun

from firnline_schedules import writers
from firnline_schedules.deliveries import CONVERTED, converted
from firnline_schedules.ground import Ground
from firnline_schedules.oracle import Broken, look_around, nothing_left, says_the_same, shows
from firnline_schedules.table import Kind, LabTable, Memory
from firnline_schedules.verdicts import Look, Task, judged, look
from firnline_schedules.writers import WRITERS
from tests.kit.lake.rows import MAIN
from tests.kit.lake.worker import RIGHT, Rewrite, Wrong

MOST_TASKS = 2
MOST_DELIVERIES = 2  # of one task
ROWS_PER_OUTPUT = 2  # so that most groups write several files
MERGED = 2  # files of a merge


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
class Lab:
    """One table and the tasks on it, in one state at a time."""

    ground: Ground
    kind: Kind
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.ground.storage.made.clear()
        self.ground.storage.gone.clear()
        self.table = LabTable(self.ground, self.kind)
        self.tasks: dict[str, Task] = {}
        self.words: tuple[str, ...] = ()
        writers.base(self.table)
        look_around(self.table)
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
            yield from ("start", "start.c")
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
        except Exception as error:
            kind = "" if isinstance(error, Broken) else f"{type(error).__name__}: "
            said = f"{kind}{str(error)[:500]}"
            raise Broken(f"{self.kind.name}: {' '.join(self.words)}\n    {said}") from error

    def _write(self, word: str) -> None:
        WRITERS[word].do(self.table)
        self._since(word)
        look_around(self.table)

    def _since(self, word: str) -> None:
        self.tasks = {
            name: replace(task, since=(*task.since, word)) for name, task in self.tasks.items()
        }

    def _start(self, word: str) -> None:
        """`start`, .2: two groups, .b: the other partition, .m: a merge, .c: a conversion, with
        !fault."""
        sort, _, fault = word.partition("!")
        name = "AB"[len(self.tasks)]
        scope = Scope(1, '["b"]') if sort == "start.b" else self.kind.scope
        found = self.table.live().files_of_scope(scope)
        oldest = min(found, key=lambda one: one.data.sequence_number).data.path
        rewrite = Rewrite(
            self.table,
            TaskRun(self.table.name.uuid, f"task{name}", 1, "cafe0000"),
            scope,
            groups=1 + (sort == "start.2"),
            oldest=MERGED if sort == "start.m" else None,
            converted=[oldest] if sort == "start.c" else [],
            rows_per_output=ROWS_PER_OUTPUT,
            lists_outputs=True,
            wrong=FAULTS[fault],
            written=self.table.memory.files,
        )
        self.tasks[name] = Task(rewrite.finish(), not fault)

    # ---- deliveries

    def _deliver(self, text: str) -> None:
        names, _, racer = text.partition("~")
        looks = [look(self.table, self.tasks, names)]
        if racer:
            self.ground.racer = lambda: looks.append(self._raced(racer, names))
        try:
            events = self.ground.handlers.handle([self.tasks[name].result for name in names])
        finally:
            self.ground.racer = None
        self._check(names, looks[-1], {event.task_id: event for event in events})
        converts = any(group.converts for name in names for group in self.tasks[name].result.groups)
        self._since(CONVERTED if converts else "deliver")

    def _raced(self, racer: str, names: str) -> Look:
        WRITERS[racer].do(self.table)
        self._since(racer)
        return look(self.table, self.tasks, names)

    def _check(self, names: str, before: Look, events: Mapping[str, Any]) -> None:
        fresh = False
        for name in names:
            task, ought = self.tasks[name], before.expected[name]
            event = events[task.result.task_id]
            self.tasks[name], new = judged(task, ought, event, self.counts)
            fresh |= new
        self._commits(before, fresh)
        look_around(self.table)
        with self.table.still():
            files = (file for name in names for file in converted(self.tasks[name].result))
            says_the_same(self.table, before.said, set(files))
            nothing_left(self.table, (p for task in self.tasks.values() for p in task.waiting))

    def _commits(self, before: Look, fresh: bool) -> None:
        """New snapshots only where an event tells of a commit; each shows the same rows."""
        loaded, rows = self.table.loaded, before.rows
        new = {one.snapshot_id for one in loaded.snapshots} - before.snapshots
        stays = loaded.head(MAIN).snapshot_id == before.head
        if bool(new) is not fresh or stays is fresh:
            raise Broken(f"{len(new)} new snapshots, commits told of: {fresh}")
        for snapshot_id in new:
            shows(self.table, snapshot_id, rows)


FAULTS: dict[str, Wrong] = {
    "": RIGHT,
    "skips": Wrong(skips_deletes=True),
    "loses": Wrong(loses_a_row=True),
    "place": Wrong(foreign_place=(0, "[]")),
    "low": Wrong(number=1),
}


def replayed(lab: Lab, words: Sequence[str]) -> None:
    """One schedule from the start. Raises Broken."""
    lab.set(lab.start)
    for word in words:
        lab.run(word)
