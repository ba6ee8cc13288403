"""Delete files that cannot match a data file, told by bounds and null counts.

iceberg-rules 4.3 (`DeleteFileIndex.canContainEqDeletesForFile`). Sound with truncated bounds,
because they only ever widen; what is missing means "may match".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType

from firnline_iceberg.files import DataFileEntry, DeleteFileEntry, FileStats


def may_match(data: DataFileEntry, delete: DeleteFileEntry, schema: Schema) -> bool:
    """False only if no row of the equality delete can equal a row of the data file.

    Both need `stats` (`Detail.STATS`), else True. `schema` has the equality fields; a field
    that it lacks (a dropped column) excludes nothing.
    """
    if data.stats is None or delete.stats is None:
        return True
    fields = (_field(schema, key) for key in delete.equality_ids)
    return not any(f and _excludes(f, data.stats, delete.stats) for f in fields)


def _field(schema: Schema, key: int) -> NestedField | None:
    try:
        return schema.find_field(key)
    except ValueError:
        return None


def _excludes(field: NestedField, data: FileStats, delete: FileStats) -> bool:
    if not isinstance(field.field_type, PrimitiveType):
        return False
    if _all_null(field, data) and _none_null(field, delete):
        return True
    if _all_null(field, delete) and _none_null(field, data):
        return True
    return not _may_share_null(field, data, delete) and _apart(field, data, delete)


def _may_share_null(field: NestedField, data: FileStats, delete: FileStats) -> bool:
    """A null in both is a match that no bound shows."""
    return not _none_null(field, data) and not _none_null(field, delete)


def _all_null(field: NestedField, stats: FileStats) -> bool:
    if field.required:
        return False
    values, nulls = stats.value_counts.get(field.field_id), stats.null_counts.get(field.field_id)
    return values is not None and nulls is not None and values == nulls


def _none_null(field: NestedField, stats: FileStats) -> bool:
    return field.required or stats.null_counts.get(field.field_id) == 0


def _apart(field: NestedField, data: FileStats, delete: FileStats) -> bool:
    bounds = [
        limits.get(field.field_id)
        for limits in (data.lower, data.upper, delete.lower, delete.upper)
    ]
    if any(bound is None for bound in bounds):
        return False
    kind = field.field_type
    assert isinstance(kind, PrimitiveType)
    data_low, data_high, delete_low, delete_high = (_value(kind, bound) for bound in bounds)
    return bool(data_high < delete_low or delete_high < data_low)


@lru_cache(maxsize=65536)  # a delete file's bounds are asked for once per data file
def _value(kind: PrimitiveType, bound: bytes) -> Any:
    return from_bytes(kind, bound)
