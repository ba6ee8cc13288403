"""What is told of a table's columns, from metadata alone."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from firnline_deletes.columns.keys import KeyField
from firnline_domain.identity import Scope, TableName
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_worker.plan.columns import find_type, key_fields, name_mapping, target_schema
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import LongType


def field(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


DEEP = {"type": "struct", "fields": [field(7, "x", "int", **{"initial-default": 3})]}
OLD = [field(1, "id", "int"), field(2, "day", "date"), field(3, "gone", "string")]
NOW = [
    field(1, "id", "long"),
    field(2, "day", "date", **{"initial-default": "1970-01-02"}),
    field(4, "u", "uuid", **{"initial-default": "00000000-0000-0000-0000-000000000007"}),
    field(5, "s", {"type": "struct", "fields": [field(6, "deep", DEEP)]}),
    field(8, "nothing", "unknown"),
]


def table(properties: dict[str, str] | None = None, version: int = 3) -> LoadedTable:
    parts = [
        {"source-id": 2, "field-id": 1000, "name": "day", "transform": "identity"},
        {"source-id": 3, "field-id": 1001, "name": "gone", "transform": "identity"},
        {"source-id": 1, "field-id": 1002, "name": "b", "transform": "bucket[4]"},
    ]
    body = {
        "format-version": version, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:/t", "last-sequence-number": 1, "last-updated-ms": 1,
        "last-column-id": 8, "current-schema-id": 0, "default-spec-id": 1,
        # the current schema need not have the highest id
        "schemas": [{"type": "struct", "schema-id": 1, "fields": OLD},
                    {"type": "struct", "schema-id": 0, "fields": NOW}],
        "partition-specs": [{"spec-id": 1, "fields": parts}], "last-partition-id": 1002,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": properties or {}, "next-row-id": 0,
    }  # fmt: skip
    name = TableName("9c12d441-03fe-4693-9a96-a0705ddf69c1", ("n",), "t")
    return LoadedTable(name, TableMetadataUtil.parse_obj(body), PyArrowFileIO(), "m")


def values(shape: Any) -> dict[int, Any]:
    return {number: array[0].as_py() for number, array in shape.absent.items()}


def test_a_partitions_value_comes_before_the_default() -> None:
    shape = target_schema(table(), Scope(1, '["2026-01-02","a",3]'))
    expected = {2: date(2026, 1, 2), 3: "a", 4: (7).to_bytes(16, "big"), 7: 3}
    assert values(shape) == expected
    assert shape.absent[4].type == pa.binary(16)


def test_a_null_partition_is_a_value_too() -> None:
    assert values(target_schema(table(), Scope(1, "[null,null,null]")))[2] is None


def test_a_date_that_python_cannot_hold_is_unknown() -> None:
    shape = target_schema(table(), Scope(1, '["+10000-01-01","a",3]'))
    assert shape.unknown == {2}


def test_what_is_written() -> None:
    shape = target_schema(table(), Scope(1, "[null,null,null]"))
    lineage = ["_row_id", "_last_updated_sequence_number"]
    assert shape.output_schema.names == ["id", "day", "u", "s", *lineage]
    assert shape.structs == {6: 5, 7: 6}
    assert not target_schema(table(version=2), Scope(1, "[null,null,null]")).lineage


def test_keys_have_the_newest_type_and_bring_their_structs() -> None:
    assert find_type(table(), 1) == LongType()
    assert key_fields(table(), (1, 3)) == (KeyField(1, pa.int64()), KeyField(3, pa.string()))
    deep = (KeyField(7, pa.int32()), KeyField.of_struct(5), KeyField.of_struct(6))
    assert key_fields(table(), (7,)) == deep
    assert key_fields(table(), (99,)) == (KeyField(99, pa.null()),)


@pytest.mark.parametrize("text", ["{", "[1]", '[{"field-id": 1}]', "7"])
def test_a_name_mapping_that_is_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  JSON's own error is one
        name_mapping(table({"schema.name-mapping.default": text}))


def test_a_name_mapping() -> None:
    text = '[{"field-id": 1, "names": ["id", "key"]}]'
    names = name_mapping(table({"schema.name-mapping.default": text}))
    assert names is not None
    assert {name: one.id for name, one in names.items()} == {"id": 1, "key": 1}
    assert name_mapping(table()) is None
