"""Cache what was read of files that never change: manifests, their lists, delete files, row maps. A
committer that tries again on the next head finds all but the newest of them here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sized
from contextlib import suppress
from typing import Any, TypeVar, cast

from cachetools import LRUCache

T = TypeVar("T")
S = TypeVar("S", bound=Sized)
MOST_ENTRIES = 200_000  # about 150 MB
ENTRY_BYTES = 750  # of memory, of a manifest entry


class FileCache:
    """The least recently used go first, so that no more than `most_entries` are held."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._kept = LRUCache[Hashable, tuple[Any, int]](most_entries, lambda kept: kept[1])
        self._lock = threading.Lock()

    def get_or_read(self, key: Hashable, read: Callable[[], S]) -> S:
        """Return what `read` gave at the first time. Two threads may read at once."""
        return self.get_weighed(key, read, len)

    def get_weighed(self, key: Hashable, read: Callable[[], T], entries: Callable[[T], int]) -> T:
        """Return the same of something that is as large as so many manifest entries. What is larger
        than the cache is not kept."""
        with self._lock:
            if key in self._kept:
                return cast(T, self._kept[key][0])
        found = read()
        kept = found, entries(found) + 1
        with self._lock, suppress(ValueError):  # larger than the cache
            self._kept.setdefault(key, kept)
        return found
