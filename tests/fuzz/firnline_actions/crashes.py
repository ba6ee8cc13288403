"""The end of a process at any of its calls to storage or catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from random import Random
from typing import Any

from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.removal.moves import Mover
from firnline_iceberg.storage.arrow_file_io import LakeFileIO
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.listing import Storage
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.spark.session import SparkStage

from tests.meddling import Meddler, Meddling

CALLS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (LakeFileIO, ("new_input", "new_output", "delete")),
    (Storage, ("_list_with_arrow", "has_file")),
    (Mover, ("_move_file",)),
    (Tables, ("load", "load_named")),
    (JavaTables, ("load",)),
    (JavaCommits, ("commit",)),
    (SparkStage, ("run",)),
)


class Crash(BaseException):
    """As a kill, it is no `Exception`: whoever has been killed handles nothing any more."""


class Fuse:
    """Counts the calls of a process, and ends it at one of them, before or after it was made. From
    then on each of its calls ends at once, those of `finally` too."""

    def __init__(self) -> None:
        self._left = 0
        self._after = False
        self._lock = threading.Lock()
        self._exempt = threading.local()
        self.blown = False
        self.calls = 0

    def arm(self, rng: Random) -> None:
        """Short runs make a dozen calls, long ones hundreds."""
        self._left = rng.randint(1, rng.choice((10, 40, 150)))
        self._after, self.blown = rng.random() < 0.5, False

    def disarm(self) -> None:
        self._left, self.blown = 0, False

    @contextmanager
    def exempt(self) -> Iterator[None]:
        """For writers and observers."""
        self._exempt.now = True
        try:
            yield
        finally:
            self._exempt.now = False

    def around(self, call: Callable[[], Any]) -> Any:
        """Raises Crash."""
        if getattr(self._exempt, "now", False):
            return call()
        ends = self._burn()
        if ends and not self._after:
            raise Crash
        found = call()
        if ends:
            raise Crash
        return found

    def _burn(self) -> bool:
        with self._lock:
            self.calls += 1
            if self.blown:
                self._after = False
                return True
            self._left -= 1
            self.blown = self._left == 0
            return self.blown

    @contextmanager
    def installed(self) -> Iterator[None]:
        """In all calls of this process."""
        kept = [(kind, name, getattr(kind, name)) for kind, names in CALLS for name in names]
        for kind, name, method in kept:
            setattr(kind, name, self._wrapped(method))
        try:
            yield
        finally:
            for kind, name, method in kept:
                setattr(kind, name, method)

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **named: Any) -> Any:
            return self.around(lambda: method(*args, **named))

        return call


class Catalog(Meddler):
    """What the product reaches; writers reach the real one."""

    def __init__(self, upstream: str, fuse: Fuse) -> None:
        super().__init__(upstream)
        self.RequestHandlerClass = Handler
        self.fuse = fuse


class Handler(Meddling):
    """Java's calls are counted here. What a dead process still asks is refused, so that its JVM
    comes to an end soon."""

    server: Catalog

    def do_GET(self) -> None:  # noqa: N802
        if self.server.fuse.blown:
            return self.answer(400, b'{"error": {"message": "dead", "type": "B", "code": 400}}')
        return super().do_GET()

    def do_POST(self) -> None:  # noqa: N802
        try:
            self.server.fuse.around(super().do_POST)
        except Crash:
            self.close_connection = True
            self.connection.close()
