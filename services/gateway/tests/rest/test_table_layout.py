"""Sort order and partition spec of a loaded table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from firnline_domain.records.events import PartitionClock, TableLayout
from firnline_gateway.rest.table_layout import Loaded, loaded_table


def source(number: int | None, transform: str = "identity", **more: Any) -> dict[str, Any]:
    found = {"transform": transform, "name": "p", "field-id": 1000, "direction": "asc"}
    return found | ({} if number is None else {"source-id": number}) | more


FIELDS = [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {
        "id": 2,
        "name": "point",
        "required": False,
        "type": {"type": "struct", "fields": [{"id": 3, "name": "x", "type": "double"}]},
    },
    {"id": 4, "name": "tags", "type": {"type": "list", "element-id": 5, "element": "string"}},
    {"id": 6, "name": "ts", "type": "timestamptz"},
]


def answer(order: list[Any], spec: list[Any], **more: Any) -> bytes:
    """As catalogs write it, shortened."""
    metadata = {
        "format-version": 2,
        "table-uuid": "u",
        "current-schema-id": 1,
        "schemas": [{"schema-id": 0, "fields": []}, {"schema-id": 1, "fields": FIELDS}],
        "default-spec-id": 2,
        "partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 2, "fields": spec}],
        "default-sort-order-id": 3,
        "sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 3, "fields": order}],
        "snapshots": [{"snapshot-id": 1}],
        **more,
    }
    return json.dumps({"metadata-location": "s3://x", "metadata": metadata}).encode()


@pytest.mark.parametrize(
    ("order", "spec", "layout"),
    [
        ([], [], TableLayout()),
        ([source(1), source(3)], [], TableLayout(("id", "point.x"))),
        ([source(6, "day"), source(1)], [], TableLayout(("ts", "id"))),
        ([source(1, "bucket[4]"), source(6)], [], TableLayout()),
        ([source(1), source(99), source(6)], [], TableLayout(("id",))),
        ([source(1), source(None, "zorder", **{"source-ids": [1, 6]})], [], TableLayout(("id",))),
        (
            [],
            [source(6, "day"), source(1, "bucket[4]")],
            TableLayout((), ("ts", "id"), PartitionClock(2, 0, "day", "ts")),
        ),
        (  # the finest
            [],
            [source(6, "void"), source(6, "month"), source(1), source(6, "hour")],
            TableLayout((), ("ts", "id", "ts"), PartitionClock(2, 3, "hour", "ts")),
        ),
        (
            [],
            [source(6)],
            TableLayout((), ("ts",), PartitionClock(2, 0, "hour", "ts")),
        ),
        ([], [source(6, "void"), source(99), source(1)], TableLayout((), ("id",))),
    ],
)
def test_layout(order: list[Any], spec: list[Any], layout: TableLayout) -> None:
    assert loaded_table(answer(order, spec)) == Loaded("u", layout)


def test_a_table_without_an_order_may_have_none_listed() -> None:
    body = answer([], [], **{"default-sort-order-id": 0, "sort-orders": []})
    assert loaded_table(body) == Loaded("u", TableLayout())


@pytest.mark.parametrize(
    "more",
    [
        {"schemas": []},
        {"schemas": "x"},
        {"schemas": [{"schema-id": 1, "fields": [{"id": "1", "name": "x", "type": "long"}]}]},
        {"partition-specs": []},
        {"sort-orders": [7]},
    ],
)
def test_a_layout_that_nobody_can_read_hides_itself_alone(more: dict[str, Any]) -> None:
    assert loaded_table(answer([source(1)], [], **more)) == Loaded("u")


def test_an_answer_without_a_table() -> None:
    assert loaded_table(b'{"metadata": {"table-uuid": "u"}}') == Loaded("u")
    for body in (b"", b"{}", b'{"metadata": {}}', b'{"metadata": {"table-uuid": 7}}'):
        assert loaded_table(body) is None
