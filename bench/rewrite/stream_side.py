"""A writer as a process of its own: one small append after the other by Iceberg's Java API, as
Flink and Kafka Connect commit, as often a second as it is told, until it is ended. Each append is a
line of its book, one JSON object.

PyIceberg made 4.0 appends a second of the 5 asked on two busy cores, so the writer is Java's.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_domain.identity import TableName, normal_path
from firnline_iceberg.java.api import content_file, load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.processes.command import Command
from firnline_local.servers.artifacts import iceberg_jar
from py4j.protocol import Py4JJavaError

from bench.rewrite.lake import NAMESPACE

APART = 10_000_000
ROWS = 100  # of an append
COLUMNS = (("append", pa.int64()), ("row", pa.int64()), ("word", pa.string()))
SCHEMA = pa.schema(
    pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
    for number, (name, kind) in enumerate(COLUMNS, 1)
)
HEAP_BYTES = 256 << 20
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
    with IcebergJvm(iceberg_jar(), HEAP_BYTES) as machine:
        catalog = rest_catalog(machine.jvm, uri)
        table = load_table(machine.jvm, catalog, TableName("", NAMESPACE, name))
        _append_until(stop, Appender(machine.jvm, table), rate, book, writer)


def _append_until(
    stop: threading.Event, appender: Appender, rate: float, book: Path, writer: int
) -> None:
    with book.open("w", buffering=1) as lines:
        number, due = writer * APART, time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            since = time.monotonic()
            outcome, why = appender.append(number)
            took_s = round(time.monotonic() - since, 4)
            told = {"append": number, "outcome": outcome, "took_s": took_s, "why": why}
            print(json.dumps({**told, "at_ms": int(time.time() * 1000)}), file=lines)
            number, due = number + 1, max(due + 1 / rate, time.monotonic())


@dataclass
class Appender:
    """Appends to a Java `Table`."""

    jvm: Any
    table: Any

    def append(self, number: int) -> tuple[str, str]:
        """With Java's own tries, four after the first; the outcome and the reason."""
        file = content_file(self.jvm, self.table, self._written(number))
        try:
            self.table.newAppend().appendFile(file).commit()
        except Py4JJavaError as error:  # whoever writes for ten minutes goes on
            self.table.refresh()
            why = str(error.java_exception)[:200]
            return FAILED if "CommitFailedException" in why else UNKNOWN, why
        return LANDED, ""

    def _written(self, number: int) -> str:
        """One file of an append, as `ContentFileParser` reads it."""
        words = [f"{number}-{row}" for row in range(ROWS)]
        rows = pa.table([[number] * ROWS, list(range(ROWS)), words], schema=SCHEMA)
        where = f"{self.table.location()}/data/{number}-{uuid.uuid4()}.parquet"
        local = Path(normal_path(where).removeprefix("file://"))
        local.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, local)
        return json.dumps(
            {
                "spec-id": 0, "content": "data", "file-path": where, "file-format": "parquet",
                "partition": [], "file-size-in-bytes": local.stat().st_size, "record-count": ROWS,
            }
        )  # fmt: skip


if __name__ == "__main__":
    _, _uri, _name, _rate, _book, _writer = sys.argv
    write(_uri, _name, float(_rate), Path(_book), int(_writer))
