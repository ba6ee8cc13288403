"""Many files of a store, in columns: as single values a million of them take 4 s of CPU to make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]


class ListedObject(NamedTuple):
    """`place`: below the table's location, without a slash in front; of an object that was just
    listed its key. `stored_at_ms`: by the storage's clock."""

    place: str
    bytes: int
    stored_at_ms: int


@dataclass(frozen=True, eq=False)
class StoredFiles:
    """A page of a listing, a directory, a batch of an inventory. Of equal length."""

    places: Sequence[str]
    bytes: Sequence[int]
    stored_at_ms: Times

    def __iter__(self) -> Iterator[ListedObject]:
        times = self.stored_at_ms.tolist()
        yield from map(ListedObject, self.places, self.bytes, times)

    def __len__(self) -> int:
        return len(self.places)

    def file_at(self, number: int) -> ListedObject:
        return ListedObject(self.places[number], self.bytes[number], int(self.stored_at_ms[number]))

    def take_first(self, many: int) -> StoredFiles:
        """Return the first `many` files."""
        return StoredFiles(self.places[:many], self.bytes[:many], self.stored_at_ms[:many])

    def files_below(self, root: str) -> StoredFiles:
        """Return files by their places below `root`, with which all keys begin; without marks that
        stand for a folder."""
        length = len(root)
        some = self
        if marks := {n for n, key in enumerate(self.places) if key[-1:] == "/"}:
            some = self._select([n for n in range(len(self)) if n not in marks])
        return StoredFiles([key[length:] for key in some.places], some.bytes, some.stored_at_ms)

    def _select(self, numbers: Sequence[int]) -> StoredFiles:
        places, sizes = [self.places[n] for n in numbers], [self.bytes[n] for n in numbers]
        return StoredFiles(places, sizes, self.stored_at_ms[numbers])

    @classmethod
    def from_files(cls, files: Sequence[ListedObject]) -> StoredFiles:
        """Build it of a few files."""
        times = np.array([one.stored_at_ms for one in files], dtype=np.int64)
        return cls([one.place for one in files], [one.bytes for one in files], times)
