from __future__ import annotations

import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.apply import Deletes, Tally, rewrite
from firnline_deletes.files import SequencedFile
from firnline_deletes.projection import table_schema
from firnline_deletes.refusals import Refused


def through(folder, file, table, identity_ids=()):
    """Rows of one file as the table sees them."""
    writer = folder.writer(table)
    rewrite([file], Deletes(), table_schema(table), folder.open, writer, identity_ids)
    return folder.rows_of(writer)


def test_renamed_reordered_added_dropped_and_promoted_columns(folder):
    old = pa.schema(
        [
            folder.column("gone", 9, pa.string()),
            folder.column("amount", 3, pa.decimal128(9, 2)),
            folder.column("n", 1, pa.int32()),
            folder.column("f", 2, pa.float32()),
        ]
    )
    table = pa.schema(
        [
            folder.column("number", 1, pa.int64()),
            folder.column("f", 2, pa.float64()),
            folder.column("amount", 3, pa.decimal128(20, 2)),
            folder.column("gone", 10, pa.int64()),  # the old name, a new id
        ]
    )
    file = folder.file(1, old, [("x", Decimal("1.25"), 7, 0.5), (None, None, None, None)])
    expected = [(7, 0.5, Decimal("1.25"), None), (None, None, None, None)]
    assert through(folder, file, table) == expected


def test_a_file_without_any_column_of_the_table_gives_null_rows(folder):
    file = folder.file(1, pa.schema([folder.column("a", 1, pa.int64())]), [(1,), (2,)])
    table = pa.schema([folder.column("b", 2, pa.string())])
    assert through(folder, file, table) == [(None,), (None,)]


def test_nested_columns_of_the_tables_shape_pass_and_large_types_are_brought_down(folder):
    def shape(text: pa.DataType) -> pa.Schema:
        member = folder.column("m", 2, text)
        struct = pa.struct([member, folder.column("u", 3, pa.uuid())])
        items = pa.list_(folder.column("element", 5, text))
        pairs = pa.map_(folder.column("key", 7, text, False), folder.column("value", 8, pa.int64()))
        return pa.schema(
            [
                folder.column("s", 1, struct),
                folder.column("l", 4, items),
                folder.column("p", 6, pairs),
            ]
        )

    one = uuid.UUID(int=5)
    rows = [({"m": "a", "u": one.bytes}, ["x", None], [("k", 1)]), (None, None, None)]
    path = folder.path()
    large = shape(pa.large_string())
    columns = list(zip(*rows, strict=True))
    storage = pa.struct([large.field(0).type.field(0), pa.field("u", pa.binary(16))])
    arrays = [pa.array(columns[0], storage).cast(large.field(0).type)]
    arrays += [pa.array(c, f.type) for c, f in zip(columns[1:], list(large)[1:], strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=large), path)  # with its Arrow schema
    writer = folder.writer(shape(pa.string()))
    rewrite([SequencedFile(path, 1)], Deletes(), writer.schema, folder.open, writer)
    assert folder.rows_of(writer) == rows
    written = pq.ParquetFile(writer.files[0].path)
    ids = [written.schema_arrow.field("s").type.field(i).metadata for i in range(2)]
    assert ids == [{b"PARQUET:field_id": b"2"}, {b"PARQUET:field_id": b"3"}]
    assert "UUID" in str(written.schema.column(1).logical_type).upper()


def refused(folder, file_schema, table, identity_ids=()):
    with pytest.raises(Refused) as caught:
        through(folder, folder.file(1, file_schema, []), table, identity_ids)
    return caught.value.reason


def test_what_cannot_be_projected_is_refused_with_its_reason(folder):
    column = folder.column
    table = pa.schema([column("a", 1, pa.int64())])
    assert refused(folder, pa.schema([pa.field("a", pa.int64())]), table) == "no_field_ids"
    twice = pa.schema([column("a", 1, pa.int64()), column("b", 1, pa.int64())])
    assert refused(folder, twice, table) == "duplicate_field_ids"
    assert refused(folder, pa.schema([column("a", 1, pa.string())]), table) == "type_differs"
    narrower = pa.schema([column("a", 1, pa.int32())])
    assert refused(folder, table, narrower) == "type_differs"
    other = pa.schema([column("b", 2, pa.int64())])
    required = pa.schema([column("a", 1, pa.int64(), False)])
    assert refused(folder, other, required) == "missing_required"
    assert refused(folder, other, table, identity_ids=[1]) == "missing_partition_column"


def test_other_nested_shapes_are_refused(folder):
    column = folder.column

    def struct(*members: pa.Field) -> pa.Schema:
        return pa.schema([column("s", 1, pa.struct(list(members)))])

    table = struct(column("x", 2, pa.int64()), column("y", 3, pa.string()))
    x, y = column("x", 2, pa.int64()), column("y", 3, pa.string())
    for shape in (
        struct(x),
        struct(y, x),
        struct(x, y, column("z", 4, pa.int64())),
        struct(column("x", 2, pa.int32()), y),
        struct(column("renamed", 2, pa.int64()), y),
        struct(column("x", 5, pa.int64()), y),
        pa.schema([column("s", 1, pa.int64())]),
    ):
        assert refused(folder, shape, table) == "nested_differs"
    strict = struct(column("x", 2, pa.int64(), False), y)
    assert refused(folder, table, strict) == "nested_differs"
    assert through(folder, folder.file(1, strict, [({"x": 1, "y": "a"},)]), table)


def test_a_tally_adds_up():
    assert Tally(3, 1, 2, 0) + Tally(5, 5, 0, 1) == Tally(8, 6, 2, 1)
