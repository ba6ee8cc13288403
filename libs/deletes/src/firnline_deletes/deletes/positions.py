"""Position deletes of a scope, grouped per data file, as one immutable mapped file.

A position delete applies to a data file it names when data.seq <= delete.seq (spec "Scan
Planning"); a deletion vector takes the place of all position-delete files of its data file. A
position-delete file names a data file as its manifest does (spec "Position Delete Files"); readers
compare the text. Another spelling of the same file is refused: some reader may see those rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.columns.fields import leaf_path
from firnline_deletes.columns.keys import leaf_columns
from firnline_deletes.deletes.vectors import Vector, read_positions
from firnline_deletes.files.parquet import Open, SequencedFile, open_parquet
from firnline_deletes.unsupported_files import UnsupportedFile

FILE_PATH_ID, POS_ID = 2147483546, 2147483545  # reserved ids, spec "Reserved Field IDs"
_READ_ROWS = 1 << 20
_RANGES = b"firnline.ranges"

Positions = npt.NDArray[np.int64]
Normal = Callable[[str], str]


def position_set_id(
    scope: str,
    data: Iterable[SequencedFile],
    deletes: Iterable[SequencedFile],
    vectors: Iterable[Vector] = (),
) -> str:
    """Identify a position set by the exact lists that it was built from and for (stale-set hazard,
    H9)."""
    lists = [sorted([f.path, f.sequence_number] for f in files) for files in (data, deletes)]
    blobs = sorted([v.path, v.offset, v.size, v.data_file, v.sequence_number] for v in vectors)
    what = json.dumps([scope, *lists, blobs], separators=(",", ":"))
    return hashlib.sha256(what.encode()).hexdigest()


@dataclass(frozen=True)
class PositionSet:
    """Sorted distinct dead positions per data file. `ranges`: normal path -> [start, end)."""

    ranges: Mapping[str, tuple[int, int]]
    positions: Positions
    normal: Normal

    def __len__(self) -> int:
        return len(self.positions)

    def positions_in(self, path: str) -> Positions:
        """Return the dead row positions of one data file, ascending; empty if it has none."""
        start, end = self.ranges.get(self.normal(path), (0, 0))
        return self.positions[start:end]

    def write_to(self, path: Path) -> None:
        """Publish atomically; the ranges travel in the file's schema."""
        ranges = json.dumps({name: list(span) for name, span in self.ranges.items()})
        schema = pa.schema([("pos", pa.int64())], metadata={_RANGES: ranges.encode()})
        part = path.with_suffix(".part")
        with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(
                pa.RecordBatch.from_arrays([pa.array(self.positions)], schema=schema)
            )
        part.rename(path)


def open_mapped(path: Path, normal: Normal) -> PositionSet:
    with pa.ipc.open_file(pa.memory_map(str(path))) as reader:
        raw = json.loads(reader.schema.metadata[_RANGES])
        positions = reader.get_batch(0).column(0).to_numpy()
    return PositionSet({name: (a, b) for name, (a, b) in raw.items()}, positions, normal)


@dataclass(frozen=True)
class PositionDeleteReader:
    """Reads what position-delete files and deletion vectors say."""

    open_file: Open
    normal: Normal

    def read_file(self, path: str) -> Iterable[tuple[str, Positions]]:
        """Read a position-delete file: paths of data files as they stand there, each perhaps
        several times, and positions in them. Refused unreadable_file, no_field_ids."""
        with open_parquet(self.open_file, path) as parquet:
            yield from _split_by_path(parquet, path)

    def read_vector(self, vector: Vector) -> Positions:
        """Read a deletion vector (`vectors.read`)."""
        return read_positions(vector, self.open_file)


def build_position_set(
    deletes: Iterable[SequencedFile],
    data: Iterable[SequencedFile],
    open_file: Open,
    normal: Normal,
    vectors: Iterable[Vector] = (),
) -> PositionSet:
    """Read vectors and position-delete files, keep what applies to the given data files."""
    return collect_positions(deletes, data, PositionDeleteReader(open_file, normal), vectors)


def collect_positions(
    deletes: Iterable[SequencedFile],
    data: Iterable[SequencedFile],
    reader: PositionDeleteReader,
    vectors: Iterable[Vector] = (),
) -> PositionSet:
    """Build a set of what `reader` reads, or has read before. Refused another_spelling."""
    normal = reader.normal
    spelling = {normal(file.path): file.path for file in data}
    sequence_of = {normal(file.path): file.sequence_number for file in data}
    found: dict[str, list[Positions]] = {}
    for vector in vectors:
        path = normal(vector.data_file)
        if sequence_of.pop(path, vector.sequence_number + 1) <= vector.sequence_number:
            found[path] = [reader.read_vector(vector)]
    for file in deletes:
        for name, positions in reader.read_file(file.path):
            path = normal(name)
            if sequence_of.get(path, file.sequence_number + 1) <= file.sequence_number:
                if name != spelling[path]:
                    raise UnsupportedFile(
                        "another_spelling", f"{file.path}: {name}, not {spelling[path]}"
                    )
                found.setdefault(path, []).append(positions)
    return _join_positions(
        {path: np.unique(np.concatenate(p)) for path, p in found.items()}, normal
    )


def _join_positions(per_path: Mapping[str, Positions], normal: Normal) -> PositionSet:
    ranges: dict[str, tuple[int, int]] = {}
    start = 0
    for path, positions in per_path.items():
        ranges[path] = (start, start + len(positions))
        start += len(positions)
    arrays: Sequence[Positions] = list(per_path.values())
    everything = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
    return PositionSet(ranges, everything, normal)


def _split_by_path(parquet: pq.ParquetFile, place: str) -> Iterable[tuple[str, Positions]]:
    """Yield (data file, positions) of a position-delete file, batch by batch: a data file may come
    several times."""
    columns = columns_of(parquet, place)
    for batch in parquet.iter_batches(_READ_ROWS, columns=columns):
        names = batch.column(columns[0]).dictionary_encode()
        positions = batch.column(columns[1]).to_numpy()
        codes = names.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
        for code, name in enumerate(names.dictionary.to_pylist()):
            yield name, positions[order[bounds[code] : bounds[code + 1]]]


def columns_of(parquet: pq.ParquetFile, place: str) -> list[str]:
    """Return the names of the columns with the paths and the positions. Refused no_field_ids."""
    schema = parquet.schema_arrow
    paths = [leaf_path(schema, FILE_PATH_ID), leaf_path(schema, POS_ID)]
    if None in paths:
        raise UnsupportedFile(
            "no_field_ids", f"{place}: not a position-delete file by its field ids"
        )
    return leaf_columns(schema, [path for path in paths if path is not None])
