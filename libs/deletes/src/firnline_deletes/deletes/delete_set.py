"""The delete set: each distinct equality key of a scope, with the highest sequence it died at.

A row of a data file with sequence number s is dead if set[key] > s (spec "Scan Planning"; strict).
Later deletes of a key subsume earlier ones within one scope and one equality-id set, so the maximum
is enough. The set is an immutable Arrow IPC file: every task of every process on a host
memory-maps the same pages.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firnline_deletes.columns.hash_table import EMPTY, Codes, HashTable, Rows, laid_out
from firnline_deletes.columns.hashing import BLOCK_ROWS, Hashes, index_values, is_exact, is_narrow
from firnline_deletes.columns.keys import KeyField, canonical_order
from firnline_deletes.columns.packing import (
    Mask,
    decode_dictionary,
    equal_rows,
    is_varlen,
    pack_column,
    to_mask,
    unpack_column,
)
from firnline_deletes.files.parquet import SequencedFile

INDEX, CODE = "index", "code"
_ABOUT, _KEYS = b"firnline.set", b"firnline.keys"


def delete_set_id(scope: str, keys: Sequence[KeyField], files: Iterable[SequencedFile]) -> str:
    """Identify a set by its content: scope, key ids and types, and the exact list of delete files
    (stale-set hazard, H9).

    `scope` names table key, spec and partition; two lists that differ in one file never share."""
    what = {
        "scope": scope,
        "keys": [[key.id, str(key.type)] for key in canonical_order(keys)],
        "files": sorted([file.path, file.sequence_number] for file in files),
    }
    return hashlib.sha256(json.dumps(what, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class DeleteSet:
    """Distinct keys of one scope and equality-id set. Made by `from_keys`, or mapped from a file.

    `constants`: key columns that have one value in the whole set, mostly the partition's, as
    arrays of that one; they are compared, not stored per key. `columns`: what else must be
    compared, a value per slot; none if the index value alone decides. `null_code`: code of the
    NULL key where it does.
    """

    keys: tuple[KeyField, ...]
    sequences: tuple[int, ...]  # ascending; code c stands for sequences[c - 1]
    slots: HashTable
    constants: Mapping[int, pa.Array] = field(default_factory=dict)
    columns: Mapping[int, pa.Array] = field(default_factory=dict)
    null_code: int = EMPTY
    count: int = 0

    def __len__(self) -> int:
        return self.count

    @property
    def highest_sequence(self) -> int:
        """Return the highest sequence number of any key; below every data file's if the set is
        empty."""
        return self.sequences[-1] if self.sequences else -1

    @property
    def probed_columns(self) -> tuple[int, ...]:
        """Return the ids of the columns whose values are looked up, by their hashes."""
        return tuple(key.id for key in self.keys if key.id not in self.constants)

    def find_deleted(
        self, rows: Mapping[int, pa.Array], data_sequence: int, known: Hashes | None = None
    ) -> Mask:
        """Return True for each row whose key was deleted with a sequence number above
        `data_sequence`. `rows`: field id -> array. `known`: the hashes of the rows' values in
        `probed_columns` (`hashing.index_values`); None = hash them here."""
        result = np.zeros(len(rows[self.keys[0].id]), dtype=np.bool_)
        after = int(np.searchsorted(self.sequences, data_sequence, side="right"))
        if after < len(self.sequences):
            for start in range(0, len(result), BLOCK_ROWS):
                block = {key.id: rows[key.id].slice(start, BLOCK_ROWS) for key in self.keys}
                values = None if known is None else known[start : start + BLOCK_ROWS]
                self._mark_deleted(block, values, after, result[start : start + BLOCK_ROWS])
        return result

    def _mark_deleted(
        self, rows: Mapping[int, pa.Array], known: Hashes | None, after: int, result: Mask
    ) -> None:
        """Mark in `result` what has a code above `after`."""
        probe = {number: pack_column(rows[number]) for number in self.probed_columns}
        values = index_values(list(probe.values())) if known is None else known
        found, slots = self.slots.find_pairs(values)
        later = self.slots.codes[slots] > after
        self._mark_equal(result, probe, found[later], slots[later])
        if not self.columns:
            (only,) = probe.values()
            if only.null_count:
                result[to_mask(only.is_null())] = self.null_code > after
        for number, value in self.constants.items():
            result &= _equals_scalar(rows[number], value)

    def _mark_equal(
        self, result: Mask, probe: Mapping[int, pa.Array], rows: Rows, slots: Rows
    ) -> None:
        """Mark the candidates whose key really is the slot's key, NULL = NULL."""
        if len(rows) and self.columns:
            same = np.ones(len(rows), dtype=np.bool_)
            for number, theirs in self.columns.items():
                mine = decode_dictionary(probe[number].take(pa.array(rows)))
                same &= equal_rows(mine, theirs.take(pa.array(slots)))
            rows = rows[same]
        result[rows] = True

    def write_to(self, path: Path) -> None:
        """Publish the set: written next to the target and renamed, so a reader never sees half a
        set."""
        names = [INDEX, CODE, *(str(number) for number in self.columns)]
        arrays = [pa.array(self.slots.index), pa.array(self.slots.codes), *self.columns.values()]
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        batch = batch.replace_schema_metadata(self._schema_metadata())
        part = path.with_suffix(".part")
        with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        part.rename(path)

    def _schema_metadata(self) -> dict[bytes, bytes]:
        about = {
            "ids": [key.id for key in self.keys],
            "sequences": self.sequences,
            "homes": self.slots.homes,
            "unique": self.slots.unique,
            "constants": sorted(self.constants),
            "null_code": self.null_code,
            "count": self.count,
        }
        return {_ABOUT: json.dumps(about).encode(), _KEYS: _one_row(self.keys, self.constants)}


def open_mapped(path: Path) -> DeleteSet:
    """Map a published set read-only; its pages are shared by all processes that map it."""
    with pa.ipc.open_file(pa.memory_map(str(path))) as reader:
        batch, metadata = reader.get_batch(0), reader.schema.metadata
    about = json.loads(metadata[_ABOUT])
    row = pa.ipc.open_stream(base64.b64decode(metadata[_KEYS])).read_next_batch()
    constants = {number: row.column(str(number)) for number in about["constants"]}
    index, codes = batch.column(INDEX).to_numpy(), batch.column(CODE).to_numpy()
    return DeleteSet(
        keys=tuple(KeyField(n, row.schema.field(str(n)).type) for n in about["ids"]),
        sequences=tuple(about["sequences"]),
        slots=HashTable(index, codes, about["homes"], about["unique"]),
        constants=constants,
        columns={int(name): batch.column(name) for name in batch.schema.names[2:]},
        null_code=about["null_code"],
        count=about["count"],
    )


def _one_row(keys: Sequence[KeyField], constants: Mapping[int, pa.Array]) -> bytes:
    """Return the types of all keys and the values of the constant ones: an Arrow stream in
    base64."""
    arrays = [constants.get(key.id, pa.nulls(1, key.type)) for key in keys]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(key.id) for key in keys])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes())


def from_keys(
    keys: tuple[KeyField, ...],
    columns: Sequence[pa.Array],
    codes: Codes,
    sequences: tuple[int, ...],
) -> DeleteSet:
    """Build a set from distinct keys and the codes of their highest sequence numbers."""
    constants = _constant_columns(keys, columns)
    kept = {k.id: c for k, c in zip(keys, columns, strict=True) if k.id not in constants}
    null_code = EMPTY
    if len(kept) == 1 and is_narrow(next(iter(kept.values())).type):
        kept, codes, null_code = _without_null(kept, codes)
    values = index_values(list(kept.values()))
    order = np.argsort(values)
    layout = laid_out(values[order])
    slots = HashTable.from_values(values[order], codes[order], layout)
    stored = (
        {}
        if is_exact(list(kept.values()))
        else _spread_to_slots(kept, order, layout.slots, layout.size)
    )
    count = len(columns[0])
    return DeleteSet(keys, sequences, slots, constants, stored, null_code, count)


def _constant_columns(keys: Sequence[KeyField], columns: Sequence[pa.Array]) -> dict[int, pa.Array]:
    """Return the columns with one value and no NULL throughout; one column always stays a key."""
    found: dict[int, pa.Array] = {}
    for key, column in zip(keys, columns, strict=True):
        if len(found) < len(keys) - 1 and _one_value(column):
            found[key.id] = unpack_column(column.slice(0, 1), key.type)
    return found


def _one_value(column: pa.Array) -> bool:
    if len(column) < 2 or column.null_count:
        return False
    return bool(pc.all(pc.equal(column, column[0])).as_py())


def _without_null(
    kept: dict[int, pa.Array], codes: Codes
) -> tuple[dict[int, pa.Array], Codes, int]:
    """Return the column and codes without the NULL key, which has no bits of its own, and its
    highest code, or EMPTY without one."""
    ((number, column),) = kept.items()
    if not column.null_count:
        return kept, codes, EMPTY
    null = to_mask(column.is_null())
    return {number: column.drop_null()}, codes[~null], int(codes[null].max())


def _spread_to_slots(
    columns: Mapping[int, pa.Array], order: Rows, slots: Rows, size: int
) -> dict[int, pa.Array]:
    """Return the columns with a value per slot. Empty ones are never compared: NULL in columns of
    strings, which costs nothing; any value in others, which are faster without NULLs."""
    source = np.full(size, order[0] if len(order) else 0, dtype=np.int64)
    empty = np.ones(size, dtype=np.bool_)
    source[slots], empty[slots] = order, False
    some, none = pa.array(source), pa.array(source, mask=empty)
    return {
        number: column.take(none if is_varlen(column.type) or not len(column) else some)
        for number, column in columns.items()
    }


def _equals_scalar(column: pa.Array, value: pa.Array) -> Mask:
    return to_mask(pc.fill_null(pc.equal(decode_dictionary(column), value[0]), False))
