"""Position deletes, vectors and row maps that an attempt has read, cached for the next one: under a
writer that deletes every second, each attempt would read all that came since the rewrite began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from firnline_deletes.deletes import row_map
from firnline_deletes.deletes.positions import PositionDeleteReader, Positions
from firnline_deletes.deletes.row_map import RowMap
from firnline_deletes.deletes.vectors import Vector
from firnline_deletes.unsupported_files import Refused
from firnline_domain.base.values import replace
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.identity import normal_path
from firnline_iceberg.commit.pinned_head import Pinned
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.entry_cache import ENTRY_BYTES
from firnline_iceberg.storage.errors import unreachable
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.io import FileIO

T = TypeVar("T")
Named = Sequence[tuple[str, Positions]]


@dataclass(frozen=True)
class CachedReads(PositionDeleteReader):
    """A reader of position deletes that keeps what it reads in the table's cache, if it has one."""

    table: LoadedTable

    def named(self, path: str) -> Named:
        return self._kept(
            ("named", path), lambda: tuple(super(CachedReads, self).named(path)), _rows
        )

    def of_vector(self, vector: Vector) -> Positions:
        key = ("vector", vector.path, vector.offset)
        return self._kept(key, lambda: super(CachedReads, self).of_vector(vector), _entries)

    def row_map(self, path: str, read: Callable[[], RowMap]) -> RowMap:
        """Return a row map by its path."""
        return self._kept(("row map", path), read, _rows_lost)

    def _kept(self, key: tuple[object, ...], read: Callable[[], T], size: Callable[[T], int]) -> T:
        if self.table.cache is None:
            return read()
        return self.table.cache.get_weighed((self.table.identity.key, *key), read, size)


def cached_reads_of(table: LoadedTable) -> CachedReads:
    """Return a cached reader of a table's position deletes."""
    return CachedReads(lambda path: table.io.new_input(path).open(), normal_path, table)


def _entries(*arrays: Positions) -> int:
    """Return the size of the arrays, in manifest entries."""
    return sum(array.nbytes for array in arrays) // ENTRY_BYTES


def _rows(named: Named) -> int:
    return len(named) + _entries(*(positions for _, positions in named))


def _rows_lost(rows: RowMap) -> int:
    return len(rows) + _entries(*(a for one in rows.values() for a in (one.masked, one.marked)))


class RowMapGone(Exception):
    """The result's row map does not exist any more."""


def rows_of(at: Pinned, path: str | None) -> RowMap:
    """Read a row map. Raises RowMapGone, ValueError, Refused, OSError."""
    if path is None:
        raise RowMapGone("the result names none")
    read = partial(row_map.read, place=path)
    return cached_reads_of(at.table).row_map(path, lambda: read(_whole(at.table.io, path)))


def _whole(io: FileIO, path: str) -> bytes:
    try:
        with io.new_input(path).open() as source:
            return bytes(source.read())
    except FileNotFoundError as error:
        raise RowMapGone(path) from error


def made(make: Callable[[], T | Conflict], otherwise: Conflict) -> T | Conflict:
    """Return the result of `make`, or `otherwise` with the reason why it fails. Raises RetryLater
    if the storage does not answer, MetadataFileGone if a delete file of the head is missing."""
    try:
        return make()
    except (RowMapGone, ValueError, Refused) as error:
        return replace(otherwise, detail=f"{otherwise.detail}: {error}"[:1000])
    except FileNotFoundError as error:  # expired under our eyes: look at the table again
        raise MetadataFileGone(str(error)) from error
    except OSError as error:
        raise unreachable("storage", error) from error
