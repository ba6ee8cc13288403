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
from firnline_deletes.unsupported_files import UnsupportedFile
from firnline_domain.base.values import replace
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.identity import normal_path
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.entry_cache import ENTRY_BYTES
from firnline_iceberg.storage.errors import storage_error
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.io import FileIO

T = TypeVar("T")
Named = Sequence[tuple[str, Positions]]


@dataclass(frozen=True)
class CachedReads(PositionDeleteReader):
    """A reader of position deletes that keeps what it reads in the table's cache, if it has one."""

    table: LoadedTable

    def read_file(self, path: str) -> Named:
        return self._read_cached(
            ("named", path), lambda: tuple(super(CachedReads, self).read_file(path)), _named_weight
        )

    def read_vector(self, vector: Vector) -> Positions:
        key = ("vector", vector.path, vector.offset)
        return self._read_cached(
            key, lambda: super(CachedReads, self).read_vector(vector), _array_weight
        )

    def row_map(self, path: str, read: Callable[[], RowMap]) -> RowMap:
        """Return a row map by its path."""
        return self._read_cached(("row map", path), read, _row_map_weight)

    def _read_cached(
        self, key: tuple[object, ...], read: Callable[[], T], size: Callable[[T], int]
    ) -> T:
        if self.table.cache is None:
            return read()
        return self.table.cache.get_weighed((self.table.identity.key, *key), read, size)


def cached_reads_of(table: LoadedTable) -> CachedReads:
    """Return a cached reader of a table's position deletes."""
    return CachedReads(lambda path: table.io.new_input(path).open(), normal_path, table)


def _array_weight(*arrays: Positions) -> int:
    """Return the bytes of the arrays, as a number of manifest entries."""
    return sum(array.nbytes for array in arrays) // ENTRY_BYTES


def _named_weight(named: Named) -> int:
    return len(named) + _array_weight(*(positions for _, positions in named))


def _row_map_weight(rows: RowMap) -> int:
    return len(rows) + _array_weight(
        *(a for one in rows.values() for a in (one.masked, one.marked))
    )


class RowMapGone(Exception):
    """The result's row map does not exist any more."""


def rows_of(at: PinnedHead, path: str | None) -> RowMap:
    """Read a row map. Raises RowMapGone, ValueError, Refused, OSError."""
    if path is None:
        raise RowMapGone("the result names none")
    read = partial(row_map.read_map, place=path)
    return cached_reads_of(at.table).row_map(path, lambda: read(_read_bytes(at.table.io, path)))


def _read_bytes(io: FileIO, path: str) -> bytes:
    try:
        with io.new_input(path).open() as source:
            return bytes(source.read())
    except FileNotFoundError as error:
        raise RowMapGone(path) from error


def make_or_conflict(make: Callable[[], T | Conflict], otherwise: Conflict) -> T | Conflict:
    """Return the result of `make`, or `otherwise` with the reason why it fails. Raises RetryLater
    if the storage does not answer, MetadataFileGone if a delete file of the head is missing."""
    try:
        return make()
    except (RowMapGone, ValueError, UnsupportedFile) as error:
        return replace(otherwise, detail=f"{otherwise.detail}: {error}"[:1000])
    except FileNotFoundError as error:  # expired under our eyes: look at the table again
        raise MetadataFileGone(str(error)) from error
    except OSError as error:
        raise storage_error("storage", error) from error
