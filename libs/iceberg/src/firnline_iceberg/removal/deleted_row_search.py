"""Find the files of a table that hold rows of a kind, deleted ones as well: the files themselves
are read, without the deletes that hide rows in them.

All retained snapshots count, whatever ref they are of, and the table's quarantine. Each file is
read: only its own schema and rows tell what it holds, not bounds, which others wrote, nor its
purpose. Delete files can hold whole rows. A file that cannot be told about counts as one that holds
such rows. Manifests hold values, too: as bounds, and as partition values."""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from firnline_deletes.deletes.vectors import BLOB_KIND
from firnline_deletes.files.puffin import read_footer
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from pyiceberg.conversions import from_json, to_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIsNaN,
    Or,
    visitors,
)
from pyiceberg.expressions.parser import parse
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import expression_to_pyarrow, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, IcebergType, NestedField, UUIDType

from firnline_iceberg.metadata.column_bounds import read_bound
from firnline_iceberg.metadata.entries import DeleteFileEntry, FileEntry
from firnline_iceberg.metadata.manifest_reader import Detail, ManifestFile
from firnline_iceberg.removal.orphan_quarantine import list_quarantined
from firnline_iceberg.scan.parquet_footers import field_id_of, fields_below
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import earlier_locations

_ROW_ID = 2147483544  # `row` of a position-delete file: the row that it deletes


class HolderKind(StrEnum):
    """Kinds of files that hold such rows."""

    DATA = "data file"
    DELETE = "delete file"
    QUARANTINED = "quarantined file"
    MANIFEST = "manifest"


@dataclass(frozen=True)
class Holder:
    """A file that holds such rows, or such values. `rows` None: it cannot be told how many, for the
    reason `why`. `refs`: whose heads have it; `snapshots`: how many have it. `visible`: the head of
    main has it, and no delete that applies to it."""

    path: str
    partition: str
    rows: int | None
    bytes: int
    refs: tuple[str, ...]
    snapshots: int
    kind: HolderKind = HolderKind.DATA
    visible: bool = False
    why: str = ""


@dataclass(frozen=True)
class RowCondition:
    """Rows of a kind: a condition as PyIceberg writes it, bound to the table's columns (`flat`),
    without NOT. `dropped`: ids of former columns with the name of one of its columns."""

    condition: BooleanExpression
    fields: Mapping[int, NestedField]
    flat: Schema
    dropped: frozenset[int] = frozenset()

    @property
    def column_ids(self) -> frozenset[int]:
        """Return their field ids."""
        return frozenset(self.fields)

    def possible_condition(self, known: Collection[int]) -> BooleanExpression:
        """Return the condition with all else than these columns taken as met: a row that does not
        meet it does not meet the condition."""
        return _partial_condition(self.condition, frozenset(known), AlwaysTrue())

    def certain_condition(self, known: Collection[int]) -> BooleanExpression:
        """Return the condition with all else than these columns taken as not met: values that meet
        it meet the condition."""
        return _partial_condition(self.condition, frozenset(known), AlwaysFalse())


def _partial_condition(
    one: BooleanExpression, known: frozenset[int], other: BooleanExpression
) -> BooleanExpression:
    return _change_leaves(
        one, lambda leaf: leaf if visitors.extract_field_ids(leaf) <= known else other
    )


def _change_leaves(
    one: BooleanExpression, change: Callable[[BooleanExpression], BooleanExpression]
) -> BooleanExpression:
    if isinstance(one, And | Or):
        return type(one)(_change_leaves(one.left, change), _change_leaves(one.right, change))
    return change(one)


def _with_nan(leaf: Any) -> Any:
    """Return a comparison that includes NaN if it is "above": Spark and Iceberg order NaN above all
    other numbers, Arrow does not."""
    is_above = isinstance(leaf, BoundGreaterThan | BoundGreaterThanOrEqual)
    if is_above and isinstance(leaf.term.ref().field.field_type, FloatType | DoubleType):
        return Or(leaf, BoundIsNaN(term=leaf.term))
    return leaf


def wanted_rows(table: LoadedTable, text: str) -> RowCondition:
    """Parse a condition on the table's columns. Raises TaskRefused `unreadable_condition`."""
    try:
        flat = _flat(table.schema)
        bound = visitors.rewrite_not(visitors.bind(flat, parse(text), case_sensitive=True))
        columns = {one: flat.find_field(one) for one in visitors.extract_field_ids(bound)}
    except Exception as error:  # the parser's own, and those of values that fit no column
        example = "write \"customer = 7 and day < '2026-01-01'\""
        raise TaskRefused("unreadable_condition", f"{text}: {error}; {example}") from error
    if not columns:
        raise TaskRefused("unreadable_condition", f"{text}: it names no column")
    names, own = {one.name for one in columns.values()}, {one.field_id for one in flat.fields}
    former = (one for schema in table.metadata.schemas for one in _flat(schema).fields)
    dropped = frozenset(one.field_id for one in former if one.name in names) - own
    return RowCondition(_change_leaves(bound, _with_nan), columns, flat, dropped)


def _flat(schema: Schema) -> Schema:
    """Return all columns that have values, also those within others, by their full names."""
    ids = [one for one in sorted(schema.field_ids) if schema.find_type(one).is_primitive]
    named = ((one, str(schema.find_column_name(one)), schema.find_type(one)) for one in ids)
    return Schema(*(NestedField(one, name, kind, required=False) for one, name, kind in named))


def find_holders(table: LoadedTable, wanted: RowCondition) -> list[Holder]:
    """Find them: data and delete files by path, then manifests, then the quarantine. Raises
    MetadataFileGone, RetryLater."""
    of_manifest = _snapshots_by_manifest(table)
    heads = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    found, having = dict[str, FileEntry](), defaultdict[str, set[int]](set)
    manifests = list[Holder]()
    for manifest, ids in of_manifest.items():
        saying = 0
        for entry in table.entries_of(manifest, Detail.STATS):
            saying += _metadata_matches(table, entry, wanted)
            if entry.is_live:
                found[entry.path] = entry
                having[entry.path] |= ids
        if saying:
            manifests.append(_manifest_holder(manifest, saying, _refs_of(heads, ids), len(ids)))
    bare = _paths_without_deletes(table, heads.get(MAIN))
    read = ((entry, _count_rows(table, entry, wanted)) for _, entry in sorted(found.items()))
    files = [
        Holder(
            entry.path,
            entry.partition,
            rows,
            entry.bytes,
            _refs_of(heads, having[entry.path]),
            len(having[entry.path]),
            HolderKind.DELETE if isinstance(entry, DeleteFileEntry) else HolderKind.DATA,
            entry.normal_path in bare,
            why,
        )
        for entry, (rows, why) in read
        if rows != 0
    ]
    return [*files, *manifests, *_search_quarantine(table, wanted)]


def _refs_of(heads: Mapping[str, int], ids: Collection[int]) -> tuple[str, ...]:
    return tuple(sorted(name for name, head in heads.items() if head in ids))


def _manifest_holder(
    manifest: ManifestFile, saying: int, refs: tuple[str, ...], snapshots: int
) -> Holder:
    return Holder(manifest.path, "", saying, manifest.length, refs, snapshots, HolderKind.MANIFEST)


def _search_quarantine(table: LoadedTable, wanted: RowCondition) -> Iterator[Holder]:
    """Search the quarantine of the table's location, and those of its earlier locations."""
    for location in (table.metadata.location, *earlier_locations(table)):
        storage = Storage(table, location)
        for _, file in sorted(list_quarantined(storage), key=lambda one: one[1].place):
            path = f"{storage.location}/{file.place}"
            rows, why = _rows_of_orphan(table, path, wanted)
            if rows != 0:
                yield Holder(path, "", rows, file.bytes, (), 0, HolderKind.QUARANTINED, why=why)


def _snapshots_by_manifest(table: LoadedTable) -> dict[Any, set[int]]:
    by_path, snapshots = dict[str, Any](), defaultdict[str, set[int]](set)
    for snapshot in table.snapshots:
        for manifest in table.manifests_of(snapshot):
            by_path[manifest.path] = manifest
            snapshots[manifest.path].add(snapshot.snapshot_id)
    return {by_path[path]: ids for path, ids in snapshots.items()}


def _paths_without_deletes(table: LoadedTable, head: int | None) -> Collection[str]:
    """Return the normal paths of the head's data files to which no delete applies."""
    live = live_files(table, head)
    return {one.normal_path for one in live.data if not live.delete_index.for_data_file(one)}


Counted = tuple[int | None, str]
"""Rows; None, and the reason, where they cannot be counted."""
HOLDS_NONE: Counted = (0, "")


def _count_rows(table: LoadedTable, entry: FileEntry, wanted: RowCondition) -> Counted:
    is_delete = isinstance(entry, DeleteFileEntry)
    if entry.format == "PUFFIN" and is_delete:
        return _look_into_puffin(table.io, entry.path)
    if entry.encrypted:
        return None, "it is encrypted"
    if entry.format != "PARQUET":
        return None, f"{entry.format} is not read"
    return _count_rows_in_file(table.io, entry.path, wanted, is_delete)


def _rows_of_orphan(table: LoadedTable, path: str, wanted: RowCondition) -> Counted:
    """Count the rows of a file that has its kind only in its name."""
    if path.endswith((".metadata.json", ".crc")):
        return HOLDS_NONE
    if path.endswith(".puffin"):
        return _look_into_puffin(table.io, path)
    if path.endswith(".parquet"):
        return _count_rows_in_file(table.io, path, wanted, is_delete=True)
    return None, "its format is not read"


def _look_into_puffin(io: FileIO, path: str) -> Counted:
    """Return no rows for a file of deletion vectors alone, which have positions."""
    try:
        with io.new_input(path).open() as source:
            kinds = {str(one["type"]) for one in read_footer(source, path)}
    except (*_UNREADABLE, KeyError) as error:
        return None, _unreadable_text(error)
    others = ", ".join(sorted(kinds - {BLOB_KIND}))
    return (None, f"it has {others}, which is not read") if others else HOLDS_NONE


def _count_rows_in_file(io: FileIO, path: str, wanted: RowCondition, is_delete: bool) -> Counted:
    """Count the rows of one Parquet file that meet the condition, deleted ones too, in every row
    group whatever its statistics. Return (None, why) if the file cannot tell: it cannot be read, or
    it is a data file without any of the columns, whose values are then in the partition or a
    default. A delete file (`is_delete`) without any of the columns holds none."""
    try:
        with io.new_input(path).open() as source:
            parquet = pq.ParquetFile(
                source, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False
            )
            places, ids = _find_columns(parquet.schema_arrow, wanted.column_ids)
            if None in ids:
                return None, "a column of it has no field id"
            if any(ids[one] > 1 for one in wanted.column_ids):
                return None, "it has a column twice"
            if wanted.dropped & ids.keys():
                return None, "it has a dropped column of that name"
            if _has_namesake(parquet.schema_arrow, wanted):
                return None, "it has a column of that name that the table does not have"
            if not places and not wanted.column_ids & ids.keys():
                return HOLDS_NONE if is_delete else (None, "it has none of the columns")
            rows = _count_matching(parquet, places, wanted)
    except _UNREADABLE as error:
        return None, _unreadable_text(error)
    if rows and (missing := wanted.column_ids - set(places)):
        names = ", ".join(sorted(wanted.fields[one].name for one in missing))
        return None, f"{names} is no top column of it"
    return rows, ""


_UNREADABLE = (OSError, ValueError, TypeError, NotImplementedError, pa.ArrowException)


def _unreadable_text(error: Exception) -> str:
    return f"it cannot be read: {(str(error) or repr(error)).splitlines()[0][:200]}"


def _has_namesake(schema: pa.Schema, wanted: RowCondition) -> bool:
    """Return True if a column of the file has the name of a wanted one, and an id that the table
    does not have: one that was dropped, and of which no schema is left, or a writer's own."""
    names = {one.name.lower() for one in wanted.fields.values()}
    known = {one.field_id for one in wanted.flat.fields}
    return any(one.name.lower() in names and field_id_of(one) not in known for one in schema)


Places = dict[int, tuple[str, int | None]]
"""By field id: the file's column, and the field in it where that is a whole row."""


def _find_columns(schema: pa.Schema, wanted: Collection[int]) -> tuple[Places, Counter[int | None]]:
    """Find the wanted columns at the top of a file, and in the rows of a position-delete file; and
    count the ids of all fields at any depth."""
    places, ids = Places(), Counter[int | None]()
    for column in schema:
        number = field_id_of(column)
        if number is not None and number in wanted:
            places[number] = (column.name, None)
        ids.update(field_id_of(one) for one in (column, *fields_below(column)))
        if number == _ROW_ID and pa.types.is_struct(column.type):
            for at, one in enumerate(column.type):
                if (below := field_id_of(one)) in wanted and below is not None:
                    places[below] = (column.name, at)
    return places, ids


def _count_matching(parquet: pq.ParquetFile, places: Places, wanted: RowCondition) -> int:
    condition = wanted.possible_condition(places)
    if isinstance(condition, AlwaysTrue):
        return int(parquet.metadata.num_rows)
    fields = [wanted.fields[one] for one in places]
    target = schema_to_pyarrow(Schema(*fields), include_field_ids=False)
    filtered, rows = expression_to_pyarrow(condition), 0
    for batch in parquet.iter_batches(columns=sorted({name for name, _ in places.values()})):
        pairs = zip(places.values(), target, strict=True)
        arrays = [_column_array(batch, place).cast(field.type) for place, field in pairs]
        rows += pa.Table.from_arrays(arrays, names=target.names).filter(filtered).num_rows
    return rows


def _column_array(batch: pa.RecordBatch, place: tuple[str, int | None]) -> pa.Array:
    name, at = place
    [number] = batch.schema.get_all_field_indices(name)  # ValueError if it is there twice
    column = batch.column(number)
    return column if at is None else pc.struct_field(column, [at])


def _metadata_matches(table: LoadedTable, entry: FileEntry, wanted: RowCondition) -> bool:
    """Return True if bounds or partition values of an entry, live or not, together meet the
    condition."""
    known = {
        number: values
        for number, field in wanted.fields.items()
        if (values := _metadata_values(table, entry, field))
    }
    condition = wanted.certain_condition(known)
    if isinstance(condition, AlwaysFalse):
        return False
    at = {field.field_id: place for place, field in enumerate(wanted.flat.fields)}
    for chosen in product(*known.values()):
        row: list[Any] = [None] * len(at)
        for number, value in zip(known, chosen, strict=True):
            row[at[number]] = value
        if visitors.visit(condition, visitors._ExpressionEvaluationVisitor(Record(*row))):
            return True
    return False


def _metadata_values(table: LoadedTable, entry: FileEntry, field: NestedField) -> set[Any]:
    """Return the values of a column in an entry: both bounds, and the partition's own."""
    said, number, kind = list[bytes | None](), field.field_id, field.field_type
    if entry.stats is not None:
        said += [entry.stats.lower.get(number), entry.stats.upper.get(number)]
    spec = table.spec(entry.spec_id)
    for one, value in zip(spec.fields, json.loads(entry.partition), strict=False):
        if one.source_id == number and isinstance(one.transform, IdentityTransform):
            said.append(_partition_value(kind, value))
    return {value for raw in said if (value := _value(kind, raw)) is not None}


def _value(kind: IcebergType, raw: bytes | None) -> Any:
    """Read a bound, to be compared for equality as well: a uuid has no order, and a float of 32
    bits has its shortest decimal form."""
    if isinstance(kind, UUIDType):
        return raw
    value = read_bound(kind, raw)
    if isinstance(kind, FloatType) and value is not None:
        return float(str(np.float32(value)))
    return value


def _partition_value(kind: Any, value: Any) -> bytes | None:
    """Write a canonical partition value as a bound; None for null, and for values that bounds
    contain as well (nanoseconds, times beyond Python's)."""
    try:
        return None if value is None else to_bytes(kind, from_json(kind, value))
    except (ValueError, TypeError, ArithmeticError, AttributeError, struct.error):
        return None


def scopes_of(found: Collection[Holder]) -> Iterator[str]:
    """Yield the partitions in which files on main hold such rows, sorted."""
    yield from sorted({one.partition for one in found if MAIN in one.refs})
