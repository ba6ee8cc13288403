"""What a file's own footer says, in the units of the table's types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_domain.identity import normal_path
from firnline_iceberg.metadata.column_bounds import UNKNOWN, ValueRange
from firnline_iceberg.metadata.entries import PATH_ID, DataFileEntry, EntryStatus
from firnline_iceberg.scan.parquet_footers import read_paths, read_spans
from pyiceberg.io import FileIO
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
)

FAR = 2**63 - 1
DAYS = pa.array([20_000, 2_932_897], pa.int32()).cast(pa.date32())


def entry(path: str, **more: Any) -> DataFileEntry:
    given = {
        "path": path, "manifest_path": "m", "status": EntryStatus.ADDED, "snapshot_id": 1,
        "sequence_number": 1, "file_sequence_number": 1, "spec_id": 0, "partition": "[]",
        "format": "PARQUET", "records": 2, "bytes": 1,
    }  # fmt: skip
    return DataFileEntry(**{**given, **more})


def numbered(name: str, array: pa.Array, number: int = 1) -> pa.Table:
    field = pa.field(name, array.type, metadata={"PARQUET:field_id": str(number)})
    return pa.Table.from_arrays([array], schema=pa.schema([field]))


def written(folder: Path, table: pa.Table, **how: Any) -> str:
    path = folder / "f.parquet"
    pq.write_table(table, path, **how)
    return f"file://{path}"


def span_in(io: FileIO, path: str, kind: IcebergType) -> ValueRange | None:
    return read_spans(io, entry(path), (NestedField(1, "k", kind),)).get(1)


@pytest.mark.parametrize(
    ("kind", "array", "span"),
    [
        (LongType(), pa.array([3, -2], pa.int32()), ValueRange((-2, 3), none_null=True)),
        (LongType(), pa.array([3, None], pa.int64()), ValueRange((3, 3))),
        (LongType(), pa.array([None, None], pa.int64()), ValueRange(all_null=True)),
        (LongType(), pa.array([], pa.int64()), ValueRange(None, True, True)),
        (IntegerType(), pa.array([1, 2**31 + 5], pa.uint32()), ValueRange(None, none_null=True)),
        (DateType(), DAYS, ValueRange((20_000, 2_932_897), none_null=True)),
        (TimestampType(), pa.array([1, FAR], pa.timestamp("us")), ValueRange((1, FAR), True)),
        (TimestampType(), pa.array([-1, 2], pa.timestamp("ms")), ValueRange((-1000, 2000), True)),
        (TimestamptzType(), pa.array([1, 2], pa.timestamp("us", "UTC")), ValueRange((1, 2), True)),
        (TimestampNanoType(), pa.array([1, 2], pa.timestamp("ns")), ValueRange((1, 2), True)),
        (
            TimestampType(),
            DAYS,
            ValueRange((20_000 * 86_400 * 10**6, 2_932_897 * 86_400 * 10**6), True),
        ),
        (StringType(), pa.array(["a", "ä"]), ValueRange(("a", "ä"), True)),
        (
            DecimalType(38, 2),
            pa.array([Decimal("-1.50"), Decimal("9.99")], pa.decimal128(5, 2)),
            ValueRange((Decimal("-1.50"), Decimal("9.99")), True),
        ),
        (
            DecimalType(38, 2),
            pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
            ValueRange(None, True),
        ),
        (DoubleType(), pa.array([1.0, float("nan")]), ValueRange(None, True)),
        (TimestampType(), pa.array([1, 2], pa.int64()), ValueRange(None, True)),
    ],
)
def test_a_columns_span(
    tmp_path: Path, io: FileIO, kind: IcebergType, array: pa.Array, span: ValueRange
) -> None:
    for how in ({}, {"row_group_size": 1}, {"store_decimal_as_integer": True}):
        path = written(tmp_path, numbered("k", array), **how)
        assert span_in(io, path, kind) == span, how


def test_what_a_footer_does_not_tell_is_not_known(tmp_path: Path, io: FileIO) -> None:
    longs = pa.array([1, 2])
    assert span_in(io, written(tmp_path, numbered("k", longs, 2)), LongType()) is None
    assert span_in(io, written(tmp_path, pa.table({"k": longs})), LongType()) is None
    path = written(tmp_path, numbered("k", longs), write_statistics=False)
    assert span_in(io, path, LongType()) == UNKNOWN
    assert span_in(io, f"file://{tmp_path}/gone.parquet", LongType()) is None
    Path(path.removeprefix("file://")).write_bytes(b"PAR1 of nothing")
    assert span_in(io, path, LongType()) is None
    field = (NestedField(1, "k", LongType()),)
    path = written(tmp_path, numbered("k", longs))
    assert read_spans(io, entry(path, format="AVRO"), field) == {}
    assert read_spans(io, entry(path, encrypted=True), field) == {}


def test_a_field_in_a_struct_has_one_value_a_row_and_one_in_a_list_has_not(
    tmp_path: Path, io: FileIO
) -> None:
    def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})

    schema = pa.schema(
        [
            field("many", pa.list_(field("element", pa.int64(), 5)), 4),
            field("in", pa.struct([field("k", pa.int64(), 1), field("l", pa.int64(), 2)]), 3),
        ]
    )
    rows = [{"many": [100], "in": {"k": 1, "l": 9}}, {"many": [], "in": None}]
    path = written(tmp_path, pa.Table.from_pylist(rows, schema))
    fields = tuple(NestedField(one, "k", LongType()) for one in (1, 2, 5))
    assert read_spans(io, entry(path), fields) == {1: ValueRange((1, 1)), 2: ValueRange((9, 9))}


def test_a_position_delete_file_is_read_for_what_it_names(tmp_path: Path, io: FileIO) -> None:
    names = pa.array(["file:/w/b", "file:/w/a", "file:/w/b"])
    path = written(tmp_path, numbered("file_path", names, PATH_ID))
    assert read_paths(io, entry(path)) == {normal_path("file:/w/a"), normal_path("file:/w/b")}
    assert read_paths(io, entry(written(tmp_path, numbered("file_path", names)))) is None
    assert read_paths(io, entry(f"file://{tmp_path}/gone.parquet")) is None
