"""The read model in memory: the twin of the one in Redis."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from firnline_console.read_model.fold import (
    Doc,
    Folded,
    Key,
    catalogs_in,
    fold,
    sums_in,
    totals_moved,
    touched,
)
from firnline_console.read_model.listing import Page, Query, page_of, row_of
from firnline_console.read_model.port import Built, Limits, Numbered, ViewLost, chosen, dotted_names
from firnline_console.views.advice import AdviceView, in_force, most_advised
from firnline_console.views.dead_letters import DeadLetterView
from firnline_console.views.event_text import EventView
from firnline_console.views.pauses import PauseView, active_pauses
from firnline_console.views.tables import TableStates, TableView
from firnline_console.views.tasks import Status, TaskView


class MemoryReadModel:
    """See `firnline_console.read_model.port.ReadModel`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._built: Built | None = None
        self._number = 0
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._docs: dict[Key, Doc] = {}
        self._totals: Counter[str] = Counter()
        self._events: dict[str, Numbered] = {}

    def lose(self) -> None:
        """What a Redis without a disk does when it restarts."""
        self._clear()
        self._built = None

    def built(self) -> Built | None:
        """See `ReadModel.built`."""
        return self._built

    def begin(self, built: Built, replace: bool) -> Built:
        """See `ReadModel.begin`."""
        if self._built is None or replace:
            self._clear()
            self._built = built
            self._number = max(self._number, built.at_ms)
        return self._built

    def apply(self, generation: str, facts: Sequence[Any]) -> None:
        """See `ReadModel.apply`."""
        if self._built is None or self._built.generation != generation:
            raise ViewLost(generation)
        keys = {key for fact in facts for key in touched(fact)}
        old = {key: self._docs.get(key) for key in keys}
        with self._lock:
            self._keep(old, fold(old, facts))

    def _keep(self, old: dict[Key, Doc | None], new: Folded) -> None:
        self._totals.update(totals_moved(old, new.docs))
        self._docs.update({key: doc for key, doc in new.docs.items() if doc is not None})
        for event in new.events:
            self._append(event)
        self._trim()

    def _append(self, event: EventView) -> None:
        if event.id not in self._events:
            self._number += 1
            self._events[event.id] = Numbered(self._number, event)

    def _trim(self) -> None:
        surplus = self._by_time()[: -self._limits.events]
        for event in surplus:
            del self._events[event.event.id]
        for task in self._by_change()[self._limits.tasks :]:
            del self._docs[Key("task", task.task_id)]
        for letter in self._letters()[self._limits.letters :]:
            del self._docs[Key("letter", letter.place)]
        for table in self._dropped()[self._limits.dropped :]:
            del self._docs[Key("table", table.key)]
            self._docs.pop(Key("state", table.key), None)
            self._docs.pop(Key("advice", table.key), None)

    def _by_time(self) -> list[Numbered]:
        return sorted(self._events.values(), key=lambda one: (one.event.at_ms, one.event.id))

    def _by_change(self) -> list[TaskView]:
        tasks = [doc for doc in self._docs.values() if isinstance(doc, TaskView)]
        return sorted(tasks, key=lambda one: (one.changed_at_ms, one.task_id), reverse=True)

    def _letters(self) -> list[DeadLetterView]:
        letters = [doc for doc in self._docs.values() if isinstance(doc, DeadLetterView)]
        return sorted(letters, key=lambda one: (one.at_ms, one.place), reverse=True)

    def _dropped(self) -> list[TableView]:
        dropped = [table for table in self._all_tables() if table.is_dropped]
        return sorted(dropped, key=lambda one: (one.life.at_ms, one.key), reverse=True)

    def _all_tables(self) -> list[TableView]:
        return [doc for doc in self._docs.values() if isinstance(doc, TableView)]

    def totals(self, now_ms: int) -> dict[str, int]:
        """See `ReadModel.totals`."""
        running = self._open()
        late = sum(_deadline(one) < now_ms for one in running)
        found = sums_in(self._totals)
        return {**found, "tasks_running": len(running) - late, "tasks_overdue": late}

    def tables(self, query: Query) -> tuple[Page, list[TableView]]:
        """See `ReadModel.tables`."""
        live = {table.key: table for table in self._all_tables() if not table.is_dropped}
        page = page_of(map(row_of, live.values()), query)
        return page, [live[key] for key in page.keys]

    def table(self, name: str) -> TableView | None:
        """See `ReadModel.table`."""
        found = self._docs.get(Key("table", name))
        if isinstance(found, TableView):
            return found
        names = dotted_names(name)
        return chosen([table for table in self._all_tables() if table.dotted in names], name)

    def with_uuid(self, uuid: str) -> list[TableView]:
        """See `ReadModel.with_uuid`."""
        found = [one for one in self._all_tables() if one.table.uuid == uuid]
        return sorted((one for one in found if not one.is_dropped), key=lambda one: one.key)

    def catalogs(self) -> list[str]:
        """See `ReadModel.catalogs`."""
        return catalogs_in(self._totals)

    def states(self, key: str) -> TableStates:
        """See `ReadModel.states`."""
        found = self._docs.get(Key("state", key))
        return found if isinstance(found, TableStates) else TableStates()

    def task(self, task_id: str) -> TaskView | None:
        """See `ReadModel.task`."""
        found = self._docs.get(Key("task", task_id))
        return found if isinstance(found, TaskView) else None

    def open_tasks(self, limit: int) -> list[TaskView]:
        """See `ReadModel.open_tasks`."""
        return self._open()[:limit]

    def _open(self) -> list[TaskView]:
        found = [one for one in self._by_change() if one.status is Status.ORDERED]
        return sorted(found, key=lambda one: (_deadline(one), one.task_id))

    def tasks(self, limit: int, table_key: str | None = None) -> list[TaskView]:
        """See `ReadModel.tasks`."""
        wanted = [one for one in self._by_change() if table_key in (None, one.table.key)]
        return wanted[:limit]

    def cursor(self) -> int:
        """See `ReadModel.cursor`."""
        return self._number

    def events(self, after: int | None, limit: int) -> list[Numbered]:
        """See `ReadModel.events`."""
        if after is None:
            return self._by_time()[-limit:]
        newer = [event for event in self._events.values() if event.number > after]
        return sorted(newer, key=lambda one: one.number)[:limit]

    def kept_since_ms(self, kind: Literal["events", "tasks"]) -> int | None:
        """See `ReadModel.kept_since_ms`."""
        if kind == "events":
            return next((one.event.at_ms for one in self._by_time()), None)
        return next((one.changed_at_ms for one in reversed(self._by_change())), None)

    def letters(self, limit: int) -> list[DeadLetterView]:
        """See `ReadModel.letters`."""
        return self._letters()[:limit]

    def advice(self, limit: int) -> list[AdviceView]:
        """See `ReadModel.advice`."""
        views = [doc for doc in self._docs.values() if isinstance(doc, AdviceView)]
        return most_advised([self._in_force(view) for view in views], limit)

    def advice_of(self, key: str) -> AdviceView | None:
        """See `ReadModel.advice_of`."""
        found = self._docs.get(Key("advice", key))
        return self._in_force(found) if isinstance(found, AdviceView) else None

    def _in_force(self, view: AdviceView) -> AdviceView:
        table = self._docs.get(Key("table", view.key))
        return in_force(view, table if isinstance(table, TableView) else None)

    def pauses(self) -> list[PauseView]:
        """See `ReadModel.pauses`."""
        return active_pauses([doc for doc in self._docs.values() if isinstance(doc, PauseView)])


def _deadline(task: TaskView) -> int:
    return task.order.deadline_ms if task.order else 0
