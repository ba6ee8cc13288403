"""A commit that is sent once, and after which nobody clears anything away by guess.

Iceberg (1.12.0, `BaseTransaction`) takes 409, 429, 400 and other answers for a sure sign that
nothing was committed: it tries again, and then removes the manifests of the commit. But the answer
may be about a second copy of the request, sent again by a proxy, a gateway or the HTTP client
itself, and the first copy may have been applied: then the table's head has lost its manifest list
(seen, see docs/decisions/0009). So the answer goes to the caller, who asks the table.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from firnline_domain.identity import MAIN
from py4j.protocol import Py4JJavaError

MaySend = Callable[[], bool]
Holds = Callable[[Any], bool]
"""Java's `TableMetadata` that the commit is onto -> whether it is what was examined."""


Answered = Callable[[float, Py4JJavaError | None], None]
"""Told how long the catalog took, in seconds, and what it raised."""


def always_send() -> bool:
    """Return True: send whenever it is ready."""
    return True


def accept_any(_: Any) -> bool:
    """Return True for any form of a table: none was examined."""
    return True


def ignore_time(seconds: float, error: Py4JJavaError | None) -> None:
    """Do nothing, for callers that keep no figures."""


def as_it_is(metadata: Any) -> Any:
    """Return the metadata unchanged: nothing is hidden from Java."""
    return metadata


class HeadPin:
    """A Java `SnapshotAncestryValidator`: the parent must be the examined snapshot of a ref."""

    def __init__(self, snapshot_id: int, ref: str = MAIN) -> None:
        self.snapshot_id = snapshot_id
        self.ref = ref
        self.lost = False

    def is_head(self, metadata: Any) -> bool:
        """Return True if the pinned snapshot is its ref's head in a Java `TableMetadata`; else set
        `lost`."""
        head = metadata.ref(self.ref)
        self.lost = head is None or head.snapshotId() != self.snapshot_id
        return not self.lost

    def validate(self, ancestry: Any) -> bool:
        """Return True if the pinned snapshot is the parent. Java calls this before each try, with
        the new snapshot's ancestors, nearest first."""
        snapshots = ancestry.iterator()
        parent = snapshots.next().snapshotId() if snapshots.hasNext() else None
        self.lost = parent != self.snapshot_id
        return not self.lost

    def errorMessage(self) -> str:  # noqa: N802  Java's name
        """Return the text of Java's ValidationException."""
        return f"the head is not {self.snapshot_id} any more"

    class Java:
        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


@dataclass(frozen=True)
class WrittenMetadata:
    """Metadata that a commit has written, applied or not: its snapshots, the oldest first, and
    their manifest lists, which name its manifests."""

    sequence_number: int  # of the table before it
    snapshot_ids: tuple[int, ...]
    lists: tuple[str, ...]


class SingleSend:
    """A `TableOperations` over Java's (`SentOperations`). Its commit fails as a Python error does
    in Java: with an exception that Iceberg neither tries again after nor draws conclusions from. So
    does a refresh that finds another head than the pinned one: what is written stays, for the next
    try.
    """

    def __init__(
        self,
        operations: Any,
        pin: HeadPin,
        may_send: MaySend = always_send,
        holds: Holds = accept_any,
        seen: Callable[[Any], Any] = as_it_is,
        answered: Answered = ignore_time,
    ) -> None:
        """Wrap a table's `TableOperations`. `seen`: returns what Java sees instead of the table's
        `TableMetadata`. `answered`: called after each commit that was sent."""
        self._operations = operations
        self._seen = seen
        self._shown: tuple[str, Any, Any] | None = None  # location, metadata as it is and as seen
        self.pin = pin
        self._may_send = may_send
        self._holds = holds
        self._answered = answered
        self.unsent = ""  # why nothing was sent
        self.error: Py4JJavaError | None = None  # of the commit, once it was sent
        self.written: WrittenMetadata | None = None

    def try_again(self, pinned: int, may_send: MaySend, holds: Holds) -> None:
        """Begin the next try of the same transaction, onto another head."""
        self.pin.snapshot_id, self._may_send, self._holds = pinned, may_send, holds
        self.unsent, self.error, self.written = "", None, None

    def commit(self, base: Any, metadata: Any) -> None:
        """Send the commit, unless the table has changed or its outputs were checked too long ago.
        Raises what the catalog's client raises, or TimeoutError if it is not sent."""
        if not self._holds(base):
            self.unsent = "the table has another format, schema or name mapping by now"
        elif not self._may_send():
            self.unsent = "its outputs were seen too long ago"
        if self.unsent:
            self.written = written_metadata(base, metadata, self.pin.ref)
            raise TimeoutError("this commit may not be sent any more")
        began_s = time.monotonic()
        try:
            self._operations.commit(base if self._shown is None else self._shown[1], metadata)
        except Py4JJavaError as error:
            self.error = error
            raise
        finally:  # not before: every millisecond of it is one in which the head may move
            elapsed_s = time.monotonic() - began_s
            self.written = written_metadata(base, metadata, self.pin.ref)
            self._answered(elapsed_s, self.error)

    def refresh(self) -> Any:
        """Refresh the metadata. Raises TimeoutError if the pinned snapshot is not the head any
        more."""
        found = self._operations.refresh()
        if not self.pin.is_head(found):
            self.unsent = self.pin.errorMessage()
            raise TimeoutError(self.unsent)
        return self._as_shown(found)

    def _as_shown(self, found: Any) -> Any:
        """Return an object for Java, which compares references: of one metadata file it is shown
        one object."""
        location = found.metadataFileLocation()
        if self._shown is None or self._shown[0] != location:
            self._shown = location, found, self._seen(found)
        return self._shown[2]

    def current(self) -> Any:
        return self._as_shown(self._operations.current())

    def io(self) -> Any:
        return self._operations.io()

    def encryption(self) -> Any:
        return self._operations.encryption()

    def locationProvider(self) -> Any:  # noqa: N802  Java's names, here and below
        return self._operations.locationProvider()

    def metadataFileLocation(self, name: str) -> Any:  # noqa: N802
        return self._operations.metadataFileLocation(name)

    def temp(self, metadata: Any) -> Any:
        return self._operations.temp(metadata)

    def newSnapshotId(self) -> Any:  # noqa: N802
        return self._operations.newSnapshotId()

    def requireStrictCleanup(self) -> Any:  # noqa: N802
        return self._operations.requireStrictCleanup()


class SentOperations:
    """A Java `TableOperations` that calls a SingleSend, which it does not keep alive. Java reports
    late that it has collected an object, and Spark's JVM never does; each SingleSend holds a table
    of 200 to 400 kB."""

    def __init__(self, send: SingleSend) -> None:
        self._send = weakref.ref(send)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._send(), name)

    class Java:
        implements = ("org.apache.iceberg.TableOperations",)


class _WithoutLostRaces(logging.Filter):
    """py4j logs whatever Python raises towards Java as an error of its own, with two stacks. Of a
    commit the caller hears and says it in one line: a lost race is no error."""

    def filter(self, record: logging.LogRecord) -> bool:
        trace = record.exc_info[2] if record.exc_info else None
        frames = (frame.f_code for frame, _ in walk_tb(trace))
        return not {SingleSend.commit.__code__, SingleSend.refresh.__code__} & set(frames)


logging.getLogger("py4j.clientserver").addFilter(_WithoutLostRaces())


def written_metadata(base: Any, metadata: Any, ref: str) -> WrittenMetadata:
    """Return what a Java `TableMetadata` has more of a ref than another."""
    head = metadata.ref(ref)
    made, number = list[Any](), None if head is None else head.snapshotId()
    while number is not None and base.snapshot(number) is None:
        made.append(metadata.snapshot(number))
        number = made[-1].parentId()
    made.reverse()
    return WrittenMetadata(
        base.lastSequenceNumber(),
        tuple(one.snapshotId() for one in made),
        tuple(one.manifestListLocation() for one in made),
    )
