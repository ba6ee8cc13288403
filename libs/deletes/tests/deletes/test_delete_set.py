from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.columns.hashing import BLOCK_ROWS
from firnline_deletes.columns.keys import KeyField, KeyReader
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes import build as building
from firnline_deletes.deletes import delete_set
from firnline_deletes.deletes.delete_set import delete_set_id, open_mapped
from firnline_deletes.files.parquet import SequencedFile
from firnline_deletes.unsupported_files import UnsupportedFile

LEGAL = [
    (pa.bool_(), [True, False]),
    (pa.int32(), [0, -1, 2**31 - 1]),
    (pa.int64(), [0, -1, 2**63 - 1]),
    (pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 1, 1)]),
    (pa.time64("us"), [dt.time(0, 0), dt.time(23, 59, 59, 999999)]),
    (pa.timestamp("us"), [dt.datetime(1960, 1, 1), dt.datetime(2026, 1, 1, 1, 1, 1, 7)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
    (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-12.34")]),
    (pa.decimal128(38, 10), [Decimal("12345678901234567890.5"), Decimal("-0.5")]),
    (pa.string(), ["", "a", "naïve ☃", "x" * 100, "x" * 101]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"12345678", b"123456789"]),
    (pa.binary(16), [uuid.UUID(int=7).bytes, uuid.UUID(int=7 << 64).bytes]),
    (pa.binary(3), [b"abc", b"abd"]),
]


def dead(chosen: Any, data_sequence: int, **columns: Any) -> list[bool]:
    """`dead` of columns given as c<id>=array."""
    rows = {int(name[1:]): array for name, array in columns.items()}
    return [bool(x) for x in chosen.find_deleted(rows, data_sequence)]


@pytest.mark.parametrize(("kind", "values"), LEGAL, ids=lambda v: str(v)[:20])
def test_every_legal_type_matches_its_own_values_and_null_matches_null(folder, kind, values):
    schema = pa.schema([folder.column("k", 1, kind)])
    for chosen in [*values, None]:
        file = folder.file(5, schema, [(chosen,)])
        made = building.build_delete_set([file], [KeyField(1, kind)], folder.open)
        probe = pa.array([*values, None], kind)
        assert dead(made, 4, c1=probe) == [value == chosen for value in [*values, None]]


@pytest.mark.parametrize(("kind", "values"), LEGAL, ids=lambda v: str(v)[:20])
def test_a_type_works_in_a_composite_key_too(folder, kind, values):
    schema = pa.schema([folder.column("k", 1, kind), folder.column("n", 2, pa.int32())])
    file = folder.file(5, schema, [(values[0], None), (None, 1)])
    keys = [KeyField(1, kind), KeyField(2, pa.int32())]
    made = building.build_delete_set([file], keys, folder.open)
    ones, twos = pa.array([values[0], values[0], None, None], kind), pa.array([None, 1, 1, None])
    assert dead(made, 4, c1=ones, c2=twos.cast(pa.int32())) == [True, False, True, False]


def test_the_sequence_test_is_strict_and_keeps_the_highest(folder):
    schema = pa.schema([folder.column("k", 1, pa.int64())])
    files = [folder.file(3, schema, [(1,)]), folder.file(7, schema, [(1,)])]
    made = building.build_delete_set(files, [KeyField(1, pa.int64())], folder.open)
    probe = pa.array([1, 2])
    assert dead(made, 6, c1=probe) == [True, False]
    assert dead(made, 7, c1=probe) == [False, False]
    assert made.highest_sequence == 7
    assert len(made) == 1


def test_only_key_columns_count_whatever_the_files_order_and_names(folder):
    one = pa.schema([folder.column("b", 2, pa.string()), folder.column("a", 1, pa.int64())])
    two = pa.schema(
        [
            folder.column("renamed", 1, pa.int64()),
            folder.column("payload", 9, pa.float64()),
            folder.column("b", 2, pa.string()),
        ]
    )
    files = [folder.file(2, one, [("x", 1)]), folder.file(2, two, [(2, float("nan"), "y")])]
    keys = [KeyField(2, pa.string()), KeyField(1, pa.int64())]
    made = building.build_delete_set(files, keys, folder.open)
    a, b = pa.array([1, 2, 1]), pa.array(["x", "y", "y"])
    assert dead(made, 1, c1=a, c2=b) == [True, True, False]


def test_old_narrow_columns_are_read_as_the_tables_type(folder):
    old = folder.file(2, pa.schema([folder.column("k", 1, pa.int32())]), [(7,)])
    made = building.build_delete_set([old], [KeyField(1, pa.int64())], folder.open)
    assert dead(made, 1, c1=pa.array([7, 7 + 2**32])) == [True, False]


def test_a_null_struct_is_another_key_than_a_struct_of_nulls(folder):
    inner = pa.struct([folder.column("x", 2, pa.int64()), folder.column("y", 3, pa.int64())])
    schema = pa.schema([folder.column("s", 1, inner), folder.column("k", 4, pa.int64())])
    keys = [KeyField(2, pa.int64()), KeyField.of_struct(1)]
    null, nulls, one = None, {"x": None, "y": 1}, {"x": 1, "y": None}
    data = pq.ParquetFile(folder.file(1, schema, [(null, 1), (nulls, 1), (one, 1)]).path)
    bare = pq.ParquetFile(folder.file(1, pa.schema([schema.field("k")]), [(1,)]).path)
    other = pa.schema([folder.column("s", 1, pa.struct([inner.field("y")]))])
    without = pq.ParquetFile(folder.file(1, other, [(null,), ({"y": 7},)]).path)
    for row, expected in (
        (null, [[True, False, False], [True], [True, False]]),
        (nulls, [[False, True, False], [False], [False, True]]),
        (one, [[False, False, True], [False], [False, False]]),
    ):
        made = building.build_delete_set([folder.file(2, schema, [(row, 1)])], keys, folder.open)
        for file, dead in zip((data, bare, without), expected, strict=True):
            reader = KeyReader(file, keys, "here", TargetSchema(schema))
            (arrays,) = reader.read_batches(10, [0])
            assert made.find_deleted(arrays, 1).tolist() == dead
    target = TargetSchema(schema, absent={2: pa.array([1])}, structs={2: 1, 3: 1})
    (arrays,) = KeyReader(without, keys, "here", target).read_batches(10, [0])
    assert arrays[2].to_pylist() == [None, 1]  # its default, where there is a struct
    (arrays,) = KeyReader(bare, keys, "here", target).read_batches(10, [0])
    assert arrays[2].to_pylist() == [None]


def test_equal_index_values_are_told_apart_by_the_keys(folder, monkeypatch):
    flat = lambda columns: np.zeros(len(columns[0]), dtype=np.uint64)  # noqa: E731
    monkeypatch.setattr(delete_set, "index_values", flat)
    monkeypatch.setattr(building, "index_values", flat)
    schema = pa.schema([folder.column("k", 1, pa.string())])
    file = folder.file(2, schema, [("a",), ("b",), (None,)])
    made = building.build_delete_set([file], [KeyField(1, pa.string())], folder.open)
    probe = pa.array(["b", "c", None, "a", ""])
    assert dead(made, 1, c1=probe) == [True, False, True, True, False]


def test_zero_and_null_share_an_index_value_only(folder):
    null_index = 0x9E3779B97F4A7C15 - 2**64
    schema = pa.schema([folder.column("k", 1, pa.int64())])
    file = folder.file(2, schema, [(null_index,)])
    made = building.build_delete_set([file], [KeyField(1, pa.int64())], folder.open)
    assert dead(made, 1, c1=pa.array([None, null_index], pa.int64())) == [False, True]


def test_a_published_set_answers_from_its_mapped_file(folder):
    schema = pa.schema([folder.column("s", 1, pa.string()), folder.column("n", 2, pa.int64())])
    file = folder.file(2, schema, [("a", 1), (None, 2), ("c", None)])
    keys = [KeyField(1, pa.string()), KeyField(2, pa.int64())]
    path = folder.root / "set.arrow"
    building.build_delete_set([file], keys, folder.open).write_to(path)
    before = pa.total_allocated_bytes()
    made = open_mapped(path)
    assert pa.total_allocated_bytes() - before < 4096
    probe = {"c1": pa.array(["a", None, "c", "c"]), "c2": pa.array([1, 2, None, 1])}
    assert dead(made, 1, **probe) == [True, True, True, False]
    assert made.keys == tuple(keys)


def test_an_empty_set_kills_nothing(folder):
    schema = pa.schema([folder.column("k", 1, pa.string())])
    made = building.build_delete_set(
        [folder.file(2, schema, [])], [KeyField(1, pa.string())], folder.open
    )
    assert dead(made, 0, c1=pa.array(["a", None])) == [False, False]
    assert made.highest_sequence < 0


def test_folding_while_reading_gives_the_same_set(folder, monkeypatch):
    monkeypatch.setattr(building, "_FOLD_ROWS", 2)
    schema = pa.schema([folder.column("k", 1, pa.int64())])
    files = [folder.file(n, schema, [(1,), (n,)]) for n in range(2, 9)]
    made = building.build_delete_set(files, [KeyField(1, pa.int64())], folder.open)
    assert len(made) == 8
    assert dead(made, 7, c1=pa.array([1, 8, 7])) == [True, True, False]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_float_keys_are_refused(folder, kind):
    with pytest.raises(UnsupportedFile) as refused:
        building.build_delete_set([], [KeyField(1, kind)], folder.open)
    assert refused.value.reason == "float_key"


@pytest.mark.parametrize(
    ("reason", "make"),
    [
        ("delete_key_missing", lambda f: pa.schema([f.column("k", 2, pa.int64())])),
        ("type_differs", lambda f: pa.schema([f.column("k", 1, pa.string())])),
        ("key_in_collection", lambda f: pa.schema([f.column("l", 5, nested(f))])),
    ],
)
def test_a_delete_file_that_cannot_be_read_by_id_is_refused(folder, reason, make):
    file = folder.file(2, make(folder), [])
    with pytest.raises(UnsupportedFile) as refused:
        building.build_delete_set([file], [KeyField(1, pa.int64())], folder.open)
    assert refused.value.reason == reason


def nested(folder: Any) -> pa.DataType:
    return pa.list_(folder.column("element", 1, pa.int64()))


def test_identity_is_the_exact_list():
    keys = [KeyField(1, pa.int64()), KeyField(2, pa.string())]
    files = [SequencedFile("a", 1), SequencedFile("b", 2)]
    same = delete_set_id("t/0/[]", keys[::-1], files[::-1])
    assert delete_set_id("t/0/[]", keys, files) == same
    others = [
        delete_set_id("t/1/[]", keys, files),
        delete_set_id("t/0/[]", keys[:1], files),
        delete_set_id("t/0/[]", keys, files[:1]),
        delete_set_id("t/0/[]", keys, [SequencedFile("a", 1), SequencedFile("b", 3)]),
        delete_set_id("t/0/[]", [KeyField(1, pa.int32()), keys[1]], files),
    ]
    assert len({same, *others}) == 6


def test_a_column_of_one_value_is_compared_though_not_stored(folder):
    schema = pa.schema([folder.column("p", 1, pa.string()), folder.column("k", 2, pa.int64())])
    file = folder.file(2, schema, [("a", 1), ("a", 2), ("a", None)])
    keys = [KeyField(1, pa.string()), KeyField(2, pa.int64())]
    path = folder.root / "set.arrow"
    building.build_delete_set([file], keys, folder.open).write_to(path)
    made = open_mapped(path)
    assert set(made.constants) == {1}
    assert not made.columns  # the other column's bits decide
    probe = {"c1": pa.array(["a", "b", "a", None, "a", "b"]), "c2": [1, 1, 3, 1, None, None]}
    assert dead(made, 1, c1=probe["c1"], c2=pa.array(probe["c2"])) == [
        True, False, False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("probe", [["ab", "cd"], ["ab", "abc"], ["ab", None], [None, None]])
def test_strings_of_one_length_match_those_of_many(folder, probe):
    schema = pa.schema([folder.column("k", 1, pa.string())])
    for values in (["ab", "xy"], ["ab", "a", None]):
        file = folder.file(2, schema, [(value,) for value in values])
        made = building.build_delete_set([file], [KeyField(1, pa.string())], folder.open)
        expected = [value in values for value in probe]
        assert dead(made, 1, c1=pa.array(probe, pa.string())) == expected
        encoded = pa.array(probe, pa.string()).dictionary_encode()
        assert dead(made, 1, c1=encoded) == expected


def test_blocks_of_many_rows_answer_as_one(folder):
    rows = 3 * BLOCK_ROWS // 2
    schema = pa.schema([folder.column("k", 1, pa.string())])
    file = folder.file(2, schema, [(f"{n}",) for n in range(0, rows, 3)], group_rows=rows)
    made = building.build_delete_set([file], [KeyField(1, pa.string())], folder.open)
    probe = pa.array([f"{n}" for n in range(rows)])
    assert dead(made, 1, c1=probe) == [n % 3 == 0 for n in range(rows)]
