"""The JSON API and the page over HTTP. It only reads; every answer is JSON but the page's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from importlib.resources import files
from itertools import islice
from typing import Any

from aiohttp import web
from firnline_adapters.config.redaction import redact
from firnline_domain.errors import RetryLater
from firnline_domain.records.states import TABLE_STATUSES
from firnline_domain.settings.groups import Group, group_names

from firnline_console.http.answers import (
    TASK_STATUSES,
    dead_letter_json,
    event_json,
    pause_json,
    status_of,
    table_json,
    task_json,
)
from firnline_console.http.explain import explanation_json, keeps_files, partition_json
from firnline_console.http.live_tail import stream_events
from firnline_console.http.query_parameters import (
    BadParameter,
    Parameter,
    number_from,
    one_of,
    read_parameters,
    some_text,
)
from firnline_console.read_model.listing import BadQuery, Query
from firnline_console.read_model.port import AmbiguousName, ReadModel
from firnline_console.views.advice import advice_json
from firnline_console.views.capacity import WorkerCapacity
from firnline_console.views.catalogs import with_catalogs
from firnline_console.views.tables import TableView
from firnline_console.views.workers import workers_json

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_ROWS = 5_000  # of one answer
read_position = number_from(0, 2**53 - 1)  # of an event: Redis orders them by a double
ASKED = web.RequestKey("asked", dict[str, Any])  # the values of a request's parameters
ROWS = Parameter("limit", number_from(1, MAX_ROWS), 500)
AFTER = Parameter("after", read_position)
TABLES_ASKED = (
    Parameter("q", some_text, ""),
    Parameter("namespace", some_text, ""),
    Parameter("status", one_of(TABLE_STATUSES), ""),
    Parameter("sort", some_text, Query().sort),
    Parameter("limit", number_from(1, MAX_ROWS), Query().limit),
    Parameter("cursor", some_text, ""),
)
TASKS_ASKED = (
    ROWS,
    Parameter("task", some_text, ""),
    Parameter("table", some_text),
    Parameter("status", one_of(TASK_STATUSES)),
)
WORKERS_ASKED = (
    Parameter("cores", number_from(1, 10_000), 2),
    Parameter("drain_seconds", number_from(1, 86_400), 60),
    Parameter("max", number_from(0, 100_000), 100),
)
TASKS_EXPLAINED = 20
# The page loads nothing from anywhere and sends nothing anywhere but here.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Api:
    """Handlers over a read model; `healthy` returns whether the topics are still followed."""

    def __init__(
        self,
        model: ReadModel,
        now_ms: Callable[[], int],
        healthy: Callable[[], bool],
        groups: Collection[Group] = (),
    ) -> None:
        self._model = model
        self._now_ms = now_ms
        self._healthy = healthy
        self._groups = [*group_names(groups)]
        self._page = files("firnline_console").joinpath("page.html").read_text()

    def create_application(self) -> web.Application:
        """Return the application with all routes; 503 if Redis is away."""
        app = web.Application(middlewares=[errors_as_json])
        app.add_routes(
            [
                route("/", self.page),
                route("/healthz", self.health),
                route("/api/fleet", self.fleet),
                route("/api/tables", self.tables, *TABLES_ASKED),
                route("/api/tables/{table}", self.table),
                route("/api/tables/{table}/explain", self.explain_table),
                route("/api/tables/{table}/advice", self.table_advice),
                route("/api/advice", self.advice, ROWS),
                route("/api/tasks", self.tasks, *TASKS_ASKED),
                route("/api/workers", self.workers, *WORKERS_ASKED),
                route("/api/events", self.events, ROWS, AFTER),
                route("/api/events/stream", self.event_stream, AFTER),
                route("/api/dead-letters", self.dead_letters, ROWS),
            ]
        )
        return app

    async def page(self, request: web.Request) -> web.Response:
        """Return the console's web page."""
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
        return web.Response(text=self._page, content_type="text/html", headers=headers)

    async def health(self, request: web.Request) -> web.Response:
        """Return 200 if the console follows the topics and Redis responds, else 503."""
        built = await asyncio.to_thread(self._model.current_generation)
        healthy = self._healthy() and built is not None
        body = {"healthy": healthy, "generation": built.generation if built else None}
        return web.json_response(body, status=200 if healthy else 503)

    async def fleet(self, request: web.Request) -> web.Response:
        """Return totals over all tables and tasks, the pauses, the catalogs, and the data's age."""
        now_ms = self._now_ms()
        totals, built, pauses = await asyncio.gather(
            asyncio.to_thread(self._model.read_totals, now_ms),
            asyncio.to_thread(self._model.current_generation),
            asyncio.to_thread(self._model.list_pauses),
        )
        age = {"built_at_ms": built.at_ms if built else None, "now_ms": now_ms}
        shown = [pause_json(pause) for pause in pauses]
        catalogs = await asyncio.to_thread(self._model.list_catalogs)
        return await self._respond_with_catalogs(
            {"totals": totals, "pauses": shown, "catalogs": catalogs, **age}
        )

    async def tables(self, request: web.Request) -> web.Response:
        """Return a page of the tables, by default those with most debt first. `q`: part of the
        name; `sort`: a column, descending with `-`; `cursor`: that of the page before."""
        asked = request[ASKED]
        query = Query(text=asked["q"], **{name: asked[name] for name in asked if name != "q"})
        page, found = await asyncio.to_thread(self._model.list_tables, query)
        counts = {"matched": page.matched, "total": page.total, "statuses": page.statuses}
        rows = [table_json(one) for one in found]
        return await self._respond_with_catalogs({"tables": rows, "cursor": page.cursor, **counts})

    async def table(self, request: web.Request) -> web.Response:
        """Return one table, by name or key, with at most 100 partitions of each branch, those with
        most debt first. `partitions`: how many there are."""
        view = await self._find_table(request)
        states = await asyncio.to_thread(self._model.read_states, view.key)
        refs = {
            ref: [partition_json(part) for part in state.partitions]
            for ref, state in states.refs.items()
            if not state.removed
        }
        return await self._respond_with_catalogs({**table_json(view), "refs": refs})

    async def explain_table(self, request: web.Request) -> web.Response:
        """Return why the table is or is not maintained: settings, statistics, decisions, tasks."""
        view = await self._find_table(request)
        states, tasks, advice, same = await asyncio.gather(
            asyncio.to_thread(self._model.read_states, view.key),
            asyncio.to_thread(self._model.list_tasks, TASKS_EXPLAINED, view.key),
            asyncio.to_thread(self._model.find_advice, view.key),
            asyncio.to_thread(self._model.list_tables_with_uuid, view.table.uuid),
        )
        others = [
            one.table
            for one in same
            if one.key != view.key
            and not keeps_files((await asyncio.to_thread(self._model.read_states, one.key)).main)
        ]
        return await self._respond_with_catalogs(
            explanation_json(view, states, tasks, advice, self._now_ms(), others)
        )

    async def advice(self, request: web.Request) -> web.Response:
        """Return the recommendations in force, tables with most of them first."""
        found = await asyncio.to_thread(self._model.list_advice, request[ASKED]["limit"])
        words = [advice_json(one) for view in found for one in view.current_advice]
        return await self._respond_with_catalogs({"advice": words, "now_ms": self._now_ms()})

    async def table_advice(self, request: web.Request) -> web.Response:
        """Return the recommendations for one table."""
        view = await self._find_table(request)
        found = await asyncio.to_thread(self._model.find_advice, view.key)
        words = [advice_json(one) for one in found.current_advice] if found else []
        return await self._respond_with_catalogs({"advice": words, "now_ms": self._now_ms()})

    async def _find_table(self, request: web.Request) -> TableView:
        name = request.match_info["table"]
        try:
            view = await asyncio.to_thread(self._model.find_table, name)
        except AmbiguousName as error:
            raise web.HTTPConflict(text=str(error)) from None
        if view is None:
            raise web.HTTPNotFound(text=f"no table {name!r} has been seen")
        return view

    async def _respond_with_catalogs(self, answer: dict[str, Any]) -> web.Response:
        """Return the answer as JSON; table names contain the catalog if there are several."""
        catalogs = await asyncio.to_thread(self._model.list_catalogs)
        return web.json_response(with_catalogs(answer, catalogs))

    async def tasks(self, request: web.Request) -> web.Response:
        """Return open tasks, next deadline first, then finished ones, newest first. `task`: the
        beginning of an id; `table`: a table's name."""
        asked = request[ASKED]
        limit, task, table, status = (asked[one.name] for one in TASKS_ASKED)
        everything = limit if (task, table, status) == ("", None, None) else MAX_ROWS
        running, newest = await asyncio.gather(
            asyncio.to_thread(self._model.list_open_tasks, everything),
            asyncio.to_thread(self._model.list_tasks, everything),
        )
        now_ms = self._now_ms()
        every = {one.task_id: one for one in (*running, *newest)}.values()
        found = (
            shown
            for one in every
            if one.task_id.startswith(task)
            and table in (None, one.table.full_name, one.table.dotted_name)
            and status in (None, status_of(one, now_ms))
            for shown in [task_json(one, now_ms)]
        )
        kept = await asyncio.to_thread(self._model.kept_since_ms, "tasks")
        answer = {"tasks": list(islice(found, limit)), "now_ms": now_ms, "kept_since_ms": kept}
        return await self._respond_with_catalogs(answer)

    async def workers(self, request: web.Request) -> web.Response:
        """Return how many workers each queue of each group needs for its waiting tasks, and
        `both` if its workers take both. `cores`: of one worker; `drain_seconds`: time to complete
        all tasks; `max`: maximum per queue."""
        asked = request[ASKED]
        capacity = WorkerCapacity(asked["cores"], asked["drain_seconds"], asked["max"])
        found = await asyncio.to_thread(self._model.list_open_tasks, MAX_ROWS)
        return web.json_response(workers_json(found, capacity, self._groups, self._now_ms()))

    async def events(self, request: web.Request) -> web.Response:
        """Return events after the number `after` in order of arrival, or the newest ones. Continue
        with the answer's `cursor`; an event may come twice. `kept_since_ms`: time of the oldest
        event that is kept."""
        after = after_of(request)
        cursor = await asyncio.to_thread(self._model.last_event_number)
        found = await asyncio.to_thread(self._model.list_events, after, request[ASKED]["limit"])
        if after is not None:
            cursor = max((one.number for one in found), default=after)
        kept = await asyncio.to_thread(self._model.kept_since_ms, "events")
        answer = {"events": [event_json(one) for one in found], "cursor": cursor}
        return await self._respond_with_catalogs({**answer, "kept_since_ms": kept})

    async def event_stream(self, request: web.Request) -> web.StreamResponse:
        """Stream the same events as server-sent events."""
        return await stream_events(request, self._model, after_of(request))

    async def dead_letters(self, request: web.Request) -> web.Response:
        """Return the newest dead letters."""
        found = await asyncio.to_thread(self._model.list_dead_letters, request[ASKED]["limit"])
        return web.json_response({"dead_letters": [dead_letter_json(one) for one in found]})


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return errors as `{"error": ...}`; 503 if Redis is away."""
    try:
        return await handler(request)
    except RetryLater as error:
        return web.json_response({"error": redact(str(error))}, status=503)
    except (BadQuery, BadParameter) as error:
        return web.json_response({"error": str(error)}, status=400)
    except web.HTTPException as error:
        return web.json_response({"error": error.text}, status=error.status)


def route(path: str, handler: Handler, *parameters: Parameter) -> web.RouteDef:
    """Return a route whose handler finds its parameters in `request[ASKED]`, each read and checked.
    Handlers do not read the query: a parameter that is not declared here is refused."""
    declared = {one.name: one for one in parameters}

    async def check_and_handle(request: web.Request) -> web.StreamResponse:
        request[ASKED] = read_parameters(request.query.items(), declared)
        return await handler(request)

    return web.get(path, check_and_handle)


def after_of(request: web.Request) -> int | None:
    """Return the last event id of a broken stream (None if it is no valid position), else the
    `after` parameter."""
    if text := request.headers.get("Last-Event-ID", ""):
        with suppress(BadParameter):
            return read_position(text)
        return None
    after: int | None = request[ASKED]["after"]
    return after
