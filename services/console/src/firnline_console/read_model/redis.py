"""The read model in Redis: documents in hashes, lists as sorted sets, sums in one hash.

A batch is read, folded in Python and written in one transaction that watches `version`: two
consoles never overwrite each other, and no reader sees half a batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, cast

import msgspec
import redis
from firnline_domain.errors import RetryLater
from redis.client import Pipeline

from firnline_console.read_model.fold import (
    Doc,
    Key,
    catalogs_in,
    fold_facts,
    sums_in,
    totals_moved,
    touched_keys,
)
from firnline_console.read_model.listing import (
    NamespaceSums,
    Query,
    TablePage,
    TableRow,
    largest_namespaces,
    page_of,
    row_of,
)
from firnline_console.read_model.port import (
    Built,
    Limits,
    Numbered,
    ViewLost,
    choose_table,
    dotted_names,
)
from firnline_console.read_model.redis_keys import RedisKeys
from firnline_console.read_model.redis_writes import DOCS, NUL, RedisWriter
from firnline_console.views.advice import AdviceView, in_force, most_advised
from firnline_console.views.dead_letters import DeadLetterView
from firnline_console.views.event_text import EventView
from firnline_console.views.pauses import PauseView, active_pauses
from firnline_console.views.tables import TableStates, TableView
from firnline_console.views.tasks import TaskView

T = TypeVar("T")
CHUNK = 1_000  # documents read at once
REST_S = 1.0


class RedisReadModel:
    """The `firnline_console.read_model.port.ReadModel` in Redis. The client must decode
    responses."""

    def __init__(
        self, client: redis.Redis, keys: RedisKeys | None = None, limits: Limits | None = None
    ) -> None:
        self._client = client
        self._keys = keys or RedisKeys()
        self._limits = limits or Limits()
        self._rows: dict[str, TableRow] = {}  # of every table, as of a version and a generation
        self._rows_version = 0
        self._rows_built: Built | None = None
        self._rows_lock = threading.Lock()
        self._away: tuple[float, str] = 0.0, ""  # until when, and why

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise RetryLater if Redis is away. For REST_S after a failure no call is sent: calls that
        wait for a frozen Redis would delay all others, and the page, too. Raises ValueError if
        Redis does not accept a value: the next try would fail as well."""
        until, why = self._away
        if time.monotonic() < until:
            raise RetryLater(why)
        try:
            yield
        except redis.RedisError as error:
            if _refuses_value(error):
                raise ValueError(f"its Redis does not take a value: {error}") from error
            why = f"its Redis does not answer ({error})"
            self._away = time.monotonic() + REST_S, why
            raise RetryLater(why) from error

    def current_generation(self) -> Built | None:
        with self._translate_errors():
            return _parse_generation(self._client.hgetall(self._keys["built"]))

    def begin_generation(self, built: Built, replace: bool) -> Built:
        def change(pipe: Pipeline) -> Built:
            there = _parse_generation(pipe.hgetall(self._keys["built"]))
            number = int(pipe.get(self._keys["seq"]) or 0)
            pipe.multi()
            if there and not replace:
                return there
            pipe.delete(*self._keys.keys_to_clear())
            fields: dict[Any, Any] = {"generation": built.generation, "built_at_ms": built.at_ms}
            pipe.hset(self._keys["built"], mapping=fields)
            # From the clock: numbers go on growing where Redis has lost the last one.
            pipe.set(self._keys["seq"], max(number, built.at_ms))
            return built

        with self._translate_errors():
            return self._run_transaction(change)

    def apply(self, generation: str, facts: Sequence[Any]) -> None:
        keys = sorted({key for fact in facts for key in touched_keys(fact)})

        def change(pipe: Pipeline) -> None:
            there = _parse_generation(pipe.hgetall(self._keys["built"]))
            if there is None or there.generation != generation:
                raise ViewLost(generation)
            version = int(pipe.get(self._keys["version"]) or 0) + 1  # watched: nobody takes it
            old = self._read_old_documents(pipe, keys)
            new = fold_facts(old, facts)
            totals = self._moved_totals(pipe, totals_moved(old, new.docs))
            pipe.multi()
            pipe.incr(self._keys["version"])
            RedisWriter(pipe, self._keys, self._limits, version).write(old, new, totals)

        with self._translate_errors():
            self._run_transaction(change)

    def _run_transaction(self, change: Callable[[Pipeline], T]) -> T:
        with self._client.pipeline() as pipe:
            while True:
                try:
                    pipe.watch(self._keys["version"], self._keys["built"])  # type: ignore[no-untyped-call]
                    result = change(pipe)
                    pipe.execute()
                except redis.WatchError:
                    continue  # another console was faster; its batch is in, so this ends
                return result

    def _moved_totals(self, pipe: Pipeline, moved: Mapping[str, int]) -> dict[str, int]:
        """Return the totals that a batch moves, as they are after it."""
        if not moved:
            return {}
        found = cast("list[str | None]", pipe.hmget(self._keys["totals"], list(moved)))
        return {
            name: int(text or 0) + more
            for (name, more), text in zip(moved.items(), found, strict=True)
        }

    def _read_old_documents(self, pipe: Pipeline, keys: Sequence[Key]) -> dict[Key, Doc | None]:
        old: dict[Key, Doc | None] = {}
        for kind, form in DOCS.items():
            wanted = [key for key in keys if key.kind == kind]
            if wanted:
                found = pipe.hmget(self._keys[f"{kind}-docs"], [key.id for key in wanted])
                for key, text in zip(wanted, cast("list[str | None]", found), strict=True):
                    old[key] = None if text is None else msgspec.json.decode(text, type=form)
        return old

    def read_totals(self, now_ms: int) -> dict[str, int]:
        with self._translate_errors(), self._client.pipeline() as pipe:
            pipe.hgetall(self._keys["totals"])
            pipe.zcount(self._keys["open-tasks"], now_ms, "+inf")
            pipe.zcount(self._keys["open-tasks"], "-inf", f"({now_ms}")
            totals, running, late = pipe.execute()
        return {**sums_in(_parse_totals(totals)), "tasks_running": running, "tasks_overdue": late}

    def list_tables(self, query: Query) -> tuple[TablePage, list[TableView]]:
        with self._translate_errors(), self._rows_lock:
            self._read_changes()
            page = page_of(self._rows.values(), query)
        with self._translate_errors():
            return page, self._read_documents("table", page.keys)

    def list_namespaces(self, limit: int) -> list[NamespaceSums]:
        with self._translate_errors(), self._rows_lock:
            self._read_changes()
            return largest_namespaces(self._rows.values(), limit)

    def _read_changes(self) -> None:
        """Update the rows of the tables that have changed since: 10,000 tables are decoded once,
        and a page costs only its own documents."""
        with self._client.pipeline() as pipe:
            pipe.hgetall(self._keys["built"])
            pipe.zrangebyscore(
                self._keys["tables"], f"({self._rows_version}", "+inf", withscores=True
            )
            built, changed = pipe.execute()
        if _parse_generation(built) != self._rows_built:
            self._rows, self._rows_version, self._rows_built = {}, 0, _parse_generation(built)
            if self._rows_built is not None:
                self._read_changes()
            return
        for start in range(0, len(changed), CHUNK):
            chunk = changed[start : start + CHUNK]
            for view in self._read_documents("table", [key for key, _ in chunk]):
                if view.is_dropped:
                    self._rows.pop(view.key, None)
                else:
                    self._rows[view.key] = row_of(view)
            self._rows_version = int(chunk[-1][1])

    def find_table(self, name: str) -> TableView | None:
        with self._translate_errors():
            by_key: list[TableView] = self._read_documents("table", [name])
            if by_key:
                return by_key[0]
            keys = [key for one in dotted_names(name) for key in self._keys_of(one)]
            return choose_table(self._read_documents("table", keys), name)

    def list_tables_with_uuid(self, uuid: str) -> list[TableView]:
        with self._translate_errors(), self._rows_lock:
            self._read_changes()
            keys = sorted(key for key in self._rows if key.startswith(uuid))
        with self._translate_errors():
            found: list[TableView] = self._read_documents("table", keys)
        return [one for one in found if one.table.uuid == uuid and not one.is_dropped]

    def _keys_of(self, dotted: str) -> list[str]:
        low, high = f"[{dotted}{NUL}", f"[{dotted}{NUL}\x7f"
        members = self._client.zrangebylex(self._keys["names"], low, high)
        return [member.partition(NUL)[2] for member in cast("list[str]", members)]

    def list_catalogs(self) -> list[str]:
        with self._translate_errors():
            return catalogs_in(_parse_totals(self._client.hgetall(self._keys["totals"])))

    def read_states(self, key: str) -> TableStates:
        with self._translate_errors():
            found = self._read_documents("state", [key])
        return found[0] if found else TableStates()

    def find_task(self, task_id: str) -> TaskView | None:
        with self._translate_errors():
            found = self._read_documents("task", [task_id])
        return found[0] if found else None

    def list_open_tasks(self, limit: int) -> list[TaskView]:
        with self._translate_errors():
            ids = self._client.zrange(self._keys["open-tasks"], 0, limit - 1)
            return self._read_documents("task", cast("list[str]", ids))

    def list_tasks(self, limit: int, table_key: str | None = None) -> list[TaskView]:
        with self._translate_errors():
            if table_key is None:
                ids = self._client.zrange(self._keys["tasks"], 0, limit - 1, desc=True)
                return self._read_documents("task", cast("list[str]", ids))
            high, low = f"[{table_key}{NUL}\x7f", f"[{table_key}{NUL}"
            members = self._client.zrevrangebylex(
                self._keys["table-tasks"], high, low, start=0, num=limit
            )
            found = [member.rpartition(NUL)[2] for member in cast("list[str]", members)]
            return self._read_documents("task", found)

    def last_event_number(self) -> int:
        with self._translate_errors():
            return int(cast("str | None", self._client.get(self._keys["seq"])) or 0)

    def list_events(self, after: int | None, limit: int) -> list[Numbered]:
        with self._translate_errors():
            if after is None:
                ids = self._client.zrange(self._keys["events"], -limit, -1)
            else:
                ids = self._client.zrangebyscore(
                    self._keys["event-order"], f"({after}", "+inf", start=0, num=limit
                )
            return self._read_events(cast("list[str]", ids))

    def _read_events(self, ids: list[str]) -> list[Numbered]:
        if not ids:
            return []
        numbers = self._client.zmscore(self._keys["event-order"], ids)
        texts = self._client.hmget(self._keys["event-docs"], ids)
        pairs = zip(cast("list[Any]", numbers), cast("list[Any]", texts), strict=True)
        return [
            Numbered(int(number), msgspec.json.decode(text, type=EventView))
            for number, text in pairs
            if number is not None and text is not None  # trimmed a moment ago
        ]

    def kept_since_ms(self, kind: Literal["events", "tasks"]) -> int | None:
        with self._translate_errors():
            oldest = self._client.zrange(self._keys[kind], 0, 0, withscores=True)
            return next((int(score) for _, score in cast("list[Any]", oldest)), None)

    def list_dead_letters(self, limit: int) -> list[DeadLetterView]:
        with self._translate_errors():
            places = self._client.zrange(self._keys["letters"], 0, limit - 1, desc=True)
            return self._read_documents("letter", cast("list[str]", places))

    def list_advice(self, limit: int) -> list[AdviceView]:
        with self._translate_errors():
            keys = self._client.zrange(self._keys["advised"], 0, limit - 1, desc=True)
            return most_advised(self._read_advice(cast("list[str]", keys)), limit)

    def find_advice(self, key: str) -> AdviceView | None:
        with self._translate_errors():
            return next(iter(self._read_advice([key])), None)

    def _read_advice(self, keys: list[str]) -> list[AdviceView]:
        tables = {doc.key: doc for doc in self._read_documents("table", keys)}
        return [in_force(doc, tables.get(doc.key)) for doc in self._read_documents("advice", keys)]

    def list_pauses(self) -> list[PauseView]:
        with self._translate_errors():
            texts = cast("list[str]", self._client.hvals(self._keys["pause-docs"]))
            return active_pauses([msgspec.json.decode(text, type=PauseView) for text in texts])

    def _read_documents(self, kind: str, ids: list[str]) -> list[Any]:
        if not ids:
            return []
        texts = self._client.hmget(self._keys[f"{kind}-docs"], ids)
        found = [text for text in cast("list[str | None]", texts) if text is not None]
        return [msgspec.json.decode(text, type=DOCS[kind]) for text in found]


def _refuses_value(error: redis.RedisError) -> bool:
    """Return whether Redis answers that a command cannot be carried out with these arguments
    (`ERR`, which the client leaves out). Return False for errors of Redis itself: `MISCONF`,
    `NOREPLICAS`, out of memory."""
    first = str(error).rpartition("caused error: ")[2].split(" ", 1)[0]
    return type(error) is redis.ResponseError and not first.isupper()


def _parse_totals(fields: Any) -> dict[str, int]:
    return {name: int(text) for name, text in fields.items()}


def _parse_generation(fields: Any) -> Built | None:
    if not fields:
        return None
    return Built(fields["generation"], int(fields["built_at_ms"]))
