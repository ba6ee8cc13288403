"""Columns of another shape than the table's: rebuilt level by level, by field id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from firnline_deletes.fields import children, field_id, indices_by_id, is_list, normal
from firnline_deletes.keys import promotes
from firnline_deletes.refusals import Refused
from firnline_deletes.shape import Shape

Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Matcher:
    """Matches the fields of one file, whose place is named in refusals, to those of the table.

    `mapped`: the file's ids come from a name mapping, so members without one are not columns.
    """

    shape: Shape
    place: str
    mapped: bool

    def absent(self, field: pa.Field) -> Callable[[int], pa.Array]:
        """Rows -> the values of a column that the file lacks."""
        number = field_id(field)
        if number in self.shape.unknown:
            raise Refused("missing_partition_column", f"{self.place}: id {number} {field.name}")
        value = self.shape.absent.get(number) if number is not None else None
        if value is not None:
            one = value[0]
            return lambda rows: _as(pa.repeat(one, rows), field.type)
        if not field.nullable:
            raise Refused("missing_required", f"{self.place}: id {number} {field.name}")
        return lambda rows: pa.nulls(rows, field.type)

    def convert(self, mine: pa.Field, table: pa.Field) -> Convert:
        """What makes a column of the table's type out of one of the file's.

        Refused: type_differs, missing_required, no_field_ids, duplicate_field_ids.
        """
        old, new = mine.type, table.type
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            return _from(old, self._struct(old, new))
        if pa.types.is_map(old) and pa.types.is_map(new):
            return _from(old, self._map(old, new))
        if is_list(old) and is_list(new):
            return _from(old, self._list(old, new))
        self._check_leaf(mine, table)
        return lambda column: _as(column, new)

    def _check_leaf(self, mine: pa.Field, table: pa.Field) -> None:
        old, new = normal(mine.type), normal(table.type)
        nested = children(mine.type) or children(table.type)
        if nested or (old != new and not promotes(old, new)):
            raise Refused("type_differs", f"{self.place}: {table.name} is {old}, not {new}")

    def _struct(self, old: pa.DataType, new: pa.DataType) -> Convert:
        members = children(old)
        at = indices_by_id(members, self.place, partly=self.mapped)
        wanted = children(new)
        parts = [self._member(members, at, field) for field in wanted]

        def make(column: pa.Array) -> pa.Array:
            mask = column.is_null() if column.null_count else None
            made = [part(column) for part in parts]
            return pa.StructArray.from_arrays(made, fields=wanted, mask=mask)

        return make

    def _member(self, members: list[pa.Field], at: dict[int, int], field: pa.Field) -> Convert:
        number = field_id(field)
        if number is None or number not in at:
            value = self.absent(field)
            return lambda column: value(len(column))
        index = at[number]
        self._check_nulls(members[index], field)
        convert = self.convert(members[index], field)
        return lambda column: convert(column.field(index))

    def _list(self, old: pa.DataType, new: pa.DataType) -> Convert:
        convert = self._same(old.value_field, new.value_field)
        return lambda column: _rebuilt(column, new, convert(column.values))

    def _map(self, old: pa.DataType, new: pa.DataType) -> Convert:
        key = self._same(old.key_field, new.key_field)
        item = self._same(old.item_field, new.item_field)
        fields = [new.key_field, new.item_field]

        def make(column: pa.Array) -> pa.Array:
            pairs = [key(column.keys), item(column.items)]
            return _rebuilt(column, new, pa.StructArray.from_arrays(pairs, fields=fields))

        return make

    def _same(self, mine: pa.Field, table: pa.Field) -> Convert:
        """The child of a list or map, which no evolution can replace."""
        if field_id(mine) is None:
            raise Refused("no_field_ids", f"{self.place}: {mine.name} of {table.name}")
        if field_id(mine) != field_id(table):
            raise Refused("type_differs", f"{self.place}: another {table.name}")
        self._check_nulls(mine, table)
        return self.convert(mine, table)

    def _check_nulls(self, mine: pa.Field, table: pa.Field) -> None:
        if mine.nullable and not table.nullable:
            raise Refused("missing_required", f"{self.place}: {table.name} may be NULL")


def same_shape(mine: pa.DataType, table: pa.DataType) -> bool:
    """Kind, members, ids, names and leaf types agree; a member may be stricter about NULL."""
    below, wanted = children(mine), children(table)
    if not below and not wanted:
        return bool(normal(mine) == normal(table))
    if normal(mine).id != normal(table).id or len(below) != len(wanted):
        return False
    return all(_same_member(a, b, mine) for a, b in zip(below, wanted, strict=True))


def _same_member(mine: pa.Field, table: pa.Field, parent: pa.DataType) -> bool:
    named = not pa.types.is_struct(parent) or mine.name == table.name
    nulls = table.nullable or not mine.nullable
    ids = field_id(mine) is not None and field_id(mine) == field_id(table)
    return named and nulls and ids and same_shape(mine.type, table.type)


def _from(old: pa.DataType, convert: Convert) -> Convert:
    """Dictionaries, views and 64-bit offsets, as Arrow's own schema may bring them, go first."""
    plain = normal(old)
    return lambda column: convert(_as(column, plain))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _rebuilt(column: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    """The same lists or maps over another child; `column.values` ignores the slice."""
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(
        kind, len(column), buffers, column.null_count, column.offset, [child]
    )
