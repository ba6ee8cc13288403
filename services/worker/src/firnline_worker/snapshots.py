"""Live files of the snapshot that was planned last: the orders of one table come in bursts, one per
partition, and each would read every manifest again."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from firnline_iceberg.planning import LiveFiles, live_files
from firnline_iceberg.tables import LoadedTable

_MOST_FILES = 100_000  # about 100 MB; more than that is not kept


@dataclass
class Snapshots:
    """Safe for many threads; one reads while the others wait for it. A snapshot never changes."""

    _key: tuple[str, int] | None = None
    _kept: LiveFiles | None = None
    _lock: Lock = field(default_factory=Lock)

    def live(self, table: LoadedTable, snapshot_id: int) -> LiveFiles:
        """Raises as `live_files`."""
        key = (table.identity.uuid, snapshot_id)
        with self._lock:
            if self._kept is None or self._key != key:
                found = live_files(table, snapshot_id)
                if len(found.data) + len(found.deletes) > _MOST_FILES:
                    return found
                self._key, self._kept = key, found
            return self._kept
