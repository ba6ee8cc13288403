"""Writes of a folded batch to Redis, inside the transaction of `RedisReadModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from redis.client import Pipeline

from firnline_console.read_model.fold import Doc, Docs, FoldedDocuments
from firnline_console.read_model.port import Limits
from firnline_console.read_model.redis_keys import RedisKeys
from firnline_console.views.advice import AdviceView
from firnline_console.views.dead_letters import DeadLetterView
from firnline_console.views.event_text import EventView
from firnline_console.views.pauses import PauseView
from firnline_console.views.tables import TableStates, TableView
from firnline_console.views.tasks import TaskStatus, TaskView

DOCS: dict[str, type[Doc]] = {  # what each kind of document is, as JSON
    "table": TableView,
    "state": TableStates,
    "task": TaskView,
    "letter": DeadLetterView,
    "pause": PauseView,
    "advice": AdviceView,
}
NUL = "\0"
# Numbers the events that are not there yet, in one step with keeping them: a cursor never passes
# a smaller number that becomes visible later.
_APPEND = """
for at = 1, #ARGV, 3 do
  local id, time, doc = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if redis.call('HSETNX', KEYS[1], id, doc) == 1 then
    redis.call('ZADD', KEYS[2], time, id)
    redis.call('ZADD', KEYS[3], redis.call('INCR', KEYS[4]), id)
  end
end
"""
# Removes the lowest members of the sorted set KEYS[1] above a limit, and what hangs on them;
# ARGV[i] says what KEYS[i] is.
_TRIM = """
local gone = redis.call('ZRANGE', KEYS[1], 0, -(tonumber(ARGV[1]) + 1))
for _, member in ipairs(gone) do
  redis.call('ZREM', KEYS[1], member)
  local name = nil
  for at = 2, #KEYS do
    if ARGV[at] == 'docs' then redis.call('HDEL', KEYS[at], member)
    elseif ARGV[at] == 'order' then redis.call('ZREM', KEYS[at], member)
    elseif ARGV[at] == 'members' then
      name = redis.call('HGET', KEYS[at], member)
      redis.call('HDEL', KEYS[at], member)
    elseif name then redis.call('ZREM', KEYS[at], name) end
  end
end
"""
Role = Literal["docs", "order", "members", "named"]
HANGS_ON: dict[str, dict[str, Role]] = {
    "events": {"event-docs": "docs", "event-order": "order"},
    "tasks": {
        "task-docs": "docs",
        "open-tasks": "order",
        "members": "members",
        "table-tasks": "named",
    },
    "letters": {"letter-docs": "docs"},
    "dropped": {
        "table-docs": "docs",
        "tables": "order",
        "state-docs": "docs",
        "advice-docs": "docs",
        "advised": "order",
        "members": "members",
        "names": "named",
    },
}


class RedisWriter:
    """Queues a batch's changes on a pipeline."""

    def __init__(self, pipe: Pipeline, keys: RedisKeys, limits: Limits, version: int) -> None:
        self._pipe = pipe
        self._version = version
        self._keys = keys
        self._limits = limits

    def write(self, old: Docs, new: FoldedDocuments, totals: Mapping[str, int]) -> None:
        """Write everything that differs between `old` and `new`. `totals`: the totals that changed,
        with their new values. Redis does not add them up: a sum above its 64 bits would fail after
        the rest of the batch was written."""
        if totals:
            sums: dict[Any, Any] = {name: str(total) for name, total in totals.items()}
            self._pipe.hset(self._keys["totals"], mapping=sums)
        for key, doc in new.docs.items():
            if doc is not None and doc != old.get(key):
                text = msgspec.json.encode(doc)
                self._pipe.hset(self._keys[f"{key.kind}-docs"], key.id, text)
                self._index_document(old.get(key), doc)
        self._append_events(new.events)
        for name in HANGS_ON:
            self._trim_list(name, getattr(self._limits, name))

    def _index_document(self, old: Doc | None, doc: Doc) -> None:
        if isinstance(doc, TableView):
            self._set_member(
                "names", doc.key, _name_of(cast("TableView | None", old)), _name_of(doc)
            )
            self._index_table(doc)
        elif isinstance(doc, TaskView):
            before = _place_of(cast("TaskView | None", old))
            self._set_member("table-tasks", doc.task_id, before, _place_of(doc))
            self._index_task(doc)
        elif isinstance(doc, AdviceView):
            self._index_advice(doc)
        elif isinstance(doc, DeadLetterView):
            self._pipe.zadd(self._keys["letters"], {doc.place: doc.at_ms})

    def _set_member(self, index: str, doc_id: str, before: str, member: str) -> None:
        if before and before != member:
            self._pipe.zrem(self._keys[index], before)
        self._pipe.zadd(self._keys[index], {member: 0})
        self._pipe.hset(self._keys["members"], doc_id, member)

    def _index_table(self, doc: TableView) -> None:
        self._pipe.zadd(self._keys["tables"], {doc.key: self._version})
        if doc.is_dropped:
            self._pipe.zadd(self._keys["dropped"], {doc.key: doc.life.at_ms})
        else:
            self._pipe.zrem(self._keys["dropped"], doc.key)

    def _index_task(self, doc: TaskView) -> None:
        self._pipe.zadd(self._keys["tasks"], {doc.task_id: doc.changed_at_ms})
        if doc.status is TaskStatus.ORDERED and doc.order:
            self._pipe.zadd(self._keys["open-tasks"], {doc.task_id: doc.order.deadline_ms})
        else:
            self._pipe.zrem(self._keys["open-tasks"], doc.task_id)

    def _index_advice(self, doc: AdviceView) -> None:
        if doc.current_advice:
            self._pipe.zadd(self._keys["advised"], {doc.key: len(doc.current_advice)})
        else:
            self._pipe.zrem(self._keys["advised"], doc.key)

    def _append_events(self, events: list[EventView]) -> None:
        keys = [self._keys[name] for name in ("event-docs", "events", "event-order", "seq")]
        values = [
            value
            for event in events
            for value in (event.id, event.at_ms, msgspec.json.encode(event))
        ]
        if values:
            self._pipe.eval(_APPEND, len(keys), *keys, *values)

    def _trim_list(self, name: str, limit: int) -> None:
        hanging = HANGS_ON[name]
        keys = [self._keys[one] for one in (name, *hanging)]
        self._pipe.eval(_TRIM, len(keys), *keys, limit, *hanging.values())


def _name_of(table: TableView | None) -> str:
    """Return the member of `names`: found by the dotted name, unique by the key."""
    return table.dotted_name + NUL + table.key if table else ""


def _place_of(task: TaskView | None) -> str:
    """Return the member of `table-tasks`, which orders a table's tasks by time."""
    if task is None:
        return ""
    return NUL.join((task.table.key, f"{task.changed_at_ms:016x}", task.task_id))
