"""Follow a writer's request through the services by its trace id (W3C Trace Context).

The id is in a header of each record, and in each line of the log about the request or about a task
that it led to. It is a claim of whoever sent it: it names, and nothing is decided by it.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

HEADER = "traceparent"
MAX_BYTES = 200  # of a header; later versions may have more parts than the first one
MAX_KEPT = 20_000  # ids of records on their way through this process, 6 MB
# Ids of zeros are none, and there is no version 255.
_IDS = rb"-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT = re.compile(rb"00" + _IDS + rb"|(?!00|ff)[0-9a-f]{2}" + _IDS + rb"(?:-.*)?")
_TRACE = re.compile(r"[0-9a-f]{32}")
_current: ContextVar[str] = ContextVar("trace", default="")
_kept = OrderedDict[str, str]()  # by the id of a record
_keeping = threading.Lock()

Headers = Iterable[tuple[str, bytes | str | None]]


def parse_traceparent(text: bytes | str | None) -> str:
    """Return the trace id of a header; "" if it is none that the specification allows."""
    data = text.encode(errors="replace") if isinstance(text, str) else text or b""
    found = _TRACEPARENT.fullmatch(data) if len(data) <= MAX_BYTES else None
    return (found[1] or found[2]).decode() if found else ""


def new_trace() -> str:
    """Return a trace id for a request that has none."""
    return secrets.token_hex(16)


def write_traceparent(trace: str) -> bytes | None:
    """Return the header of a trace id; None if it is none, or several. Each record is a span of its
    own, which is recorded nowhere."""
    if _TRACE.fullmatch(trace) is None:
        return None
    return f"00-{trace}-{secrets.token_hex(8)}-00".encode()


def current_trace() -> str:
    """Return the id of what this thread, or this task of asyncio, works at; "" for nothing."""
    return _current.get()


@contextmanager
def following(trace: str) -> Iterator[None]:
    """Work at the request with that id meanwhile."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


def trace_in(headers: Headers | None) -> str:
    """Return the trace id in a record's headers, "" if there is none."""
    given: bytes | str | None = None
    for name, value in headers or ():
        if name == HEADER:
            given = value
    return parse_traceparent(given) if given else ""


def keep_trace(record: Any, headers: Headers | None) -> None:
    """Keep the trace id of a record that has arrived until it was worked at."""
    if (trace := trace_in(headers)) and (key := _id_of(record)):
        with _keeping:
            _kept.pop(key, None)
            _kept[key] = trace
            if len(_kept) > MAX_KEPT:
                _kept.popitem(last=False)


def trace_of(record: Any) -> str:
    """Return the trace id that a record, or another one about the same task, has come with; else
    that of what is worked at here."""
    return _kept.get(_id_of(record)) or _current.get()


def trace_of_task(task_id: object) -> str:
    """Return the same of a task by its id."""
    return _kept.get(str(task_id)) or _current.get()


def _id_of(record: Any) -> str:
    """Return the id of an event, also of one that tasks have led to, or of a task."""
    return str(getattr(record, "event_id", None) or getattr(record, "task_id", None) or "")
