"""A PyIceberg writer as a process of its own: one small append after the other, as often a second
as it is told, until it is ended. Each is a line of its book, one JSON object."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
from firnline_local.command import Command
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from bench.rewrite.lake import NAMESPACE

APART = 10_000_000
ROWS = 100  # of an append
SCHEMA = pa.schema([("append", pa.int64()), ("row", pa.int64()), ("word", pa.string())])
LANDED, FAILED, UNKNOWN = "landed", "failed", "unknown"


def command(uri: str, name: str, rate: float, book: Path, writer: int) -> Command:
    """A writer, one of a table's; it is ready when its table is loaded."""
    given = (uri, name, str(rate), str(book), str(writer))
    return Command(
        name=f"writer-{name}-{writer}",
        argv=(sys.executable, "-m", "bench.rewrite.stream_side", *given),
        cwd=Path.cwd(),
        ready=book.is_file,
    )


def write(uri: str, name: str, rate: float, book: Path, writer: int) -> None:
    """Until SIGTERM. No two writers make an append of the same number. A writer that is late goes
    on at once and makes nothing up for it."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    table = RestCatalog("writer", uri=uri).load_table((*NAMESPACE, name))
    with book.open("w", buffering=1) as lines:
        number, due = writer * APART, time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            since = time.monotonic()
            outcome, why = _append(table, number)
            took_s = round(time.monotonic() - since, 4)
            told = {"append": number, "outcome": outcome, "took_s": took_s, "why": why}
            print(json.dumps({**told, "at_ms": int(time.time() * 1000)}), file=lines)
            number, due = number + 1, max(due + 1 / rate, time.monotonic())


def _append(table: Table, number: int) -> tuple[str, str]:
    """With PyIceberg's own tries, four after the first; the outcome and the reason."""
    words = [f"{number}-{row}" for row in range(ROWS)]
    rows = pa.table([[number] * ROWS, list(range(ROWS)), words], schema=SCHEMA)
    try:
        table.append(rows)
    except CommitFailedException as error:
        table.refresh()
        return FAILED, str(error)[:200]
    except Exception as error:  # whoever writes for ten minutes goes on
        table.refresh()
        return UNKNOWN, repr(error)[:200]
    return LANDED, ""


if __name__ == "__main__":
    _, _uri, _name, _rate, _book, _writer = sys.argv
    write(_uri, _name, float(_rate), Path(_book), int(_writer))
