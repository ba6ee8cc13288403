"""Parse the metrics that readers report of their scans (REST spec, `ReportMetricsRequest`), and the
columns by which a scan's filter can skip files (Iceberg's `ExpressionParser`)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from firnline_domain.base.values import Value

from firnline_gateway.rest.scan_bounds import MAX_VALUES, TimeBounds, bounds_of

MAX_REPORT_BYTES = (
    1 << 20
)  # of a body that is looked into; a filter with many values is as long as these
MAX_FILES = 10**9  # of one scan: more is no number of files
MAX_FILTER_BYTES = 1 << 16  # of a filter that is looked into: 1,000 conditions, in 0.7 ms
MAX_DEPTH = 100  # Spark nests as deep as there are conditions
MAX_COLUMNS = 16
MAX_LETTERS = 255  # of a column's name
# What bounds and counts of a file's metrics can refute (`InclusiveMetricsEvaluator`). Not
# `not-null`, which Spark adds to each condition and each key of a join, nor the other negations.
_REFUTABLE = frozenset(
    {"lt", "lt-eq", "gt", "gt-eq", "eq", "in", "starts-with", "is-null", "is-nan"}
)
_KEEP_ORDER = frozenset({"identity", "year", "month", "day", "hour"})
_NONE: frozenset[str] = frozenset()


class UnreadableReport(ValueError):
    """No report, or none as the REST spec has it; the catalog must judge it."""


class Scan(Value):
    """One scan: how many data files it reads, and the columns that its filter leaves files out
    by."""

    data_files: int
    filtered_by: frozenset[str] = frozenset()
    bounds: tuple[tuple[str, TimeBounds], ...] = ()  # in time, by column


class _ReportedCount(msgspec.Struct):
    value: Annotated[int, msgspec.Meta(ge=0, le=MAX_FILES)]


class _Metrics(msgspec.Struct, rename="kebab"):
    result_data_files: _ReportedCount | None = None


class _Report(msgspec.Struct, rename="kebab"):
    report_type: str
    metrics: _Metrics
    filter: msgspec.Raw = msgspec.Raw()


_read_report = msgspec.json.Decoder(
    _Report
).decode  # what is not named here is passed over: 1 MB in 1 ms


def scan_of(body: bytes, now_ms: int | None = None) -> Scan | None:
    """Parse a report's scan; None for a report of another kind. Raises UnreadableReport.

    `now_ms`: also read the filter's bounds in time, relative to it."""
    try:
        report = _read_report(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableReport(str(error)) from error
    if report.report_type != "scan-report":
        return None
    if report.metrics.result_data_files is None:
        raise UnreadableReport("a scan-report without result-data-files")
    part = _filter_of(report.filter)
    bounds = {} if now_ms is None else _filter_bounds(part, MAX_DEPTH, now_ms)
    few = tuple(sorted(bounds.items())[:MAX_COLUMNS])
    return Scan(
        report.metrics.result_data_files.value,
        _limit_columns(_filter_columns(part, MAX_DEPTH)),
        few,
    )


class _Term(msgspec.Struct):
    term: str = ""
    transform: str = "identity"


class _MetricPart(msgspec.Struct):
    type: str = ""
    term: str | _Term | None = None
    left: _MetricPart | bool | None = None
    right: _MetricPart | bool | None = None
    value: Any = None
    values: list[Any] = []


_read_filter = msgspec.json.Decoder(_MetricPart | bool).decode


def keeps_order(transform: str) -> bool:
    """Return True if rows in order by a column are also in order by this transform of it."""
    return transform in _KEEP_ORDER or transform.startswith("truncate[")


def _limit_columns(columns: frozenset[str]) -> frozenset[str]:
    return columns if len(columns) <= MAX_COLUMNS else frozenset(sorted(columns)[:MAX_COLUMNS])


def _filter_of(expression: bytes) -> _MetricPart | bool | None:
    if len(expression) > MAX_FILTER_BYTES:
        return None
    try:
        found: _MetricPart | bool = _read_filter(expression)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found


def _filter_columns(part: _MetricPart | bool | None, depth: int) -> frozenset[str]:
    if not isinstance(part, _MetricPart) or not depth:
        return _NONE
    if part.type == "and":
        return _filter_columns(part.left, depth - 1) | _filter_columns(part.right, depth - 1)
    if part.type == "or":  # by a column of one side alone nothing is left out
        return _filter_columns(part.left, depth - 1) & _filter_columns(part.right, depth - 1)
    return _term_column(part.term) if part.type in _REFUTABLE else _NONE


def _term_column(term: str | _Term | None) -> frozenset[str]:
    if isinstance(term, _Term):
        term = term.term if keeps_order(term.transform) else None
    is_name = term and len(term) <= MAX_LETTERS and term.isprintable()
    return frozenset((term,)) if term and is_name else _NONE


def _filter_bounds(
    part: _MetricPart | bool | None, depth: int, now_ms: int
) -> dict[str, TimeBounds]:
    if not isinstance(part, _MetricPart) or not depth:
        return {}
    if part.type in ("and", "or"):
        left, right = (_filter_bounds(one, depth - 1, now_ms) for one in (part.left, part.right))
        if part.type == "or":
            return {name: left[name].span_both(right[name]) for name in left.keys() & right.keys()}
        both = left.keys() & right.keys()
        return {**left, **right, **{name: left[name].intersect(right[name]) for name in both}}
    if part.type not in _REFUTABLE:
        return {}
    values = part.values if part.type == "in" else [part.value]
    if len(values) > MAX_VALUES:
        return {}
    found = bounds_of(part.type, values, now_ms)
    return {} if found == TimeBounds() else dict.fromkeys(_term_column(part.term), found)
