"""Builds a delete set: reads the key columns of delete files and keeps each distinct key's
highest sequence number. Memory is bound by the distinct keys, not by the rows of the files.

A set larger than memory is built in parts, one at a time: keys are spilled to disk by index value.
Each part is a set of its own; a row is dead if it is dead in any. Such parts are also probed one at
a time (`masks.masks_of_parts`), so that neither building nor probing holds more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firnline_deletes.columns.hash_table import Codes, Rows
from firnline_deletes.columns.hashing import index_values, is_exact
from firnline_deletes.columns.keys import KeyField, KeyReader, canonical_order
from firnline_deletes.columns.packing import equal_rows, join_parts, pack_column, unpack_column
from firnline_deletes.deletes.delete_set import DeleteSet, from_keys
from firnline_deletes.files.parquet import Open, SequencedFile, open_parquet
from firnline_deletes.unsupported_files import UnsupportedFile

_READ_ROWS = 1 << 20
_FOLD_ROWS = 1 << 21  # fold what is pending into the distinct keys at this many rows: bounds memory
_PART_READ_ROWS = 1 << 17  # rows in memory while they are divided among parts
_PART_FOLD_ROWS = 1 << 19
_CODE = "code"
_LOW = np.uint64(0xFFFF)  # the low bits choose the part, the high ones the slot in it


@dataclass(frozen=True)
class SequencedKeys:
    """Rows of key columns in canonical order, and per row the code of its sequence number."""

    columns: tuple[pa.Array, ...]
    codes: Codes

    def __len__(self) -> int:
        return len(self.codes)


def build_delete_set(
    files: Iterable[SequencedFile], keys: Sequence[KeyField], open_file: Open
) -> DeleteSet:
    """Read only the key columns of the delete files; keep each distinct key's highest sequence.

    Refused: float_key, key_type, key_in_collection, type_differs, delete_key_missing.
    """
    keys = canonical_order(keys)
    listed = sorted(files, key=lambda file: file.sequence_number)
    sequences = tuple(sorted({file.sequence_number for file in listed}))
    found = merge_keys(read_keys(listed, keys, sequences, open_file), keys)
    return from_keys(keys, found.columns, found.codes, sequences if len(found) else ())


def read_keys(
    files: Iterable[SequencedFile],
    keys: tuple[KeyField, ...],
    sequences: tuple[int, ...],
    open_file: Open,
    rows: int = _READ_ROWS,
) -> Iterator[SequencedKeys]:
    """Read batches of at most `rows` rows. `sequences`, ascending, is what the codes count."""
    for file in files:
        code = sequences.index(file.sequence_number) + 1
        with open_parquet(open_file, file.path) as parquet:
            reader = KeyReader(parquet, keys, file.path)
            if reader.missing_ids():
                raise UnsupportedFile("delete_key_missing", f"{file.path}: {reader.missing_ids()}")
            for arrays in reader.read_batches(rows, range(parquet.num_row_groups)):
                columns = tuple(pack_column(arrays[key.id]) for key in keys)
                yield SequencedKeys(columns, np.full(len(columns[0]), code, dtype=np.int32))


def merge_keys(
    batches: Iterable[SequencedKeys], keys: tuple[KeyField, ...], rows: int | None = None
) -> SequencedKeys:
    """Return the distinct keys of all batches, each with its highest code. At most `rows` rows
    wait to be merged, or as many as there are distinct keys."""
    pending, waiting = [_no_keys(keys)], 0
    for batch in batches:
        pending.append(batch)
        waiting += len(batch)
        if waiting >= max(rows or _FOLD_ROWS, len(pending[0])):
            pending, waiting = [_merge_equal(pending, keys)], 0
    return _merge_equal(pending, keys)


def _no_keys(keys: Sequence[KeyField]) -> SequencedKeys:
    return SequencedKeys(tuple(pa.array([], key.type) for key in keys), np.empty(0, dtype=np.int32))


def _merge_equal(batches: Sequence[SequencedKeys], keys: Sequence[KeyField]) -> SequencedKeys:
    """Merge batches to distinct keys, each with its highest code. Sorted by index value, equal keys
    are neighbours; if a run of one value holds several keys, a collision of 64 bits, group them
    exactly, which is slower."""
    columns = tuple(
        join_parts([batch.columns[i] for batch in batches], key.type) for i, key in enumerate(keys)
    )
    codes = np.concatenate([batch.codes for batch in batches])
    if not len(codes):
        return SequencedKeys(columns, codes)
    values = index_values(columns)
    order = np.argsort(values)
    values = values[order]
    first = np.append(True, values[1:] != values[:-1])
    if not is_exact(columns) and not _all_equal(columns, order, np.flatnonzero(~first)):
        return _group_equal(columns, codes)
    starts = np.flatnonzero(first)
    highest = np.maximum.reduceat(codes[order], starts)
    chosen = pa.array(order[starts])
    return SequencedKeys(tuple(column.take(chosen) for column in columns), highest)


def _all_equal(columns: Sequence[pa.Array], order: Rows, at: Rows) -> bool:
    """Return True if each row at a place of `at` has the key of its neighbour before it."""
    mine, theirs = pa.array(order[at]), pa.array(order[at - 1])
    return all(bool(equal_rows(c.take(mine), c.take(theirs)).all()) for c in columns)


def _group_equal(columns: Sequence[pa.Array], codes: Codes) -> SequencedKeys:
    names = [str(i) for i in range(len(columns))]
    table = pa.table([*columns, pa.array(codes)], names=[*names, "code"])
    grouped = table.group_by(names).aggregate([("code", "max")])
    kept = tuple(grouped.column(name).combine_chunks() for name in names)
    return SequencedKeys(kept, grouped.column("code_max").to_numpy())


def build_parts(
    files: Sequence[SequencedFile],
    keys: Sequence[KeyField],
    open_file: Open,
    folder: Path,
    parts: int,
) -> list[Path]:
    """Write the set of these delete files to `folder`, as so many parts; their paths.

    The delete files are read once. Raises as `build`.
    """
    paths = [folder / f"{number}.arrow" for number in range(parts)]
    if parts == 1:
        build_delete_set(files, keys, open_file).write_to(paths[0])
        return paths
    keys = canonical_order(keys)
    sequences = tuple(sorted({file.sequence_number for file in files}))
    spilled = [folder / f"{number}.spill" for number in range(parts)]
    _spill_keys(read_keys(files, keys, sequences, open_file, _PART_READ_ROWS), keys, spilled)
    for path, spill in zip(paths, spilled, strict=True):
        found = merge_keys(_read_spill(spill), keys, _PART_FOLD_ROWS)
        from_keys(keys, found.columns, found.codes, sequences if len(found) else ()).write_to(path)
        spill.unlink()
    return paths


def _spill_keys(
    batches: Iterator[SequencedKeys], keys: tuple[KeyField, ...], spilled: Sequence[Path]
) -> None:
    """Write the keys to one Arrow stream for each part, by their hashes."""
    fields = [
        pa.field(str(key.id), unpack_column(pa.array([], key.type), key.type).type) for key in keys
    ]
    schema = pa.schema([*fields, pa.field(_CODE, pa.int32())])
    with ExitStack() as open_files:
        writers = [
            open_files.enter_context(pa.ipc.new_stream(_open_spill(open_files, path), schema))
            for path in spilled
        ]
        for keys_read in batches:
            columns = [
                unpack_column(column, key.type)
                for column, key in zip(keys_read.columns, keys, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays([*columns, pa.array(keys_read.codes)], schema=schema)
            for number, rows in enumerate(_rows_by_part(keys_read, len(writers))):
                writers[number].write_batch(batch.take(pa.array(rows)))


def _open_spill(open_files: ExitStack, path: Path) -> pa.NativeFile:
    return open_files.enter_context(pa.OSFile(str(path), "wb"))


def _rows_by_part(batch: SequencedKeys, parts: int) -> list[npt.NDArray[np.intp]]:
    """Return the rows of each part. Equal keys have equal index values, so they are in one part."""
    chosen = ((index_values(batch.columns) & _LOW) * np.uint64(parts)) >> np.uint64(16)
    order = np.argsort(chosen, kind="stable")
    return np.split(order, np.searchsorted(chosen[order], np.arange(1, parts)))


def _read_spill(path: Path) -> Iterator[SequencedKeys]:
    with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield SequencedKeys(tuple(batch.columns[:-1]), batch.column(_CODE).to_numpy())
