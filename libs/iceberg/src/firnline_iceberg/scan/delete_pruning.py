"""Delete files that cannot match a data file, by bounds and null counts.

iceberg-rules 2.3 (`DeleteFileIndex.canContainEqDeletesForFile`). Bounds may be cut, so what is
missing, cannot be read or contradicts itself means "may match". Bounds may also be too narrow:
these answers only choose what is looked at in the files (`dangling_deletes`), and remove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from firnline_iceberg.metadata.column_bounds import ValueRange, is_below, span_of
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry


def may_match(data: DataFileEntry, delete: DeleteFileEntry, schema: Schema) -> bool:
    """Return False only if the bounds prove that no row of the equality delete equals one of the
    data file.

    Both need `stats` (`Detail.STATS`), else True. `schema` has the equality fields; a field that it
    lacks (a dropped column) excludes nothing."""
    if data.stats is None or delete.stats is None:
        return True
    fields = key_fields(delete, schema)
    return not any(
        have_no_common(span_of(one, data.stats), span_of(one, delete.stats)) for one in fields
    )


def key_fields(delete: DeleteFileEntry, schema: Schema) -> Iterator[NestedField]:
    """Find the equality fields that the schema has and whose values have an order."""
    for key in delete.equality_ids:
        try:
            field = schema.find_field(key)
        except ValueError:  # a dropped column
            continue
        if field.field_type.is_primitive:
            yield field


def have_no_common(data: ValueRange, delete: ValueRange) -> bool:
    """Return True if no value of one is one of the other. Null equals null."""
    if (data.all_null and delete.none_null) or (delete.all_null and data.none_null):
        return True
    if not data.none_null and not delete.none_null:  # a match that no bound shows
        return False
    if data.range is None or delete.range is None:
        return False
    (low, high), (least, most) = data.range, delete.range
    return is_below(high, least) or is_below(most, low)
