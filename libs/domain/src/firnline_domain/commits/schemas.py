"""Is a file that was written under one schema right under a later one?

A file is read by field ids. What it lacks is NULL, or the field's initial default: right for a
field that was made after its rows were copied, and wrong for one that they had. A type may grow.
"""

from __future__ import annotations

from collections.abc import Mapping

from firnline_domain.records.results import TableForm

Fields = Mapping[int, str]
"""Kind by field id, nested ones as well: `long`, `decimal(9, 2)`, but `struct`, `list`, `map`."""

_GROWN = {
    ("int", "long"),
    ("float", "double"),
    ("date", "timestamp"),
    ("date", "timestamp_ns"),
}


def first_unreadable(then: TableForm, schemas: Mapping[int, Fields], now: int) -> str | None:
    """Return the first field of schema `now` that a file of `then` does not have as it should; None
    = it is right. `schemas` are the table's."""
    if then.schema_id == now:
        return None
    if then.schema_id not in schemas:
        return f"schema {then.schema_id} is not known any more"
    old, new = schemas[then.schema_id], schemas[now]
    for number, kind in new.items():
        if number not in old:
            if number <= then.last_column_id:
                return f"field {number} was no column then, and is one again"
        elif not _can_read(old[number], kind):
            return f"field {number} was {old[number]}, and is {kind}"
    return None


def _can_read(old: str, new: str) -> bool:
    """Return True if values of column type `old` can be read as `new`: the same, or one that
    Iceberg promotes it to."""
    if old == new or old == "unknown" or (old, new) in _GROWN:
        return True
    before, after = _decimal_form(old), _decimal_form(new)
    if before is None or after is None:
        return False
    return before[1] == after[1] and before[0] <= after[0]


def _decimal_form(kind: str) -> tuple[int, int] | None:
    """Return (precision, scale) of a decimal type; None for any other type."""
    if not kind.startswith("decimal("):
        return None
    precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)
