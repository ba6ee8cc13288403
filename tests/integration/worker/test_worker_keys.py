"""Equality keys of every type and shape, judged by Iceberg's own readers."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from firnline_deletes.columns.fields import with_id

pytestmark = [pytest.mark.spark, pytest.mark.stack]
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999999)
TYPES = {
    "int": (-(2**31), 2**31 - 1),
    "long": (0, -(2**63)),
    "boolean": (False, True),
    "string": ("", "é" * 20),
    "date": (date(1, 1, 1), date(2026, 11, 21)),
    "time": (time(0), time(23, 59, 59, 999999)),
    "timestamp": (MOMENT, datetime(2026, 1, 1)),
    "timestamptz": (MOMENT.replace(tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    "decimal(9, 2)": (Decimal("-0.01"), Decimal("0.01")),
    "decimal(18, 4)": (Decimal("-1.0001"), Decimal("1.0001")),
    "decimal(38, 10)": (Decimal("-1e20"), Decimal("1e20")),
    "uuid": (bytes(16), bytes(range(16))),
    "fixed[3]": (b"\0\0\0", b"abc"),
    "binary": (b"", b"\xff\x00"),
    "timestamp_ns": (-1, 2**62),
    "timestamptz_ns": (0, 1),
}


def masked(result):
    return sum(group.rows_masked for group in result.groups)


def field(number, name, kind, required=False):
    return {"id": number, "name": name, "required": required, "type": kind}


def test_keys_of_every_type_and_a_key_of_all_types(foreign, rewritten):
    """Rows: the first values, the second ones, NULLs; each column's own delete takes a row that
    differs from the others only there."""
    count = len(TYPES)
    fields = [field(2 + n, f"c{n}", kind) for n, kind in enumerate(TYPES)]
    foreign.create(field(1, "id", "long"), *fields, **{"format-version": "3"})
    first, second = ({f"c{n}": v[i] for n, v in enumerate(TYPES.values())} for i in (0, 1))
    turned = [{"id": 100 + n, **first, f"c{n}": second[f"c{n}"]} for n in range(count)]
    foreign.append({"id": 1, **first}, {"id": 2, **second}, {"id": 3}, *turned)
    foreign.append({"id": 4, **first}, {"id": 5, **second})
    every = list(range(2, 2 + count))
    foreign.delete(every, first)
    foreign.delete(every, {})  # all NULL
    for n in range(0, count, 2):
        only = {**first, f"c{n}": second[f"c{n}"]}
        foreign.delete(every, only)
    assert len(foreign.rows()) == 2 + count // 2
    assert masked(rewritten(seen=foreign.rows)) == 3 + count // 2


@pytest.mark.parametrize("kinds", [tuple(TYPES)[:8], tuple(TYPES)[8:]])
def test_single_keys_of_every_type(foreign, rewritten, kinds):
    """One set per column; each takes the rows of its value, and one takes those of its NULL."""
    fields = [field(2 + n, f"c{n}", kind) for n, kind in enumerate(kinds)]
    foreign.create(field(1, "id", "long"), *fields, **{"format-version": "3"})
    rows = []
    for n, kind in enumerate(kinds):
        filler = {f"c{m}": TYPES[k][1] for m, k in enumerate(kinds)}
        rows += [{"id": n, **filler, f"c{n}": TYPES[kind][0]}, {"id": 50 + n, **filler}]
    foreign.append(*rows)
    foreign.append({"id": 99, **filler, "c0": None}, {"id": 98, **filler})
    for n, kind in enumerate(kinds):
        foreign.delete([2 + n], {f"c{n}": TYPES[kind][0]}, *([{}] if n == 0 else []))
    assert len(foreign.rows()) == len(kinds) + 1
    assert masked(rewritten(seen=foreign.rows)) == len(kinds) + 1


def test_keys_in_structs_and_a_struct_that_is_null(foreign, lab, rewritten):
    deep = {"type": "struct", "fields": [field(5, "x", "int"), field(6, "y", "string")]}
    foreign.create(
        field(1, "id", "long"),
        field(2, "s", {"type": "struct", "fields": [field(3, "a", "long"), field(4, "d", deep)]}),
    )
    foreign.append(
        {"id": 1, "s": {"a": 1, "d": {"x": 1, "y": "a"}}},
        {"id": 2, "s": {"a": 1, "d": {"x": 2, "y": "a"}}},
        {"id": 3, "s": {"a": 1, "d": None}},
        {"id": 4, "s": None},
        {"id": 5, "s": {"a": None, "d": {"x": None, "y": "b"}}},
    )
    foreign.append({"id": 6, "s": {"a": 2, "d": {"x": 1, "y": None}}})
    whole = pa.schema([foreign.schema.field("s"), foreign.schema.field("id")])
    foreign.delete([1, 5], {"id": 1, "s": {"a": 9, "d": {"x": 1, "y": "?"}}}, schema=whole)
    foreign.delete([3, 5], {"s": {"a": 1, "d": None}}, {"s": None}, schema=whole)
    foreign.append({"id": 7, "s": {"a": 2, "d": None}}, {"id": 8, "s": {"a": 2, "d": {"x": None}}})
    foreign.delete([5], {"s": {"a": 3, "d": None}}, schema=whole)
    # a NULL struct is another key than a struct of NULLs
    assert [row[0] for row in lab.rows()] == [2, 5, 6, 8]
    assert masked(rewritten()) == 4


def test_a_key_in_a_struct_has_its_default_where_there_is_a_struct(foreign, lab, rewritten):
    members = [field(3, "a", "int"), {**field(4, "b", "int"), "initial-default": 7}]
    foreign.create(
        field(1, "id", "long"),
        field(2, "s", {"type": "struct", "fields": members}),
        **{"format-version": "3"},
    )
    table = foreign.schema
    old = pa.schema([table.field("id"), table.field("s").with_type(
        pa.struct([table.field("s").type.field(0)]))])  # fmt: skip
    foreign.append({"id": 1, "s": {"a": 1}}, {"id": 2, "s": None}, {"id": 3, "s": {}}, schema=old)
    foreign.append({"id": 4, "s": {"a": 1, "b": 8}}, {"id": 5})
    foreign.delete([3, 4], {"s": {"a": 1, "b": 7}}, {"s": {"a": 1, "b": None}}, {"s": None},
                   schema=pa.schema([table.field("s")]))  # fmt: skip
    assert [row[0] for row in lab.rows()] == [3, 4]
    assert masked(rewritten()) == 3


def test_delete_files_with_more_columns_in_another_order(foreign, lab, rewritten):
    foreign.create(field(1, "a", "int"), field(2, "b", "int"), field(3, "c", "string"))
    foreign.append({"a": 1, "b": 2, "c": "x"}, {"a": 2, "b": 1, "c": "x"})
    foreign.append({"a": 2, "b": 1, "c": None}, {"a": 1, "b": 2, "c": "z"})
    table = foreign.schema
    turned = pa.schema([table.field(name) for name in ("c", "b", "a")])
    foreign.delete([1, 2], {"c": "not a key", "b": 2, "a": 1}, schema=turned)
    foreign.delete([2, 1], {"b": 1, "a": 3}, schema=turned)
    foreign.delete([3], {"c": None, "b": 7, "a": 7}, schema=turned)
    assert lab.rows() == [(2, 1, "x")]
    assert masked(rewritten()) == 3


def test_keys_that_were_renamed_widened_and_dropped(foreign, lab, rewritten):
    foreign.create(field(1, "i", "int"), field(2, "d", "decimal(9, 2)"), field(3, "g", "string"))
    foreign.append({"i": 1, "d": Decimal("1.5"), "g": "x"}, {"i": 2, "d": Decimal("2.5")})
    foreign.append({"i": -1, "d": None, "g": "y"}, {"i": 3, "g": "z"})
    foreign.delete([1, 2], {"i": 1, "d": Decimal("1.5")}, {"i": 2, "d": None})
    foreign.delete([3], {"g": "y"})
    lab.sql("ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT")
    lab.sql("ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(20,2)")
    lab.sql("ALTER TABLE {t} RENAME COLUMN i TO j")
    lab.sql("ALTER TABLE {t} DROP COLUMN g")
    lab.sql("ALTER TABLE {t} ADD COLUMN h STRING")  # as `g` again, no reader of Iceberg can read it
    foreign.append({"j": 2**40, "d": Decimal("1.5"), "h": "y"}, {"j": 2, "h": "y"})
    foreign.delete([1], {"j": 2**40})
    foreign.append({"j": 5, "h": "z"})
    foreign.delete([4], {"h": "z"})
    assert [row[0] for row in lab.rows()] == [2, 2, 3]
    assert masked(rewritten()) == 4


def test_a_key_that_no_old_file_has_is_null_there(foreign, lab, rewritten):
    foreign.create(field(1, "id", "long"), field(2, "k", "uuid"))
    old = pa.schema([with_id(pa.field("id", pa.int64()), 1)])
    foreign.append({"id": 1}, {"id": 2}, schema=old)
    foreign.append({"id": 3, "k": bytes(16)}, {"id": 4})
    foreign.delete([1, 2], {"id": 1, "k": None}, {"id": 2, "k": bytes(16)}, {"id": 4})
    assert [row[0] for row in lab.rows()] == [2, 3]
    assert masked(rewritten()) == 2
