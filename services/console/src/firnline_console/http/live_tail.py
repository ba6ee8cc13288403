"""The live tail as server-sent events (HTML standard, section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection

from aiohttp import web
from firnline_domain.errors import RetryLater

from firnline_console.http.answers import event_json
from firnline_console.read_model.port import Numbered, ReadModel
from firnline_console.views.catalogs import with_catalogs

POLL_S = 0.4  # an event is on the screen within half a second
BATCH = 500
FIRST = 100  # events that a stream without a cursor begins with
BEATS = 25  # polls without an event before a comment keeps the connection alive: 10 s
RETRY_MS = 2_000  # browsers come back after that


async def stream_events(
    request: web.Request, model: ReadModel, after: int | None
) -> web.StreamResponse:
    """Send events until the client disconnects; `id` is the event's number, with which the client
    resumes. If Redis is away, the stream ends and clients reconnect by themselves."""
    # Before the first events are read: what arrives between the two comes again, and is skipped.
    cursor = await asyncio.to_thread(model.last_event_number) if after is None else after
    found = await asyncio.to_thread(model.list_events, after, FIRST if after is None else BATCH)
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    )
    await response.prepare(request)
    await response.write(f"retry: {RETRY_MS}\n\n".encode())
    try:
        catalogs = await asyncio.to_thread(model.list_catalogs)
        for one in found:
            await response.write(_event_frame(one, catalogs))
        if after is not None:
            cursor = max((one.number for one in found), default=cursor)
        await _send_new_events(response, model, cursor, {one.number for one in found})
    except (RetryLater, ConnectionResetError):
        return response
    return response


async def _send_new_events(
    response: web.StreamResponse, model: ReadModel, cursor: int, sent: set[int]
) -> None:
    idle = 0
    while True:
        found = await asyncio.to_thread(model.list_events, cursor, BATCH)
        catalogs = await asyncio.to_thread(model.list_catalogs) if found else ()
        for one in found:
            cursor = one.number
            if one.number not in sent:
                await response.write(_event_frame(one, catalogs))
        idle = 0 if found else idle + 1
        if idle % BEATS == BEATS - 1:
            await response.write(b": still here\n\n")
        if len(found) < BATCH:
            await asyncio.sleep(POLL_S)


def _event_frame(event: Numbered, catalogs: Collection[str]) -> bytes:
    text = json.dumps(with_catalogs(event_json(event), catalogs))
    return f"id: {event.number}\ndata: {text}\n\n".encode()
