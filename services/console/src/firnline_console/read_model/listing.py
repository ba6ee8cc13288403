"""The list of tables: what it can be filtered and sorted by, and one page of it. Pure."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from typing import Any, NamedTuple

from firnline_console.views.tables import TableView


class TableRow(NamedTuple):
    """The values of a table by which the list filters and sorts. A console has one row for each
    table."""

    key: str
    table: str  # dotted
    status: str
    commit: int  # milliseconds since 1970
    debt: int = 0
    rows: int = 0
    size: int = 0
    files: int = 0
    small: int = 0
    deletes: int = 0
    partitions: int = 0
    snapshots: int = 0
    catalog: str = ""  # its path


SORTS = tuple(name for name in TableRow._fields if name != "key")


class Query(NamedTuple):
    """A query of the list. `sort`: one of SORTS, `-` before it for descending. `cursor`: that of
    the page before."""

    text: str = ""  # part of the dotted name, in any case; of the full one if it has a colon
    namespace: str = ""  # and those below it
    status: str = ""  # a code of `statuses`
    sort: str = "-debt"
    limit: int = 50
    cursor: str = ""


class TablePage(NamedTuple):
    """`keys` in order, of `matched` tables among `total`; `cursor`: None = it was the last one.
    `statuses`: tables of each status, whatever the query."""

    keys: list[str]
    matched: int
    total: int
    statuses: dict[str, int]
    cursor: str | None


class NamespaceSums(NamedTuple):
    """Sums over the tables of a namespace. `name`: with its catalog."""

    name: str
    debt: int
    size: int
    deletes: int


class BadQuery(ValueError):
    """The error of a query of the list; its text says what is wrong."""


def row_of(view: TableView) -> TableRow:
    """Return the row of a table that exists."""
    summary, place = view.summary, view.table.catalog_path
    commit = view.last_commit.at_ms if view.last_commit else view.last_change_ms
    if summary is None:
        return TableRow(view.key, view.dotted_name, view.status.code, commit, catalog=place)
    holds = summary.holds
    return TableRow(
        key=view.key,
        table=view.dotted_name,
        status=view.status.code,
        commit=commit,
        debt=summary.debt_files,
        rows=holds.all_data.records,
        size=holds.all_data.bytes,
        files=holds.all_data.files,
        small=holds.fragments.files,
        deletes=holds.delete_files,
        partitions=summary.partition_count,
        snapshots=summary.snapshot_count or 0,
        catalog=place,
    )


def largest_namespaces(rows: Iterable[TableRow], limit: int) -> list[NamespaceSums]:
    """Return the namespaces with the most debt, in order."""
    sums: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        place = row.catalog, row.table.rpartition(".")[0]
        total = sums.setdefault(place, [0, 0, 0])
        total[0] += row.debt
        total[1] += row.size
        total[2] += row.deletes
    found = (NamespaceSums(":".join(place), *total) for place, total in sums.items())
    return nlargest(limit, found, key=lambda one: (one.debt, one.size, one.name))


def page_of(rows: Iterable[TableRow], query: Query) -> TablePage:
    """Return the page of the rows that match the query. Raises BadQuery."""
    by, is_descending = query.sort.removeprefix("-"), query.sort.startswith("-")
    if by not in SORTS:
        raise BadQuery(f"sort is one of {', '.join(SORTS)}, with - before it for descending")
    every = list(rows)
    found = [row for row in every if _matches(row, query)]
    place = SORTS.index(by) + 1
    keys = sorted(((row[place], row.key) for row in found), reverse=is_descending)
    start = _start_index(keys, query.cursor, is_descending)
    page = keys[start : start + query.limit]
    is_last = start + query.limit >= len(keys)
    return TablePage(
        keys=[key for _, key in page],
        matched=len(found),
        total=len(every),
        statuses=dict(Counter(row.status for row in every)),
        cursor=None if is_last else _encode_cursor(page[-1]),
    )


def _matches(row: TableRow, query: Query) -> bool:
    name = f"{row.catalog}:{row.table}" if ":" in query.text else row.table
    return (
        query.text.lower() in name.lower()
        and (not query.namespace or row.table.startswith(f"{query.namespace}."))
        and query.status in ("", row.status)
    )


def _start_index(keys: list[tuple[Any, str]], cursor: str, is_descending: bool) -> int:
    """Return the index of the page's first key, found by value, not by number: tables that are
    added or dropped meanwhile move no other off a page. Raises BadQuery."""
    if not cursor:
        return 0
    try:
        value, last = json.loads(base64.urlsafe_b64decode(cursor))
        after = (value, last)
        return sum(key >= after if is_descending else key <= after for key in keys)
    except (ValueError, TypeError, RecursionError):
        raise BadQuery("cursor is that of an earlier page with the same sort") from None


def _encode_cursor(key: tuple[Any, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()
