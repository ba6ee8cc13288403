"""Manifests and manifest lists that were read once: they never change, and a committer that tries
again on the next head finds all but a few of them there."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
MOST_ENTRIES = 200_000  # about 150 MB


class ManifestCache:
    """The least recently used go first, so that no more than `most_entries` are held."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most = most_entries
        self._held = 0
        self._kept: OrderedDict[Hashable, Sequence[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, read: Callable[[], Sequence[T]]) -> Sequence[T]:
        """What `read` gave at the first time. Two threads may read at once."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = read()
        with self._lock:
            self._put(key, found)
        return found

    def _put(self, key: Hashable, found: Sequence[Any]) -> None:
        if key in self._kept:
            return
        self._kept[key] = found
        self._held += len(found) + 1
        while self._held > self._most:
            _, gone = self._kept.popitem(last=False)
            self._held -= len(gone) + 1
