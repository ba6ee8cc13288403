"""Position deletes, vectors and row maps that a try has read, kept for the next one: under a writer
that deletes every second, each try would read all that came since the rewrite began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from firnline_deletes.positions import PositionDeleteReader, Positions
from firnline_deletes.row_map import RowMap
from firnline_deletes.vectors import Vector
from firnline_domain.identity import normal_path
from firnline_iceberg.file_cache import ENTRY_BYTES
from firnline_iceberg.tables import LoadedTable

T = TypeVar("T")
Named = Sequence[tuple[str, Positions]]


@dataclass(frozen=True)
class KeptMarks(PositionDeleteReader):
    """Keeps what it reads in the table's cache, if it has one."""

    table: LoadedTable

    def named(self, path: str) -> Named:
        """See `PositionDeleteReader.named`."""
        return self._kept(("named", path), lambda: tuple(super(KeptMarks, self).named(path)), _rows)

    def of_vector(self, vector: Vector) -> Positions:
        """See `PositionDeleteReader.of_vector`."""
        key = ("vector", vector.path, vector.offset)
        return self._kept(key, lambda: super(KeptMarks, self).of_vector(vector), _entries)

    def row_map(self, path: str, read: Callable[[], RowMap]) -> RowMap:
        """A row map by its path."""
        return self._kept(("row map", path), read, _rows_lost)

    def _kept(self, key: tuple[object, ...], read: Callable[[], T], size: Callable[[T], int]) -> T:
        if self.table.cache is None:
            return read()
        return self.table.cache.get_weighed((self.table.identity.uuid, *key), read, size)


def marks_of(table: LoadedTable) -> KeptMarks:
    """Reads what is said in a table."""
    return KeptMarks(lambda path: table.io.new_input(path).open(), normal_path, table)


def _entries(*arrays: Positions) -> int:
    """As large as so many manifest entries."""
    return sum(array.nbytes for array in arrays) // ENTRY_BYTES


def _rows(named: Named) -> int:
    return len(named) + _entries(*(positions for _, positions in named))


def _rows_lost(rows: RowMap) -> int:
    return len(rows) + _entries(*(a for one in rows.values() for a in (one.masked, one.marked)))
