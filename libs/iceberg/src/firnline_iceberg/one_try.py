"""A commit that is sent once, and after which nobody clears anything away by guess.

Iceberg (1.12.0, `BaseTransaction`) takes 409, 429, 400 and other answers for a sure sign that
nothing was committed: it tries again, and then removes the manifests of the commit. But the answer
may be about a second copy of the request, sent again by a proxy, a gateway or the HTTP client
itself, and the first copy may have been applied: then the table's head has lost its manifest list
(seen, see docs/decisions/0012). So the answer goes to the caller, who asks the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from py4j.protocol import Py4JJavaError

MaySend = Callable[[], bool]
Holds = Callable[[Any], bool]
"""Java's `TableMetadata` that the commit is onto -> whether it is what was examined."""


def always() -> bool:
    """Sends whenever it is ready."""
    return True


def whatever(_: Any) -> bool:
    """Of a table's form nothing was examined."""
    return True


@dataclass(frozen=True)
class Attempt:
    """Metadata files of a commit that was refused: of each snapshot its list and new manifests."""

    sequence_number: int  # of the table before it
    snapshot_ids: frozenset[int]
    files: tuple[str, ...]


class OneTry:
    """A Java `TableOperations` over another. Its commit fails as a Python error does in Java: with
    an exception that Iceberg neither tries again after nor draws conclusions from."""

    def __init__(
        self, operations: Any, may_send: MaySend = always, holds: Holds = whatever
    ) -> None:
        self._operations = operations
        self._may_send = may_send
        self._holds = holds
        self.unsent = ""  # why nothing was sent
        self.error: Py4JJavaError | None = None  # of the commit, once it was sent
        self.attempt: Attempt | None = None

    def commit(self, base: Any, metadata: Any) -> None:
        """Raises what the catalog's client raises, or TimeoutError: it may not be sent."""
        if not self._holds(base):
            self.unsent = "the table has another format, schema or name mapping by now"
        elif not self._may_send():
            self.unsent = "its outputs were seen too long ago"
        if self.unsent:
            self.attempt = _attempt(self._operations.io(), base, metadata)
            raise TimeoutError("this commit may not be sent any more")
        try:
            self._operations.commit(base, metadata)
        except Py4JJavaError as error:
            self.error = error
            self.attempt = _attempt(self._operations.io(), base, metadata)
            raise

    def current(self) -> Any:
        return self._operations.current()

    def refresh(self) -> Any:
        return self._operations.refresh()

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

    class Java:
        implements = ("org.apache.iceberg.TableOperations",)


class _Told(logging.Filter):
    """py4j logs whatever Python raises towards Java as an error of its own, with two stacks. Of a
    commit the caller hears and says it in one line: a lost race is no error."""

    def filter(self, record: logging.LogRecord) -> bool:
        trace = record.exc_info[2] if record.exc_info else None
        frames = (frame.f_code for frame, _ in walk_tb(trace))
        return OneTry.commit.__code__ not in frames


logging.getLogger("py4j.clientserver").addFilter(_Told())


def _attempt(io: Any, base: Any, metadata: Any) -> Attempt:
    made = [one for one in metadata.snapshots() if base.snapshot(one.snapshotId()) is None]
    return Attempt(
        base.lastSequenceNumber(),
        frozenset(one.snapshotId() for one in made),
        tuple(dict.fromkeys(path for one in made for path in _files(io, one))),
    )


def _files(io: Any, snapshot: Any) -> Iterator[str]:
    for manifest in snapshot.allManifests(io):
        if manifest.snapshotId() == snapshot.snapshotId():
            yield manifest.path()
    yield snapshot.manifestListLocation()
