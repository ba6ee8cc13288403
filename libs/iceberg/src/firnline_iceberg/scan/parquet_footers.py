"""Read column ranges from a Parquet file's own footer, to remove rows or to prove that there are
none. Its writer took it from the rows; a manifest's bounds can be anybody's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_domain.errors import StorageUnreachable
from firnline_domain.identity import normal_path
from pyiceberg.io import FileIO
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from firnline_iceberg.metadata.column_bounds import (
    DAY_MICROS,
    UNKNOWN,
    Range,
    ValueRange,
    read_bound,
)
from firnline_iceberg.metadata.entries import PATH_ID, FileEntry

FIELD_ID = b"PARQUET:field_id"
AT_ONCE = 8  # a footer is one or two requests, and no work
_NANOS_PER = {"milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1}
_NANO_TYPES = (TimestampNanoType, TimestamptzNanoType)
_MICRO_TYPES = (TimestampType, TimestamptzType)


Spans = dict[int, ValueRange]
"""By field id, what a footer says."""


@dataclass(frozen=True)
class Footers:
    """Footers of data and delete files, each read once for the same columns."""

    known: dict[tuple[str, tuple[int, ...]], Spans] = field(default_factory=dict)

    def read_all(
        self, io: FileIO, files: Sequence[FileEntry], fields: Sequence[NestedField]
    ) -> list[Spans]:
        """Read the spans of these columns in each file, in order. Raises StorageUnreachable."""
        ids = tuple(one.field_id for one in fields)
        if unread := self.list_unread(files, fields):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = pool.map(lambda one: read_spans(io, one, fields), unread)
                self.known.update(zip(((one.path, ids) for one in unread), found, strict=True))
        return [self.known[one.path, ids] for one in files]

    def list_unread(
        self, files: Sequence[FileEntry], fields: Sequence[NestedField]
    ) -> list[FileEntry]:
        """Return the files whose footers `read_all` would have to read for these fields."""
        ids = tuple(one.field_id for one in fields)
        return [one for one in files if (one.path, ids) not in self.known]


def read_spans(
    io: FileIO, entry: FileEntry, fields: Sequence[NestedField]
) -> dict[int, ValueRange]:
    """Read the spans of a file's columns by field id; without those that its footer lacks: another
    format, encrypted, without field ids, missing, damaged, or a type without an order. Raises
    StorageUnreachable."""
    if entry.format != "PARQUET" or entry.encrypted:
        return {}
    try:
        with io.new_input(entry.path).open() as source:
            parquet = pq.ParquetFile(source)
            leaves = list(leaf_ids(parquet.schema_arrow))
            places, times = dict(leaves), Counter(number for number, _ in leaves)
            return {
                one.field_id: _column_span(parquet, places[one.field_id], one.field_type)
                if times[one.field_id] == 1
                else UNKNOWN
                for one in fields
                if one.field_id in places
            }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageUnreachable(f"cannot read {entry.path}: {error}") from error
    except (pa.ArrowException, ValueError):
        return {}


def read_paths(io: FileIO, delete: FileEntry) -> frozenset[str] | None:
    """Read the normal paths of all data files that a position-delete file names; None if it
    cannot be read. Raises StorageUnreachable."""
    if delete.format != "PARQUET" or delete.encrypted:
        return None
    try:
        with io.new_input(delete.path).open() as source:
            parquet = pq.ParquetFile(source)
            names = [one.name for one in parquet.schema_arrow if field_id_of(one) == PATH_ID]
            if len(names) != 1:
                return None
            batches = parquet.iter_batches(columns=names)
            paths = {one for batch in batches for one in batch.column(0).unique().to_pylist()}
            return frozenset(normal_path(one) for one in paths if one is not None)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageUnreachable(f"cannot read {delete.path}: {error}") from error
    except (pa.ArrowException, ValueError):
        return None


def leaf_ids(schema: pa.Schema) -> Iterator[tuple[int, int]]:
    """Find the field id and the place among the file's leaf columns of every column that has one
    value a row: in structs, not in lists and maps."""
    leaf = 0
    for one in schema:
        for number, is_single in _leaf_columns(one, True):
            if is_single and number is not None:
                yield number, leaf
            leaf += 1


def field_id_of(column: pa.Field) -> int | None:
    """Read the Iceberg id of an Arrow field that was read from Parquet."""
    found = (column.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def fields_below(column: pa.Field) -> Iterator[pa.Field]:
    """Find all fields within a nested one, at any depth."""
    for one in _inner_fields(column.type):
        yield one
        yield from fields_below(one)


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_nested(kind) else []


def _leaf_columns(column: pa.Field, is_single: bool) -> Iterator[tuple[int | None, bool]]:
    kind = column.type
    if not pa.types.is_nested(kind):
        yield field_id_of(column), is_single
        return
    below = is_single and pa.types.is_struct(kind)
    for one in _inner_fields(kind):
        yield from _leaf_columns(one, below)


def _column_span(parquet: pq.ParquetFile, leaf: int, kind: IcebergType) -> ValueRange:
    rows = nulls = 0
    ranges = list[Range | None]()
    metadata, column = parquet.metadata, parquet.schema.column(leaf)
    for at in range(metadata.num_row_groups):
        if metadata.row_group(at).num_rows == 0:
            continue
        chunk = metadata.row_group(at).column(leaf)
        found = chunk.statistics
        if found is None or not found.has_null_count:
            return UNKNOWN
        rows, nulls = rows + chunk.num_values, nulls + found.null_count
        if found.null_count < chunk.num_values:
            ranges.append(_statistics_range(found, column, kind))
    known = [one for one in ranges if one is not None]
    whole = None
    if known and len(known) == len(ranges):
        whole = min(low for low, _ in known), max(high for _, high in known)
    return ValueRange(whole, nulls == 0, nulls == rows)


def _statistics_range(found: Any, column: Any, kind: IcebergType) -> Range | None:
    if not found.has_min_max:
        return None
    low, high = (_physical_value(one, column, kind) for one in (found.min_raw, found.max_raw))
    return None if low is None or high is None or low > high else (low, high)


def _physical_value(raw: Any, column: Any, kind: IcebergType) -> Any:
    """Read a physical value in the units of the table's type; None for another logical type."""
    logical = column.logical_type.type
    if isinstance(kind, IntegerType | LongType):
        signed = '"isSigned":false' not in column.logical_type.to_json()
        return raw if logical in ("NONE", "INT") and signed and isinstance(raw, int) else None
    if isinstance(kind, DateType):
        return raw if logical == "DATE" else None
    if isinstance(kind, _NANO_TYPES + _MICRO_TYPES):
        return _scale_time(raw, column, logical, 1 if isinstance(kind, _NANO_TYPES) else 1_000)
    if isinstance(kind, StringType):
        return read_bound(kind, raw) if isinstance(raw, bytes) else None
    if isinstance(kind, DecimalType) and logical == "DECIMAL" and column.scale == kind.scale:
        unscaled = raw if isinstance(raw, bytes) else raw.to_bytes(8, "big", signed=True)
        return read_bound(kind, unscaled)
    return None


def _scale_time(raw: Any, column: Any, logical: str, nanos: int) -> int | None:
    """Convert a date or timestamp of Parquet to units of `nanos` ns, rounded down; None for other
    types."""
    if logical == "DATE":
        return int(raw) * DAY_MICROS * 1_000 // nanos
    if logical != "TIMESTAMP" or not isinstance(raw, int):
        return None
    text = column.logical_type.to_json()
    per = next((size for unit, size in _NANOS_PER.items() if unit in text), None)
    return None if per is None else raw * per // nanos
