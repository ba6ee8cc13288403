"""By which columns the filter of a scan lets a reader leave files out (Iceberg's
`ExpressionParser`)."""

from __future__ import annotations

import msgspec

MOST_BYTES = 1 << 16  # of a filter that is looked into: 1,000 conditions, in 0.7 ms
MOST_DEPTH = 100  # Spark nests as deep as there are conditions
MOST_COLUMNS = 16
MOST_LETTERS = 255  # of a column's name
# What bounds and counts of a file's metrics can refute (`InclusiveMetricsEvaluator`). Not
# `not-null`, which Spark adds to each condition and each key of a join, nor the other negations.
_REFUTABLE = frozenset(
    {"lt", "lt-eq", "gt", "gt-eq", "eq", "in", "starts-with", "is-null", "is-nan"}
)
_KEEP_ORDER = frozenset({"identity", "year", "month", "day", "hour"})
_NONE: frozenset[str] = frozenset()


class _Term(msgspec.Struct):
    term: str = ""
    transform: str = "identity"


class _Part(msgspec.Struct):
    type: str = ""
    term: str | _Term | None = None
    left: _Part | bool | None = None
    right: _Part | bool | None = None


_read = msgspec.json.Decoder(_Part | bool).decode  # values are passed over


def keeps_order(transform: str) -> bool:
    """True if what is in order by a column is so by this transform of it, too."""
    return transform in _KEEP_ORDER or transform.startswith("truncate[")


def columns_of(expression: bytes) -> frozenset[str]:
    """Names of the columns, nested ones dotted; none where it is not such an expression."""
    if len(expression) > MOST_BYTES:
        return _NONE
    try:
        found = _columns(_read(expression), MOST_DEPTH)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _NONE
    return found if len(found) <= MOST_COLUMNS else frozenset(sorted(found)[:MOST_COLUMNS])


def _columns(part: _Part | bool | None, depth: int) -> frozenset[str]:
    if not isinstance(part, _Part) or not depth:
        return _NONE
    if part.type == "and":
        return _columns(part.left, depth - 1) | _columns(part.right, depth - 1)
    if part.type == "or":  # by a column of one side alone nothing is left out
        return _columns(part.left, depth - 1) & _columns(part.right, depth - 1)
    return _column(part.term) if part.type in _REFUTABLE else _NONE


def _column(term: str | _Term | None) -> frozenset[str]:
    if isinstance(term, _Term):
        term = term.term if keeps_order(term.transform) else None
    is_name = term and len(term) <= MOST_LETTERS and term.isprintable()
    return frozenset((term,)) if term and is_name else _NONE
