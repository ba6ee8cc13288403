"""Record where the rows of replaced files went: the keep masks of a rewrite, kept until its commit.

Rows keep their order from the inputs to the outputs of a group. So what a position delete that came
meanwhile says of an old file can be said of the new ones: row n of an input is the k-th row that
lives, and the k-th row lies in the output that the outputs' row counts say.

A map is a Puffin file with two vectors for each input that lost rows: all that were masked, and of
these the ones that position deletes or deletion vectors had named when the rewrite was planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from firnline_deletes.deletes import vectors
from firnline_deletes.files import puffin

Positions = npt.NDArray[np.int64]
NONE: Positions = np.empty(0, dtype=np.int64)
_MASKED, _MARKED = "firnline-masked-v1", "firnline-marked-v1"
_FILE = "referenced-data-file"


@dataclass
class MaskedRows:
    """Collects the masked rows of a group's inputs, as Roaring bitmaps, while they are read."""

    found: dict[str, BitMap64] = field(default_factory=dict)

    def add_group(self, path: str, start: int, keep: npt.NDArray[np.bool_] | None) -> None:
        """Note which rows of `path` from `start` on live; None = all."""
        if keep is None or keep.all():
            return
        rows = self.found.setdefault(path, BitMap64())
        if keep.any():
            rows |= vectors.to_bitmap(np.flatnonzero(~keep) + start)
        else:
            rows.add_range(start, start + len(keep))

    def to_blobs(self) -> dict[str, bytes]:
        """Return the masks by path, as they go into the map."""
        return {path: vectors.encode_positions(rows) for path, rows in self.found.items()}


@dataclass(frozen=True)
class Lost:
    """Rows of one input that are in no output: positions, ascending. `marked` lies in `masked`."""

    masked: Positions
    marked: Positions


NOTHING = Lost(NONE, NONE)
RowMap = Mapping[str, Lost]
"""By path of the input, as the result has it. An input that is missing lost no row."""


def write_map(sink: Any, masked: Mapping[str, bytes], marked: Mapping[str, Positions]) -> int:
    """Write a row map to `sink`, which stays open, and return its bytes. `masked`: from
    `MaskedRows.to_blobs`."""
    named = {path: vectors.to_bitmap(rows) for path, rows in marked.items() if len(rows)}
    blobs = [_to_blob(_MASKED, path, blob) for path, blob in masked.items()]
    blobs += [
        _to_blob(_MARKED, path, vectors.encode_positions(rows)) for path, rows in named.items()
    ]
    return puffin.write_puffin(sink, blobs, "Firnline").bytes


def _to_blob(kind: str, path: str, payload: bytes) -> puffin.Blob:
    return puffin.Blob(kind, payload, (vectors.ROW_POSITION_ID,), {_FILE: path})


def read_map(data: bytes, place: str) -> RowMap:
    """Read the map in a whole file. Raises ValueError, Refused if it is none, or damaged."""
    found: dict[str, dict[str, Positions]] = {}
    for blob in puffin.read_blobs(data, place):
        rows = vectors.decode_positions(blob.payload, place)
        found.setdefault(blob.properties[_FILE], {})[blob.kind] = rows
    return {
        path: Lost(kinds.get(_MASKED, NONE), kinds.get(_MARKED, NONE))
        for path, kinds in found.items()
    }


@dataclass(frozen=True)
class Moves:
    """Moves of the rows of one group. `outputs`: rows of each output, in order."""

    rows: Mapping[str, Lost]
    starts: Mapping[str, int]  # path of input -> living rows in the inputs before it
    ends: Sequence[int]  # living rows up to the end of each output

    @classmethod
    def from_map(
        cls, rows: RowMap, inputs: Sequence[tuple[str, int]], outputs: Iterable[int]
    ) -> Moves:
        """Match a map to the inputs: (path, rows) in the order read. ValueError where the numbers
        do not add up."""
        lost = {path: rows.get(path, NOTHING) for path, _ in inputs}
        living = [records - len(lost[path].masked) for path, records in inputs]
        starts = [0, *accumulate(living)]
        ends = list(accumulate(outputs))
        if starts[-1] != (ends[-1] if ends else 0):
            raise ValueError(f"the map has {starts[-1]} living rows, the outputs {ends[-1:]}")
        paths = [path for path, _ in inputs]
        return cls(lost, dict(zip(paths, starts, strict=False)), ends)

    def living_positions(self, path: str, positions: Positions) -> Positions:
        """Return those of distinct ascending `positions` of an input that are in an output."""
        return np.setdiff1d(positions, self.rows[path].masked, assume_unique=True)

    def move_positions(self, path: str, positions: Positions) -> Iterator[tuple[int, Positions]]:
        """Yield (number of the output, positions there, ascending) of living rows of one input."""
        masked_before = np.searchsorted(self.rows[path].masked, positions)
        places = self.starts[path] + positions - masked_before
        owners = np.searchsorted(self.ends, places, side="right")
        for owner in np.unique(owners).tolist():
            first = self.ends[owner - 1] if owner else 0
            yield owner, places[owners == owner] - first
