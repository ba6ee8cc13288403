"""What was read of files that never change: manifests, their lists, delete files, row maps. A
committer that tries again on the next head finds all but the newest of them here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from typing import Any, TypeVar, cast

T = TypeVar("T")
S = TypeVar("S", bound=Sized)
MOST_ENTRIES = 200_000  # about 150 MB
ENTRY_BYTES = 750  # of memory, of a manifest entry


class FileCache:
    """The least recently used go first, so that no more than `most_entries` are held."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most = most_entries
        self._held = 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, read: Callable[[], S]) -> S:
        """What `read` gave at the first time. Two threads may read at once."""
        return self.get_weighed(key, read, len)

    def get_weighed(self, key: Hashable, read: Callable[[], T], entries: Callable[[T], int]) -> T:
        """The same of something that is as large as so many manifest entries."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast(T, self._kept[key][0])
        found = read()
        with self._lock:
            self._put(key, found, entries(found) + 1)
        return found

    def _put(self, key: Hashable, found: Any, weight: int) -> None:
        if key in self._kept:
            return
        self._kept[key] = (found, weight)
        self._held += weight
        while self._held > self._most:
            _, (_, gone) = self._kept.popitem(last=False)
            self._held -= gone
