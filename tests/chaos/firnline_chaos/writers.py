"""Writers at work: each a thread with a JVM of its own, behind one of the gateways."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from firnline_domain.errors import RetryLater, TaskRefused
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.table.catalog_client import Tables
from py4j.protocol import Py4JJavaError

from firnline_chaos.plan import Write
from firnline_chaos.tables import KINDS, NAMESPACE
from firnline_chaos.writes import WRITES, NothingToDo, Turn
from tests.kit.lake.rows import Lineage

TRIES = 3  # of one write, each planned anew
PATIENCE_MS = 12_000  # for one answer
UNKNOWN = "CommitStateUnknownException"
REFUSED = ("CommitFailedException", "ValidationException", "IllegalArgumentException")
BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class Done:
    """What became of a write. `outcome`: landed, refused, unknown, unreachable or nothing."""

    write: Write
    outcome: str
    tries: int
    detail: str = ""


@dataclass
class Book:
    """What all writers share. `acknowledged`: table and marker of every commit that was answered
    with success. `errors`: what no writer should meet."""

    lineages: Mapping[str, Lineage]
    versions: Iterator[int]
    done: list[Done] = field(default_factory=list)
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Writer:
    """Use it on one thread; `close` ends its JVM."""

    def __init__(self, iceberg_jar: Path, reached: CatalogConnection, book: Book) -> None:
        self._java = IcebergJvm(iceberg_jar, heap_bytes=256 << 20)
        self.jvm = self._java.jvm
        waits = {
            "rest.client.socket-timeout-ms": str(PATIENCE_MS),
            "rest.client.connection-timeout-ms": str(PATIENCE_MS),
        }
        self.catalog = rest_catalog(self.jvm, reached, **waits)
        self._tables = Tables(reached)
        self._book = book

    def close(self) -> None:
        self._java.close()

    def work(self, writes: Sequence[Write], started: float, stop: threading.Event) -> None:
        """Each at its time, or as soon as the one before is done."""
        for write in writes:
            if stop.wait(max(0.0, started + write.at_s - time.monotonic())):
                return
            try:
                self._book.done.append(self.do(write, stop))
            except Exception as error:
                self._book.errors.append(f"{write.kind} of {write.table}: {error!r}"[:400])

    def do(self, write: Write, stop: threading.Event, tries: int = TRIES) -> Done:
        """One write with its tries."""
        done = Done(write, "nothing", 0)
        for number in range(1, tries + 1):
            done = self._try(write, number)
            if done.outcome in ("landed", "nothing", "unknown") or stop.wait(0.3 * number):
                break
        return done

    def _try(self, write: Write, number: int) -> Done:
        marker = f"{write.number}.{number}"
        try:
            turn = self._turn(write, marker)
            turn.send(WRITES[write.kind](turn))
        except NothingToDo as nothing:
            return Done(write, "nothing", number, str(nothing))
        except (RetryLater, TaskRefused, MetadataFileGone, OSError) as error:
            return Done(write, "unreachable", number, _short(error))
        except Py4JJavaError as error:
            return Done(write, _outcome(error), number, _short(error))
        self._book.acknowledged.append((write.table, marker))
        return Done(write, "landed", number)

    def _turn(self, write: Write, marker: str) -> Turn:
        table = self._tables.load_named((NAMESPACE,), write.table)
        lineage = self._book.lineages[write.table]
        lineage.observe_table(table)
        java = load_table(self.jvm, self.catalog, table.identity)
        return Turn(
            self.jvm, java, table, BY_NAME[write.table], lineage, marker,
            random.Random(f"{write.dice}/{marker}"), self._book.versions, write.hold_s,
        )  # fmt: skip


def _outcome(error: Py4JJavaError) -> str:
    name = str(error.java_exception.getClass().getSimpleName())
    if name == UNKNOWN:
        return "unknown"
    return "refused" if name in REFUSED else "unreachable"


def _short(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString())[:160]
    return f"{type(error).__name__}: {error}"[:160]
