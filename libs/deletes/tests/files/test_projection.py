from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.apply import RewriteTally, write_live_rows
from firnline_deletes.columns import name_mapping
from firnline_deletes.columns.fields import plain_type
from firnline_deletes.columns.target_schema import LINEAGE, TargetSchema
from firnline_deletes.deletes import positions
from firnline_deletes.deletes.masks import Deletes
from firnline_deletes.files.parquet import SequencedFile
from firnline_deletes.files.projection import Matcher, table_schema
from firnline_deletes.unsupported_files import UnsupportedFile


def through(folder, file, table, **known):
    """Rows of one file as the table sees them; `known` is the rest of its target."""
    target = TargetSchema(table_schema(table), **known)
    writer = folder.writer(target.output_schema)
    write_live_rows([file], Deletes(), target, folder.open, writer)
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


def test_columns_of_unknown_type_are_not_written(folder):
    table = pa.schema([folder.column("u", 2, pa.null()), folder.column("a", 1, pa.int64())])
    file = folder.file(1, pa.schema([folder.column("a", 1, pa.int64())]), [(1,)])
    assert through(folder, file, table) == [(1,)]


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
    write_live_rows(
        [SequencedFile(path, 1)], Deletes(), TargetSchema(writer.schema), folder.open, writer
    )
    assert folder.rows_of(writer) == rows
    written = pq.ParquetFile(writer.files[0].path)
    ids = [written.schema_arrow.field("s").type.field(i).metadata for i in range(2)]
    assert ids == [{b"PARQUET:field_id": b"2"}, {b"PARQUET:field_id": b"3"}]
    assert "UUID" in str(written.schema.column(1).logical_type).upper()


def refused(folder, file_schema, table, rows=(), **known):
    with pytest.raises(UnsupportedFile) as caught:
        through(folder, folder.file(1, file_schema, rows), table, **known)
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
    assert refused(folder, table, required, [(1,), (None,)]) == "missing_required"
    assert refused(folder, other, table, unknown={1}) == "missing_partition_column"
    assert refused(folder, table, table, lineage=True) == "row_ids_unknown"


def test_nested_columns_that_cannot_be_projected_are_refused(folder):
    column = folder.column

    def struct(*members: pa.Field) -> pa.Schema:
        return pa.schema([column("s", 1, pa.struct(list(members)))])

    x, required = column("x", 2, pa.int64()), column("x", 2, pa.int64(), False)
    y = column("y", 3, pa.string())
    assert refused(folder, struct(column("x", 2, pa.string())), struct(x)) == "type_differs"
    assert refused(folder, pa.schema([column("s", 1, pa.int64())]), struct(x)) == "type_differs"
    assert refused(folder, struct(y), struct(required, y)) == "missing_required"
    assert refused(folder, struct(pa.field("x", pa.int64())), struct(x)) == "no_field_ids"
    assert refused(folder, struct(x, y), struct(required, y)) == "missing_required"
    rows = [(None,), ({"x": 1, "y": None},)]
    for table in (struct(required, y), struct(y, required), struct(x, y)):
        expected = [
            (row and {f.name: row[f.name] for f in table.field(0).type},) for (row,) in rows
        ]
        assert through(folder, folder.file(1, struct(required, y), rows), table) == expected
    lists = [
        pa.schema([column("l", 1, pa.list_(column("element", number, pa.int32(), nullable)))])
        for number, nullable in ((2, True), (3, True), (2, False))
    ]
    assert refused(folder, lists[0], lists[1]) == "type_differs"
    assert refused(folder, lists[0], lists[2]) == "missing_required"


def test_nested_columns_are_rebuilt_by_id_at_every_level(folder):
    column = folder.column
    item = [column("x", 5, pa.int32()), column("gone", 6, pa.string()), column("y", 7, pa.string())]
    now = [
        column("why", 7, pa.string()),
        column("x", 5, pa.int64()),
        column("new", 8, pa.date32()),
        column("id", 9, pa.uuid()),
    ]

    def table(members: list[pa.Field]) -> pa.Schema:
        struct = pa.struct(members)
        return pa.schema(
            [
                column("s", 1, struct),
                column("l", 2, pa.list_(column("element", 20, struct))),
                column(
                    "m",
                    3,
                    pa.map_(column("key", 30, pa.int32(), False), column("value", 31, struct)),
                ),
            ]
        )

    def old(x: int, y: str | None) -> dict:
        return {"x": x, "gone": "!", "y": y}

    def new(x: int, y: str | None) -> dict:
        return {"why": y, "x": x, "new": date(2026, 1, 1), "id": None}

    file = folder.file(
        1,
        table(item),
        [
            (old(1, "a"), [old(2, "b"), None, old(3, None)], [(1, old(4, "c"))]),
            (None, None, None),
            (old(5, None), [], []),
            (None, [old(6, "d")], [(2, None), (3, old(7, "e"))]),
        ],
        group_rows=3,
    )
    default = {8: pa.array([date(2026, 1, 1)])}
    assert through(folder, file, table(now), absent=default) == [
        (new(1, "a"), [new(2, "b"), None, new(3, None)], [(1, new(4, "c"))]),
        (None, None, None),
        (new(5, None), [], []),
        (None, [new(6, "d")], [(2, None), (3, new(7, "e"))]),
    ]


def test_a_masked_row_shifts_no_list(folder):
    column = folder.column
    old = pa.struct([column("x", 3, pa.int32())])
    new = pa.struct([column("x", 3, pa.int64()), column("y", 4, pa.string())])
    schemas = [
        pa.schema([column("k", 1, pa.int64()), column("l", 2, pa.list_(column("e", 5, kind)))])
        for kind in (old, new)
    ]
    data = folder.file(1, schemas[0], [(k, [{"x": k}] * k) for k in range(5)], group_rows=5)
    deletes = Deletes(
        (),
        positions.build_position_set(
            [folder.position_deletes(1, [(data.path, 1)])], [data], folder.open, str
        ),
    )
    writer = folder.writer(schemas[1])
    write_live_rows([data], deletes, TargetSchema(writer.schema), folder.open, writer)
    expected = [(k, [{"x": k, "y": None}] * k) for k in (0, 2, 3, 4)]
    assert folder.rows_of(writer) == expected


ABSENT = {
    1: (pa.int64(), 5),
    2: (pa.string(), "text"),
    3: (pa.uuid(), uuid.UUID(int=7).bytes),
    4: (pa.decimal128(20, 2), Decimal("1.25")),
    5: (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, tzinfo=UTC)),
    6: (pa.binary(3), b"abc"),
    7: (pa.bool_(), False),
    8: (pa.date32(), date(1900, 1, 1)),
    9: (pa.binary(), b""),
    10: (pa.float32(), 1.5),
    11: (pa.time64("us"), time(1, 2, 3)),
}


def test_a_missing_column_has_the_value_that_the_shape_knows(folder):
    column = folder.column
    table = pa.schema([column(f"c{n}", n, kind, n % 2 == 0) for n, (kind, _) in ABSENT.items()])
    absent = {n: pa.array([value], plain_type(kind)) for n, (kind, value) in ABSENT.items()}
    file = folder.file(1, pa.schema([column("other", 99, pa.int64())]), [(1,)] * 3)
    expected = tuple(value for _, value in ABSENT.values())
    assert through(folder, file, table, absent=absent) == [expected] * 3


def test_row_ids_are_the_stored_ones_else_counted_from_the_files_first(folder):
    table = pa.schema([folder.column("k", 1, pa.int64())])
    plain = replace(folder.file(7, table, [(n,) for n in range(5)], group_rows=2), first_row_id=100)
    moved = replace(
        folder.file(8, pa.schema([*table, *LINEAGE]), [(5, 3, None), (6, None, 4)]),
        first_row_id=200,
    )
    target = TargetSchema(table_schema(table), lineage=True)
    writer = folder.writer(target.output_schema)
    where = positions.build_position_set(
        [folder.position_deletes(9, [(plain.path, 1), (plain.path, 2)])], [plain], folder.open, str
    )
    write_live_rows([plain, moved], Deletes((), where), target, folder.open, writer)
    assert folder.rows_of(writer) == [
        (0, 100, 7), (3, 103, 7), (4, 104, 7), (5, 3, 8), (6, 201, 4),
    ]  # fmt: skip
    written = pq.ParquetFile(writer.files[0].path).schema_arrow
    ids = [written.field(n).metadata[b"PARQUET:field_id"] for n in (1, 2)]
    assert ids == [b"2147483540", b"2147483539"]
    assert written.names == ["k", "_row_id", "_last_updated_sequence_number"]


MAPPING = """[
  {"field-id": 1, "names": ["a", "old_a"]},
  {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x", "X"]}]},
  {"field-id": 4, "names": ["l"], "fields": [{"field-id": 5, "names": ["element"]}]},
  {"field-id": 6, "names": ["m"], "fields": [
    {"field-id": 7, "names": ["key"]}, {"field-id": 8, "names": ["value"]}]}
]"""


def test_a_file_without_ids_is_read_by_the_name_mapping(folder):
    plain = pa.schema(
        [
            pa.field("unmapped", pa.int64()),
            pa.field("old_a", pa.int32()),
            pa.field("s", pa.struct([pa.field("X", pa.int64()), pa.field("z", pa.int64())])),
            pa.field("l", pa.list_(pa.field("array", pa.int64()))),
            pa.field("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    column = folder.column
    table = pa.schema(
        [
            column("a", 1, pa.int64()),
            column("s", 2, pa.struct([column("x", 3, pa.int64())])),
            column("l", 4, pa.list_(column("element", 5, pa.int64()))),
            column("m", 6, pa.map_(column("k", 7, pa.string(), False), column("v", 8, pa.int64()))),
        ]
    )
    file = folder.file(1, plain, [(0, 1, {"X": 2, "z": 9}, [3, 4], [("k", 5)])])
    names = name_mapping.parse_mapping(MAPPING)
    assert through(folder, file, table, names=names) == [(1, {"x": 2}, [3, 4], [("k", 5)])]
    own = folder.file(1, pa.schema([column("s", 1, pa.int32())]), [(7,)])  # its ids win
    assert through(folder, own, table, names=names) == [(7, None, None, None)]


def test_a_tally_adds_up():
    assert RewriteTally(3, 1, 2, 0) + RewriteTally(5, 5, 0, 1) == RewriteTally(8, 6, 2, 1)


def test_nested_slices_are_rebuilt_in_place(folder):
    """Arrow's child arrays know nothing of their parent's slice."""
    column = folder.column
    old, new = (
        pa.struct([column("x", 9, kind), column("l", 8, pa.list_(column("e", 7, kind)))])
        for kind in (pa.int32(), pa.int64())
    )
    mine, table = (
        column("m", 1, pa.map_(column("k", 2, pa.string(), False), column("v", 3, kind)))
        for kind in (old, new)
    )
    rows = [[("a", {"x": 1, "l": [1]})], None, [("b", None), ("c", {"x": 2, "l": [2, 3]})], []]
    convert = Matcher(TargetSchema(pa.schema([table])), "here", mapped=False).converter(mine, table)
    whole = pa.array(rows, mine.type)
    for start in range(4):
        made = convert(whole[start:])
        made.validate(full=True)
        assert made.type == table.type
        assert made.to_pylist() == rows[start:]
