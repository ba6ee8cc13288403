"""Plans a sort: the order that a table's owner sets, and the files of a partition that are sorted
now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firnline_deletes.files.hilbert_curve import MAX_COLUMNS
from firnline_deletes.files.sorting import SortKey
from firnline_domain.base.values import Value
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.triggers.sorting import curve_columns
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.settings.thresholds import resolve_thresholds
from firnline_iceberg.metadata.column_bounds import span_of
from firnline_iceberg.metadata.entries import DataFileEntry, FileStats
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.scan.planning import LiveFiles
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from firnline_worker.plan.overlap import MAX_BYTES, Depth, KeyRange, find_clusters
from firnline_worker.plan.planning import NOTHING, Plan, effective_target_bytes
from firnline_worker.plan.slices import RemainingWork, slice_limit
from firnline_worker.plan.zorder_overlap import Box, box_clusters

OWN_ORDER = "order"  # of `firnline.sort`: the table's sort order
FORM = (
    "write 'order' for the table's own sort order, columns: 'customer, at desc', or columns that "
    "weigh the same: 'zorder(customer, at)'"
)
MAX_SHOWN = 200  # characters of a name
_WAYS = ("asc", "desc")
_SORTABLE = (
    *(BooleanType, DateType, DecimalType, IntegerType, LongType, StringType),
    *(TimestampType, TimestamptzType, TimeType),
)
_BELOW, _NULLS, _VALUE, _NULLS_LAST, _ABOVE = range(5)  # sides of a key
NO_KEY_KNOWN = ((_BELOW,), (_ABOVE,))


class SortWish(Value):
    """The sort that settings ask for. `columns`: as `firnline.sort` has it; '' = not set."""

    columns: str
    max_depth: int


class Sorting(Value):
    """An order of rows. `along_curve`: through all keys; `order_id`: of the table; 0 = its rows are
    not in any order that it has. No sort order of Iceberg's is a curve."""

    keys: tuple[SortKey, ...]
    order_id: int = 0
    along_curve: bool = False


def sort_wish(settings: Mapping[str, str]) -> SortWish:
    """Return the sort that table and namespace set (`with_namespace`)."""
    limits = resolve_thresholds(settings)
    return SortWish(limits.sort, limits.sort_depth)


def sorting_of(table: LoadedTable, columns: str) -> Sorting:
    """Return how rows are sorted. Raises TaskRefused: no_sort_order, unsortable_column."""
    wanted = columns.strip()
    if (along := curve_columns(wanted)) is not None:
        return _curve_sorting(table, along)
    if "(" in wanted:
        raise TaskRefused("unsortable_column", f"'{wanted}' is neither; {FORM}")
    if wanted and wanted.lower() != OWN_ORDER:
        return Sorting(tuple(_parse_key(table, part.strip()) for part in wanted.split(",")))
    order = table.metadata.sort_order_by_id(table.metadata.default_sort_order_id)
    if order is None or not order.fields:
        text = "the table has no sort order, and firnline.sort names no column; " + FORM
        raise TaskRefused("no_sort_order", text)
    keys = []
    for field in order.fields:
        if not isinstance(field.transform, IdentityTransform):
            text = f"the sort order has {field.transform}: name columns in firnline.sort"
            raise TaskRefused("unsortable_column", text)
        name = table.schema.find_column_name(field.source_id) or ""
        first = field.null_order is NullOrder.NULLS_FIRST
        descending = field.direction is SortDirection.DESC
        keys.append(SortKey(_find_column(table, name).name, descending, first))
    return Sorting(tuple(keys), order.order_id)


def _curve_sorting(table: LoadedTable, columns: Sequence[str]) -> Sorting:
    if not 2 <= len(columns) <= MAX_COLUMNS or len(set(columns)) < len(columns):
        text = f"zorder takes 2 to {MAX_COLUMNS} columns, each once, not {', '.join(columns)}"
        raise TaskRefused("unsortable_column", text)
    keys = tuple(SortKey(_find_column(table, name).name) for name in columns)
    return Sorting(keys, along_curve=True)


def _parse_key(table: LoadedTable, text: str) -> SortKey:
    name, _, way = text.rpartition(" ")
    if not name or way.lower() not in _WAYS:
        name, way = text, ""
    if not name:
        raise TaskRefused("unsortable_column", f"'{text}' is no column; {FORM}")
    descending = way.lower() == "desc"
    return SortKey(_find_column(table, name.rstrip(" ")).name, descending, not descending)


def _find_column(table: LoadedTable, name: str) -> NestedField:
    found = next((one for one in table.schema.fields if one.name == name), None)
    if found is None:
        text = f"the table has no column '{name[:MAX_SHOWN]}', or it is within another one"
        raise TaskRefused("unsortable_column", text)
    if not isinstance(found.field_type, _SORTABLE):
        raise TaskRefused("unsortable_column", f"{name} is of type {found.field_type}")
    return found


def sort_plan(
    table: LoadedTable, live: LiveFiles, order: RewriteFiles, wish: SortWish, target_bytes: int
) -> tuple[Plan, Depth]:
    """Plan a sort. All deletes that apply to what is sorted are applied. Reads the manifests of the
    partition's files once more, with bounds. Raises TaskRefused, MetadataFileGone, RetryLater."""
    sorting = sorting_of(table, wish.columns)
    limit, planned = slice_limit(order), live.files_of_scope(order.scope)
    known = {one.data.normal_path: one for one in planned if limit.is_of_pass(one.data)}
    keys = sorting.keys if sorting.along_curve else sorting.keys[:1]
    boxes = list(_read_boxes(table, live, known, keys))
    most = min(limit.max_bytes or MAX_BYTES, MAX_BYTES)
    found = (
        box_clusters(boxes, wish.max_depth, most)
        if sorting.along_curve
        else find_clusters([box.sides[0] for box in boxes], wish.max_depth, most)
    )
    if not found.groups:
        return NOTHING, found.depth
    files = [file for group in found.groups for file in group]
    applied = {one.key: one for file in files for one in known[file.normal_path].deletes}
    chosen = Plan(
        groups=tuple(tuple(sorted(group, key=_by_age)) for group in found.groups),
        deletes=tuple(applied.values()),
        target_bytes=effective_target_bytes(target_bytes, files),
        left=RemainingWork(len(found.left), sum(one.bytes for one in found.left)),
        sort_keys=sorting.keys,
        along_curve=sorting.along_curve,
        sort_order_id=sorting.order_id,
    )
    return chosen, found.depth


def _by_age(file: DataFileEntry) -> tuple[int, str]:
    return file.sequence_number, file.normal_path


def _read_boxes(
    table: LoadedTable, live: LiveFiles, known: Mapping[str, Any], keys: Sequence[SortKey]
) -> Iterator[Box]:
    """Read the bounds of files. The boxes contain the live files' own entries, so that the plan's
    files are those of `live`."""
    fields = [(_find_column(table, key.column), key) for key in keys]
    paths = {one.data.manifest_path for one in known.values()}
    head = table.snapshot(live.snapshot_id or 0)
    for manifest in table.manifests_of(head):
        if manifest.path not in paths:
            continue
        for entry in table.entries_of(manifest, Detail.STATS):
            planned = known.get(entry.normal_path)
            if planned is not None and entry.is_live:
                file, stats = planned.data, entry.stats
                sides = (KeyRange(file, *_key_bounds(field, stats, key)) for field, key in fields)
                yield Box(file, tuple(sides))


def _key_bounds(
    field: NestedField, stats: FileStats | None, key: SortKey
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the bounds ascending, in whichever direction the rows are sorted. Missing ones reach
    everywhere."""
    if stats is None:
        return NO_KEY_KNOWN
    span = span_of(field, stats)
    side = _NULLS if key.nulls_first is not key.descending else _NULLS_LAST
    if span.all_null:
        return (side,), (side,)
    if span.range is None:
        return NO_KEY_KNOWN
    least, most = ((_VALUE, value) for value in span.range)
    if span.none_null:
        return least, most
    return ((side,), most) if side == _NULLS else (least, (side,))
