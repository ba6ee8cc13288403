"""Files of every shape that a history leaves: what they lack, and what they call otherwise."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from firnline_deletes.columns.fields import with_id

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def masked(result):
    return sum(group.rows_masked for group in result.groups)


def field(number, name, kind, required=False, **more):
    return {"id": number, "name": name, "required": required, "type": kind, **more}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def listed(number, element):
    return {"type": "list", "element-id": number, "element-required": False, "element": element}


def column(name, number, kind, nullable=True):
    return with_id(pa.field(name, kind, nullable), number)


ID = column("id", 1, pa.int64())
DEFAULTS = [
    ("int", 7),
    ("long", -(2**40)),
    ("float", 1.5),
    ("double", -0.25),
    ("boolean", True),
    ("string", "since then"),
    ("date", "1969-12-31"),
    ("timestamp", "2026-01-02T03:04:05.000006"),
    ("timestamptz", "2026-01-02T03:04:05.000006+00:00"),
    ("decimal(9, 2)", "1.50"),
    ("decimal(30, 5)", "-12345678901234567890.12345"),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("fixed[3]", "0a0b0c"),
    ("binary", "00ff"),
]


def test_defaults_of_every_type_are_written_into_the_rows(foreign, lab, rewritten):
    foreign.create(
        field(1, "id", "long"),
        *(
            field(2 + n, f"c{n}", kind, n % 2 == 0, **{"initial-default": value})
            for n, (kind, value) in enumerate(DEFAULTS)
        ),
        **{"format-version": "3"},
    )
    old = pa.schema([ID])
    foreign.append({"id": 1}, {"id": 2}, {"id": None}, schema=old)
    foreign.append({"id": 3}, schema=old)
    foreign.delete([1], {"id": 2})
    before = foreign.rows()
    assert len(before) == 3
    assert len(set(before[0])) > len(DEFAULTS)  # they are there, not NULL
    assert masked(rewritten()) == 1
    assert foreign.rows() == before
    for schema in foreign.written():
        assert len(schema.names) == 1 + len(DEFAULTS) + 2  # and the lineage


def test_keys_on_a_column_that_came_later_match_its_default(foreign, lab, rewritten):
    foreign.create(
        field(1, "id", "long"),
        field(2, "grade", "int", **{"initial-default": 5}),
        field(3, "tag", "string"),
        **{"format-version": "3"},
    )
    foreign.append({"id": 1}, {"id": 2}, schema=pa.schema([ID]))
    foreign.append({"id": 3, "grade": 6, "tag": "x"}, {"id": 4, "grade": None, "tag": None})
    foreign.delete([1, 2], {"id": 1, "grade": 5}, {"id": 2, "grade": None})
    foreign.delete([2, 3], {"grade": 6, "tag": None}, {"grade": None, "tag": None})
    assert [row[0] for row in lab.rows()] == [2, 3]
    assert masked(rewritten()) == 2


def test_defaults_inside_structs(foreign, lab, rewritten):
    inner = [field(4, "x", "int"), field(5, "y", "string", **{"initial-default": "y"})]
    element = [field(7, "x", "int"), field(8, "z", "long", True, **{"initial-default": 9})]
    foreign.create(
        field(1, "id", "long"),
        field(2, "s", struct(*inner)),
        field(3, "l", listed(6, struct(*element))),
        **{"format-version": "3"},
    )
    old = pa.schema(
        [
            ID,
            column("s", 2, pa.struct([column("x", 4, pa.int32())])),
            column("l", 3, pa.list_(column("e", 6, pa.struct([column("x", 7, pa.int32())])))),
        ]
    )
    rows = [
        {"id": 1, "s": {"x": 1}, "l": [{"x": 1}, None]},
        {"id": 2, "s": None, "l": []},
        {"id": 3, "s": {"x": None}, "l": None},
    ]
    foreign.append(*rows, schema=old)
    foreign.append({"id": 4}, schema=pa.schema([ID]))
    foreign.delete([1], {"id": 3})
    assert masked(rewritten()) == 1
    assert lab.rows("s.y") == [("y",), (None,), (None,)]


def test_a_struct_of_which_a_file_has_no_member_that_is_left(foreign, lab, rewritten):
    foreign.create(field(1, "id", "long"), field(2, "s", struct(field(3, "y", "string"))))
    old = pa.schema([ID, column("s", 2, pa.struct([column("gone", 9, pa.int32())]))])
    foreign.append({"id": 1, "s": {"gone": 1}}, {"id": 2, "s": None}, schema=old)
    foreign.append({"id": 3, "s": {"y": "a"}})
    foreign.delete([1], {"id": 9})
    rewritten()
    assert lab.rows("s IS NULL") == [(False,), (False,), (True,)]


def test_nanoseconds_and_times(foreign, rewritten):
    foreign.create(
        field(1, "id", "long"),
        field(2, "n", "timestamp_ns"),
        field(
            3, "z", "timestamptz_ns", **{"initial-default": "2026-01-01T00:00:00.123456789+00:00"}
        ),
        field(4, "t", "time"),
        **{"format-version": "3"},
    )
    foreign.append({"id": 1, "n": 1, "z": -1, "t": time(1, 2, 3, 4)}, {"id": 2})
    foreign.append(
        {"id": 3, "n": 2**60, "t": time(1)},
        schema=pa.schema([f for f in foreign.schema if f.name != "z"]),
    )
    foreign.delete([2], {"n": 1})
    foreign.delete([4], {"t": time(1)}, {"t": None})
    foreign.append({"id": 4, "n": 1, "t": time(1)})
    assert len(foreign.rows()) == 1
    assert masked(rewritten(seen=foreign.rows)) == 3


def test_columns_of_identity_partitions_that_files_leave_out(foreign, lab, rewritten):
    kinds = ["int", "string", "date", "timestamptz", "decimal(9, 2)", "binary", "boolean", "uuid"]
    fields = [field(2 + n, f"p{n}", kind) for n, kind in enumerate(kinds)]

    def by(spec):
        for one in fields:
            spec = spec.identity(one["name"])
        return spec

    foreign.create(field(1, "id", "long"), *fields, partition=by)
    given = [5, "a b", date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.25"), b"\1\2",
             True, bytes(range(16))]  # fmt: skip
    row = {f"p{n}": value for n, value in enumerate(given)}
    lab.sql(
        "INSERT INTO {t} VALUES (1, 5, 'a b', DATE '2026-01-02', TIMESTAMP '2026-01-02 00:00:00Z',"
        " 1.25, X'0102', true, '00010203-0405-0607-0809-0a0b0c0d0e0f')"
    )
    lab.sql("INSERT INTO {t} SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL")
    full, empty = sorted(lab.scopes(), key=lambda scope: "null" in scope.partition)
    for partition in (full, empty):
        foreign.append({"id": 3}, {"id": 4}, schema=pa.schema([ID]), scope=partition)
    foreign.delete([1, 2, 3, 6], {"id": 3, **row}, scope=full)
    foreign.delete([1, 2, 3], {"id": 4}, scope=empty)
    assert len(lab.rows()) == 4
    assert masked(rewritten(full)) == 1
    assert masked(rewritten(empty)) == 1


NAMES = [
    {"field-id": 1, "names": ["id", "key"]},
    {"field-id": 2, "names": ["s"], "fields": [{"field-id": 5, "names": ["x"]}]},
    {"field-id": 3, "names": ["l"], "fields": [
        {"field-id": 6, "names": ["element"], "fields": [{"field-id": 7, "names": ["a"]}]}]},
]  # fmt: skip


def test_files_without_ids_are_read_by_the_tables_name_mapping(foreign, lab, rewritten):
    foreign.create(
        field(1, "id", "long"),
        field(2, "s", struct(field(5, "x", "long"))),
        field(3, "l", listed(6, struct(field(7, "a", "int")))),
        field(4, "later", "string"),
        **{"schema.name-mapping.default": json.dumps(NAMES)},
    )
    plain = pa.schema(
        [
            pa.field("noise", pa.string()),
            pa.field("key", pa.int32()),
            pa.field(
                "l", pa.list_(pa.struct([pa.field("b", pa.int32()), pa.field("a", pa.int32())]))
            ),
            pa.field("s", pa.struct([pa.field("x", pa.int64()), pa.field("later", pa.int64())])),
        ]
    )
    foreign.append(
        {"noise": "!", "key": 1, "l": [{"b": 1, "a": 2}], "s": {"x": 3, "later": 4}},
        {"noise": "!", "key": 2, "l": None, "s": None},
        {"noise": "!", "key": None, "l": [], "s": {"x": 5}},
        schema=plain,
    )
    foreign.append({"id": 7, "s": {"x": 5}, "later": "now"})
    foreign.delete([1], {"id": 2})
    foreign.delete([5], {"s": {"x": 3}}, schema=pa.schema([foreign.schema.field("s")]))
    assert len(lab.rows()) == 2
    assert masked(rewritten()) == 2


def test_a_column_of_unknown_type_is_not_stored(foreign, lab, rewritten):
    foreign.create(field(1, "id", "long"), field(2, "u", "unknown"), **{"format-version": "3"})
    stored = pa.schema([ID])
    foreign.append({"id": 1}, {"id": 2}, schema=stored)
    foreign.append({"id": 3}, schema=stored)
    foreign.delete([1], {"id": 2})
    assert len(foreign.rows()) == 2
    rewritten(seen=foreign.rows)
    assert "u" not in foreign.written()[0].names


def test_narrow_integers_of_other_writers(foreign, lab, rewritten):
    foreign.create(field(1, "id", "long"), field(2, "a", "int"), field(3, "b", "long"))
    old = pa.schema([ID, column("a", 2, pa.int8()), column("b", 3, pa.int16())])
    row = {"a": -128, "b": 32767}
    foreign.append({"id": 1, **row}, {"id": 2, "a": -1, "b": -1}, {"id": 3}, schema=old)
    foreign.append({"id": 4, **row}, {"id": 5, "a": 2**31 - 1, "b": -1})
    foreign.delete([2, 3], row, {})
    assert [r[0] for r in lab.rows()] == [2, 5]
    assert masked(rewritten()) == 3


def test_instants_of_hive(foreign, lab, rewritten):
    """Imported as they are: INT96, and no field ids."""
    names = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["t"]}]
    foreign.create(
        field(1, "id", "long"),
        field(2, "t", "timestamptz"),
        **{"schema.name-mapping.default": json.dumps(names)},
    )
    moments = [datetime(1969, 1, 1, 1, 1, 1, 7, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]
    rows = [{"id": n, "t": moment} for n, moment in enumerate([*moments, None])]
    old = pa.schema([pa.field("id", pa.int64()), pa.field("t", pa.timestamp("us"))])
    foreign.append(*rows, schema=old, use_deprecated_int96_timestamps=True)
    foreign.append({"id": 3, "t": moments[0]}, {"id": 4, "t": moments[1]})
    foreign.delete([2], {"t": moments[1]})
    assert [row[0] for row in lab.rows()] == [0, 2, 3]
    assert masked(rewritten()) == 2


def test_milliseconds_are_handed_over(foreign, lab, rewriter, in_thread):
    foreign.create(field(1, "id", "long"), field(2, "t", "timestamp"))
    foreign.append({"id": 1, "t": 1}, schema=pa.schema([ID, column("t", 2, pa.timestamp("ms"))]))
    foreign.delete([1], {"id": 2})
    result = in_thread(rewriter.rewrite, lab.order(), lambda _: None)
    assert result.handover_reason == "type_differs"


def test_files_without_ids_and_without_a_mapping_are_handed_over(foreign, lab, rewriter, in_thread):
    foreign.create(field(1, "id", "long"))
    foreign.append({"id": 1}, schema=pa.schema([pa.field("id", pa.int64())]))
    foreign.delete([1], {"id": 2})
    result = in_thread(rewriter.rewrite, lab.order(), lambda _: None)
    assert result.handover_reason == "no_field_ids"
