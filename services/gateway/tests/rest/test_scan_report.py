"""What a report says of a scan, and by which columns its filter leaves files out (as Iceberg's
`ExpressionParser` writes it)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from firnline_gateway.rest.routes import TableRoute, reported_table, table_names
from firnline_gateway.rest.scan_report import (
    MAX_COLUMNS,
    MAX_DEPTH,
    MAX_FILTER_BYTES,
    Scan,
    UnreadableReport,
    _filter_columns,
    _filter_of,
    _limit_columns,
    scan_of,
)
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.tests.scan_report import encoded, report

TABLE = "/v1/w/namespaces/a%1Fb/tables/t"


def test_a_scan_report_says_how_many_files_were_read() -> None:
    assert scan_of(encoded(7)) == Scan(7, frozenset({"day"}))
    assert scan_of(encoded(0, filter=True)) == Scan(0)
    assert scan_of(encoded(kind="commit-report", metrics={})) is None
    assert scan_of(encoded(kind="of-next-year")) is None


def test_a_filter_that_is_none_leaves_the_scan() -> None:
    assert scan_of(encoded(7, filter="x")) == Scan(7)
    assert scan_of(json.dumps({**report(7), "filter": {"type": ["eq"]}}).encode()) == Scan(7)
    without = report(7)
    del without["filter"]
    assert scan_of(json.dumps(without).encode()) == Scan(7)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"report-type":"scan-report","filter":' + b"[" * 500_000,
        b"null",
        encoded()[:-1],
        encoded(-1),
        encoded(2**70),
        encoded("many"),
        encoded(metrics={}),
        encoded(metrics=None),
        encoded(kind=7),
        b'{"metrics":{"result-data-files":{"value":1}}}',
    ],
)
def test_what_is_no_scan_report_is_told_from_one(body: bytes) -> None:
    with pytest.raises(UnreadableReport):
        scan_of(body)


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("POST", f"{TABLE}/metrics", TableRoute("/v1/w", "a%1Fb", "t")),
        ("POST", "/v1/namespaces/a/tables/t/metrics?x=1", TableRoute("/v1", "a", "t")),
        ("GET", f"{TABLE}/metrics", None),
        ("POST", TABLE, None),
        ("POST", "/v1/namespaces/a/views/t/metrics", None),
        ("POST", f"{TABLE}/plan", None),
    ],
)
def test_calls_that_report_are_found(method: str, path: str, found: TableRoute | None) -> None:
    assert reported_table(method, path) == found


def test_a_tables_names_are_the_same_however_a_client_spells_them() -> None:
    spelt = [TableRoute("/v1", "a%1Fb", "t%20"), TableRoute("/v1", "a.b", "t%20")]
    assert {table_names(one.root, one.namespace, one.table, "%2E") for one in spelt} == {
        ("", "a", "b", "t ")
    }
    assert spelt[0].path == "/v1/namespaces/a%1Fb/tables/t%20"


def eq(term: Any, kind: str = "eq", **more: Any) -> dict[str, Any]:
    return {"type": kind, "term": term, "value": "(1-digit-int)", **more}


def both(left: Any, right: Any, kind: str = "and") -> dict[str, Any]:
    return {"type": kind, "left": left, "right": right}


def either(left: Any, right: Any) -> dict[str, Any]:
    return both(left, right, "or")


def of(transform: str, term: str = "ts") -> dict[str, str]:
    return {"type": "transform", "transform": transform, "term": term}


def columns_of(expression: bytes) -> frozenset[str]:
    return _limit_columns(_filter_columns(_filter_of(expression), MAX_DEPTH))


def columns(expression: Any) -> set[str]:
    return set(columns_of(json.dumps(expression).encode()))


def chain(depth: int) -> Any:
    found: Any = eq("deep")
    for _ in range(depth):
        found = both(found, True)
    return found


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (True, set()),
        (False, set()),
        (eq("id"), {"id"}),
        (eq("point.x", "gt-eq"), {"point.x"}),
        ({"type": "in", "term": "id", "values": [1, 2]}, {"id"}),
        ({"type": "is-null", "term": "id"}, {"id"}),
        (eq("name", "starts-with"), {"name"}),
        # What Spark makes of `WHERE id = 5`, and of a join by id.
        (both({"type": "not-null", "term": "id"}, eq("id")), {"id"}),
        ({"type": "not-null", "term": "id"}, set()),
        (eq("id", "not-eq"), set()),
        ({"type": "not-in", "term": "id", "values": [1, 2]}, set()),
        (eq("name", "not-starts-with"), set()),
        (eq("id", "of-next-year"), set()),
        (both(eq("a"), both(eq("b"), eq("a", "lt"))), {"a", "b"}),
        (either(eq("a"), eq("b")), set()),
        (either(eq("a"), both(eq("b"), eq("a"))), {"a"}),
        (either(both(eq("a"), eq("b")), both(eq("b"), eq("a"))), {"a", "b"}),
        (either(eq("a"), True), set()),
        (both(eq("a"), either(eq("b"), eq("c"))), {"a"}),
        (both(eq("a"), {"type": "not", "child": eq("b")}), {"a"}),
        (either(eq("a"), {"type": "not", "child": eq("a")}), set()),
        (eq(of("hour")), {"ts"}),
        (eq(of("truncate[4]", "name")), {"name"}),
        (eq(of("bucket[16]", "id")), set()),
        (eq({"type": "reference", "term": "id"}), {"id"}),
        (both(eq("a"), {"type": "literal", "value": True}), {"a"}),
        (eq(""), set()),
        (eq("a\nb"), set()),
        (eq("c" * 255), {"c" * 255}),
        (eq("c" * 256), set()),
        (eq(7), set()),
        ({"type": "eq"}, set()),
        ({"type": "and", "left": eq("a")}, {"a"}),
        (both(eq("a"), 7), set()),
        (7, set()),
        ("eq", set()),
        ([], set()),
        ({}, set()),
        (chain(MAX_DEPTH - 1), {"deep"}),
        (chain(MAX_DEPTH), set()),
    ],
)
def test_columns_of_a_filter(expression: Any, found: set[str]) -> None:
    assert columns(expression) == found


def test_columns_are_few_and_filters_short() -> None:
    several: Any = True
    for number in range(MAX_COLUMNS + 1):
        several = both(several, eq(f"c{number:02}"))
    assert columns(several) == {f"c{number:02}" for number in range(MAX_COLUMNS)}
    text = json.dumps(eq("id")).encode()
    assert columns_of(text.ljust(MAX_FILTER_BYTES)) == {"id"}
    assert columns_of(text.ljust(MAX_FILTER_BYTES + 1)) == set()
    assert columns_of(b"") == set()
    assert columns_of(b"[" * MAX_FILTER_BYTES) == set()
    assert columns_of(b'{"type":"eq","term":"\xff"}') == set()


parts = st.recursive(
    st.booleans()
    | st.builds(
        eq,
        st.sampled_from(["a", "b", "c"]) | st.none() | st.builds(of, st.sampled_from(["day", "x"])),
        st.sampled_from(["eq", "lt", "not-null", "not-eq", "in", ""]),
    ),
    lambda inner: (
        st.builds(both, inner, inner)
        | st.builds(either, inner, inner)
        | st.builds(lambda child: {"type": "not", "child": child}, inner)
    ),
    max_leaves=20,
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | parts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "term", "left", "right", "transform"]) | st.text(), inner
        )
    ),
    max_leaves=20,
)


@given(st.binary() | anything.map(lambda one: json.dumps(one).encode()))
def test_nothing_makes_it_raise(text: bytes) -> None:
    assert len(columns_of(text)) <= MAX_COLUMNS


@given(parts)
def test_a_column_leaves_out_only_what_the_filter_does(expression: Any) -> None:
    """Of a file that holds, of this column alone, nothing that any condition meets."""

    def may_match(part: Any, column: str) -> bool:
        if isinstance(part, bool):
            return True
        match part["type"]:
            case "and":
                return may_match(part["left"], column) and may_match(part["right"], column)
            case "or":
                return may_match(part["left"], column) or may_match(part["right"], column)
            case "eq" | "lt" | "in":
                name = part["term"]
                name = name["term"] if name == of("day") else name
                return bool(name != column)
        return True

    found = columns(expression)
    assert found == {one for one in ("a", "b", "c", "ts") if not may_match(expression, one)}
