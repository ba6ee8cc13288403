"""The delete set: each distinct equality key of a scope, with the highest sequence it died at.

A row of a data file with sequence number s is dead if set[key] > s (spec "Scan Planning"; strict).
Later deletes of a key subsume earlier ones within one scope and one equality-id set, so the maximum
is enough. The set is an immutable Arrow IPC file, sorted by a 64-bit index value: every task of
every process on a host memory-maps the same pages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firnline_deletes.fields import normal
from firnline_deletes.files import Open, SequencedFile, open_parquet
from firnline_deletes.hashing import index_values, is_narrow
from firnline_deletes.keys import KeyField, KeyReader, canonical
from firnline_deletes.refusals import Refused

INDEX, SEQUENCE = "index", "sequence"
_READ_ROWS = 1 << 20
_FOLD_ROWS = 1 << 22  # fold what is pending into the distinct keys at this many rows: bounds memory

Mask = npt.NDArray[np.bool_]


def identity(scope: str, keys: Sequence[KeyField], files: Iterable[SequencedFile]) -> str:
    """What a set *is*: scope, key ids and types, and the exact list of delete files (H9).

    `scope` names table uuid, spec and partition; two lists that differ in one file never share.
    """
    what = {
        "scope": scope,
        "keys": [[key.id, str(key.type)] for key in canonical(keys)],
        "files": sorted([file.path, file.sequence_number] for file in files),
    }
    return hashlib.sha256(json.dumps(what, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class DeleteSet:
    """Distinct keys, sorted by index value. Built by `build`, or mapped from a file."""

    keys: tuple[KeyField, ...]
    columns: tuple[pa.Array, ...]
    index: npt.NDArray[np.uint64]
    sequence: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def highest(self) -> int:
        """The highest sequence number of any key; below every data file's if the set is empty."""
        return int(self.sequence.max()) if len(self) else -1

    def dead(self, rows: Mapping[int, pa.Array], data_sequence: int) -> Mask:
        """True for each row whose key was deleted after `data_sequence`. `rows`: id -> array."""
        probe = [rows[key.id] for key in self.keys]
        values = index_values(probe)
        result = np.zeros(len(values), dtype=np.bool_)
        slots = np.searchsorted(self.index, values)
        pending = np.arange(len(values))
        while len(pending):
            inside = slots < len(self.index)
            pending, slots = pending[inside], slots[inside]
            found = self.index[slots] == values[pending]
            pending, slots = pending[found], slots[found]
            later = self.sequence[slots] > data_sequence
            self._mark(result, probe, pending[later], slots[later])
            slots = slots + 1  # another key may share the index value
        return result

    def _mark(
        self, result: Mask, probe: Sequence[pa.Array], rows: npt.NDArray[Any], slots: Any
    ) -> None:
        """Mark the candidates whose key really is the slot's key, NULL = NULL."""
        if not len(rows):
            return
        same = np.ones(len(rows), dtype=np.bool_)
        for mine, theirs in zip(probe, self.columns, strict=True):
            if _bits_decide(probe, mine, theirs):
                continue
            same &= _equal(mine.take(pa.array(rows)), theirs.take(pa.array(slots)))
        result[rows[same]] = True

    def write(self, path: Path) -> None:
        """Publish: written beside the target and renamed, so a reader never sees half a set."""
        names = [INDEX, SEQUENCE, *(str(key.id) for key in self.keys)]
        arrays = [pa.array(self.index), pa.array(self.sequence), *self.columns]
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        part = path.with_suffix(".part")
        with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        part.rename(path)


def open_mapped(path: Path) -> DeleteSet:
    """Map a published set read-only; its pages are shared by all processes that map it."""
    with pa.ipc.open_file(pa.memory_map(str(path))) as reader:
        batch = reader.get_batch(0)
    names = batch.schema.names[2:]
    columns = tuple(batch.column(name) for name in names)
    keys = tuple(
        KeyField(int(name), normal(column.type))
        for name, column in zip(names, columns, strict=True)
    )
    return DeleteSet(
        keys, columns, batch.column(INDEX).to_numpy(), batch.column(SEQUENCE).to_numpy()
    )


def build(files: Iterable[SequencedFile], keys: Sequence[KeyField], open_file: Open) -> DeleteSet:
    """Read only the key columns of the delete files; keep each distinct key's highest sequence.

    Memory is bound by the distinct keys, not by the rows of the delete files.
    Refused: float_key, key_type, key_in_collection, type_differs, delete_key_missing.
    """
    keys = canonical(keys)
    return _sorted(_fold(_tables(files, keys, open_file), keys), keys)


def _tables(
    files: Iterable[SequencedFile], keys: tuple[KeyField, ...], open_file: Open
) -> Iterator[pa.Table]:
    for file in files:
        with open_parquet(open_file, file.path) as parquet:
            reader = KeyReader(parquet, keys, file.path)
            if reader.missing():
                raise Refused("delete_key_missing", f"{file.path}: {reader.missing()}")
            for arrays in reader.batches(_READ_ROWS, range(parquet.num_row_groups)):
                yield _table(arrays, keys, file.sequence_number)


def _table(
    arrays: Mapping[int, pa.Array], keys: tuple[KeyField, ...], sequence_number: int
) -> pa.Table:
    rows = len(arrays[keys[0].id])
    sequence = pa.array(np.full(rows, sequence_number, dtype=np.int64))
    named = {str(key.id): arrays[key.id] for key in keys}
    return pa.table({**named, SEQUENCE: sequence})


def _fold(tables: Iterable[pa.Table], keys: tuple[KeyField, ...]) -> pa.Table:
    names = [str(key.id) for key in keys]
    schema = pa.schema([*(pa.field(str(k.id), k.type) for k in keys), (SEQUENCE, pa.int64())])
    pending, waiting = [schema.empty_table()], 0
    for table in tables:
        pending.append(table)
        waiting += table.num_rows
        if waiting >= max(_FOLD_ROWS, pending[0].num_rows):
            pending, waiting = [_distinct(pending, names)], 0
    return _distinct(pending, names)


def _distinct(tables: list[pa.Table], names: list[str]) -> pa.Table:
    grouped = pa.concat_tables(tables).group_by(names).aggregate([(SEQUENCE, "max")])
    return grouped.rename_columns([*names, SEQUENCE])


def _sorted(table: pa.Table, keys: tuple[KeyField, ...]) -> DeleteSet:
    columns = [_whole(table.column(str(key.id))) for key in keys]
    values = index_values(columns)
    order = np.argsort(values, kind="stable")
    taken = tuple(column.take(pa.array(order)) for column in columns)
    sequence = table.column(SEQUENCE).to_numpy()[order]
    return DeleteSet(keys, taken, values[order], sequence)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array; strings with 64-bit offsets, for a set may hold more than 2 GiB of them."""
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    column = column.cast(wide.get(column.type, column.type))
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _bits_decide(probe: Sequence[pa.Array], mine: pa.Array, theirs: pa.Array) -> bool:
    """A single narrow column without NULLs on either side: equal index values are equal keys."""
    alone = len(probe) == 1 and is_narrow(mine.type)
    return alone and mine.null_count == 0 and theirs.null_count == 0


def _equal(mine: pa.Array, theirs: pa.Array) -> Mask:
    if mine.type != theirs.type:
        mine = mine.cast(theirs.type)
    both_null = pc.and_(mine.is_null(), theirs.is_null())
    same = pc.or_(pc.fill_null(pc.equal(mine, theirs), False), both_null)
    mask: Mask = same.to_numpy(zero_copy_only=False)
    return mask
