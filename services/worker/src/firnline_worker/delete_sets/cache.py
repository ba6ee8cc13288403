"""The cache of delete sets: each is built once, shared while tasks use it, then removed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow as pa
from cachetools import FIFOCache
from firnline_adapters.observability import metrics

from firnline_worker.host.own_folder import own_folder
from firnline_worker.spark.executor_delete_sets import LiveSets, name_of

PREFIX = "sets-"
_REMEMBERED = 10_000  # names of dropped sets, 1 MB


@dataclass
class _Entry:
    path: Path
    users: int = 0
    built: bool = False
    building: threading.Lock = field(default_factory=threading.Lock)


class DeleteSetCache:
    """Folders by identity in one directory of this process. Safe for many threads."""

    def __init__(self, state_dir: Path) -> None:
        """Remove what dead workers left in `state_dir`. Half of the cores build sets at once, the
        others rewrite: each build holds its keys several times over, so four at once took 560 MB
        where one is enough to keep two cores busy."""
        self._folder = own_folder(state_dir, PREFIX)
        self.root = self._folder.path
        self._lock = threading.Lock()
        self._builders = threading.Semaphore(max(1, (os.cpu_count() or 1) // 2))
        self._entries: dict[str, _Entry] = {}
        self._numbers = count(1)
        self._newest = 0
        self._dropped = FIFOCache[str, None](_REMEMBERED)

    @contextmanager
    def hold(self, identity: str, write: Callable[[Path], None]) -> Iterator[Path]:
        """Hold the folder of this identity; `write` fills it if it does not exist (single flight:
        others wait). It is removed with its last user; a process that has files mapped keeps the
        pages."""
        entry = self._acquire(identity)
        try:
            with entry.building:
                if entry.built:
                    metrics.count("delete_sets", had="shared")
                else:
                    self._build(entry, write)
                    metrics.count("delete_sets", had=self._build_kind(identity))
            yield entry.path
        finally:
            self._release(identity, entry)

    def _build(self, entry: _Entry, write: Callable[[Path], None]) -> None:
        with self._builders:
            shutil.rmtree(entry.path, ignore_errors=True)  # of a try that failed
            entry.path.mkdir()
            write(entry.path)
            entry.built = True
            pa.default_memory_pool().release_unused()

    def _build_kind(self, identity: str) -> str:
        """Return the label of a build. `rebuilt` is a set that a longer retention would have
        spared: it shows whether retention pays."""
        with self._lock:
            return "rebuilt" if identity in self._dropped else "built"

    def live_sets(self) -> LiveSets:
        """Return the sets that are held now."""
        with self._lock:
            names = (entry.path.name for entry in self._entries.values())
            return LiveSets(frozenset(names), self._newest)

    def close(self) -> None:
        self._folder.close()

    def _acquire(self, identity: str) -> _Entry:
        with self._lock:
            if (entry := self._entries.get(identity)) is None:
                self._newest = next(self._numbers)
                entry = _Entry(self.root / name_of(self._newest, identity))
                self._entries[identity] = entry
            entry.users += 1
            return entry

    def _release(self, identity: str, entry: _Entry) -> None:
        with self._lock:
            entry.users -= 1
            if not entry.users:
                del self._entries[identity]
                self._dropped[identity] = None
                shutil.rmtree(entry.path, ignore_errors=True)
