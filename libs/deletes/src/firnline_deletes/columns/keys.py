"""Equality-key columns: which types are legal, how a file's column becomes the table's type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline_deletes.columns.fields import arrow_schema, leaf_path, plain_type
from firnline_deletes.columns.name_mapping import has_ids
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.unsupported_files import UnsupportedFile


@dataclass(frozen=True)
class KeyField:
    """One equality column: its Iceberg field id and the type the table gives it *now*.

    A column that has been dropped keeps the type of the last schema that had it; its deletes still
    apply (Iceberg #15268). A negative id -n is no column: it says whether struct n is NULL, see
    `of_struct`.
    """

    id: int
    type: pa.DataType

    @classmethod
    def of_struct(cls, number: int) -> KeyField:
        """Return the key that stands next to every key inside a struct: Java compares keys as
        nested rows, where a NULL struct is not equal to a struct of NULLs
        (`Comparators.forType`)."""
        return cls(-number, pa.bool_())

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", plain_type(self.type))


def canonical_order(fields: Sequence[KeyField]) -> tuple[KeyField, ...]:
    """Return key columns in id order, so that one set never depends on a file's order (Iceberg
    #13873).

    Refused: float_key, key_type."""
    for field in fields:
        if pa.types.is_floating(field.type):
            raise UnsupportedFile("float_key", f"field id {field.id}: {field.type}")
        if not is_key_type(field.type):
            raise UnsupportedFile("key_type", f"field id {field.id}: {field.type}")
    return tuple(sorted(fields, key=lambda field: field.id))


def is_key_type(kind: pa.DataType) -> bool:
    """Return True for types of equality columns."""
    t = pa.types
    return bool(
        t.is_boolean(kind)
        or t.is_integer(kind)
        or t.is_date32(kind)
        or t.is_time64(kind)
        or t.is_timestamp(kind)
        or t.is_decimal(kind)
        or t.is_string(kind)
        or t.is_binary(kind)
        or t.is_fixed_size_binary(kind)
    )


def checksum_fields(target: TargetSchema) -> list[KeyField]:
    """Return the columns of `TargetSchema.proved`, and the structs that they lie in."""
    structs = {target.structs[number] for number in target.proved if number in target.structs}
    return [
        *(KeyField(number, _type_of(target.columns, number)) for number in target.proved),
        *(KeyField.of_struct(number) for number in sorted(structs)),
    ]


class KeyReader:
    """Reads only the key columns of one open Parquet file, in the table's types.

    A data file comes with the `target` that it is read in: a column that it lacks has the target's
    value in every row, else NULL. A delete file comes without: it must have its columns, and its
    field ids.
    """

    def __init__(
        self,
        file: pq.ParquetFile,
        keys: Sequence[KeyField],
        place: str,
        target: TargetSchema | None = None,
    ) -> None:
        self._file = file
        self._keys = keys
        self._place = place
        self._target = target or _NOTHING
        schema = self._target.with_ids(arrow_schema(file))
        if target is None and not has_ids(schema):
            raise UnsupportedFile("no_field_ids", f"{place}: a delete file")
        self._paths = _key_paths(schema, keys)
        for key in keys:
            if key.id > 0:
                self._check_key(schema, key)
        self._columns = leaf_columns(schema, _outermost_paths(self._paths.values()))
        self._batch_paths: dict[int, tuple[int, ...] | None] = {}

    def missing_ids(self) -> list[int]:
        """Return the ids of key columns that the file does not have."""
        return [number for number, path in self._paths.items() if path is None]

    @property
    def columns(self) -> list[str]:
        """Return dotted names of the columns to read; none if the file has no key column."""
        return self._columns

    def read_batches(self, rows: int, groups: Sequence[int]) -> Iterator[dict[int, pa.Array]]:
        """Read batches of at most `rows` rows: field id -> array, in the row groups' order."""
        if not self._columns:
            for group in groups:
                yield from self.default_batches(rows, self._file.metadata.row_group(group).num_rows)
            return
        for batch in self._file.iter_batches(
            rows, list(groups), columns=self._columns, use_threads=False
        ):
            yield self.key_arrays(batch)

    def key_arrays(self, batch: pa.RecordBatch) -> dict[int, pa.Array]:
        """Return field id -> array of a batch that was read with `columns`."""
        if not self._batch_paths:  # a batch has fewer columns than the file, so other positions
            schema = self._target.with_ids(batch.schema)
            self._batch_paths = _key_paths(schema, self._keys)
        known = [key for key in self._keys if self._batch_paths[key.id] is not None]
        read = {key.id: self._key_array(batch, key, self._batch_paths[key.id]) for key in known}
        return {
            key.id: read[key.id]
            if key.id in read
            else self._default_array(batch.num_rows, key, read)
            for key in self._keys
        }

    def default_batches(self, rows: int, of: int) -> Iterator[dict[int, pa.Array]]:
        """Yield `of` rows of a file without any key column, in batches of at most `rows`."""
        for start in range(0, of, rows):
            size = min(of - start, rows)
            yield {key.id: self._default_array(size, key, {}) for key in self._keys}

    def _key_array(self, batch: pa.RecordBatch, key: KeyField, path: Any) -> pa.Array:
        column = batch.column(path[0])
        if len(path) > 1:  # null parents make null leaves
            column = pc.struct_field(column, list(path[1:]))
        return as_kind(column, key.type) if key.id > 0 else column.is_null()

    def _default_array(self, rows: int, key: KeyField, read: Mapping[int, pa.Array]) -> pa.Array:
        if key.id < 0:
            return pa.repeat(True, rows)
        value = self._target.absent.get(key.id)
        struct = self._target.structs.get(key.id)
        is_null = None if struct is None else read.get(-struct)
        if value is None or (struct is not None and is_null is None):
            return pa.nulls(rows, key.type)
        column = as_kind(pa.repeat(value[0], rows), key.type)
        return column if is_null is None else pc.if_else(is_null, None, column)

    def _check_key(self, schema: pa.Schema, key: KeyField) -> None:
        path = self._paths[key.id]
        if path is None:
            self._check_absent(key)
            return
        kind = plain_type(_type_at(schema, path))
        if kind != key.type and not is_promotion(kind, key.type):
            raise UnsupportedFile(
                "type_differs", f"{self._place}: id {key.id} is {kind}, not {key.type}"
            )

    def _check_absent(self, key: KeyField) -> None:
        if key.id in self._target.unknown:
            raise UnsupportedFile("missing_partition_column", f"{self._place}: id {key.id}")


_NOTHING = TargetSchema(pa.schema([]))


def _key_paths(schema: pa.Schema, keys: Sequence[KeyField]) -> dict[int, tuple[int, ...] | None]:
    return {key.id: leaf_path(schema, abs(key.id)) for key in keys}


def _outermost_paths(paths: Iterable[tuple[int, ...] | None]) -> list[tuple[int, ...]]:
    """Return what is to be read: a struct only where nothing inside it is."""
    found = [path for path in paths if path is not None]
    return [p for p in found if not any(q != p and q[: len(p)] == p for q in found)]


def as_kind(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast, unless it is of that kind, or is a dictionary of values of that kind."""
    mine = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return column if mine == kind else column.cast(kind)


def is_promotion(old: pa.DataType, new: pa.DataType) -> bool:
    """Return True for the spec's type promotions: int -> long, float -> double, decimal(P, S) ->
    (P+, S).

    And the 8- and 16-bit integers of other writers. Not their milliseconds: Spark's reader takes
    these for microseconds where Iceberg's generic one does not (1.12.0)."""
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    return new in _WIDER.get(old, ())


_WIDER = {
    pa.int8(): (pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}


def leaf_columns(schema: pa.Schema, paths: Sequence[tuple[int, ...]]) -> list[str]:
    """Return the dotted Parquet names of Arrow paths through structs."""
    return [".".join(_dotted_names(schema, path)) for path in paths]


def _dotted_names(schema: pa.Schema, path: tuple[int, ...]) -> list[str]:
    field = schema.field(path[0])
    names = [field.name]
    for index in path[1:]:
        field = field.type.field(index)
        names.append(field.name)
    return names


def _type_of(schema: pa.Schema, number: int) -> pa.DataType:
    path = leaf_path(schema, number)
    if path is None:
        raise ValueError(f"no column has the id {number}")
    return _type_at(schema, path)


def _type_at(schema: pa.Schema, path: tuple[int, ...]) -> pa.DataType:
    kind = schema.field(path[0]).type
    for index in path[1:]:
        kind = kind.field(index).type
    return kind
