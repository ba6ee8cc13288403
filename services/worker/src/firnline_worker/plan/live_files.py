"""Live files of the snapshot that was planned last: the orders of one table come in bursts, one per
partition, and each would read every manifest again."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock

from firnline_iceberg.scan.planning import LiveFiles, live_files
from firnline_iceberg.table.loaded_table import LoadedTable

_MAX_FILES = 100_000  # about 100 MB; more than that is not kept
_Key = tuple[str, int]


@dataclass
class LiveFilesCache:
    """A cache that is safe for many threads. One thread reads a snapshot while others that need it
    wait; other tables are not held up. A snapshot never changes."""

    _reading: dict[_Key, Future[LiveFiles]] = field(default_factory=dict)
    _kept: tuple[_Key, LiveFiles] | None = None
    _lock: Lock = field(default_factory=Lock)

    def get_or_read(self, table: LoadedTable, snapshot_id: int) -> LiveFiles:
        """Return the live files of a snapshot. Raises as `live_files`."""
        key = (table.identity.key, snapshot_id)
        with self._lock:
            if self._kept is not None and self._kept[0] == key:
                return self._kept[1]
            found = self._reading.get(key)
            mine = found is None
            found = self._reading.setdefault(key, Future())
        if mine:
            self._read(key, table, found)
        return found.result()

    def _read(self, key: _Key, table: LoadedTable, found: Future[LiveFiles]) -> None:
        try:
            live = live_files(table, key[1])
            found.set_result(live)
            if len(live.data) + len(live.deletes) <= _MAX_FILES:
                self._kept = (key, live)
        except BaseException as error:
            found.set_exception(error)
        finally:
            with self._lock:
                del self._reading[key]
