"""What a table says of itself, where the call that changed it cannot be read.

A commit that was too long to keep, or that the catalog read in a way that we do not, still is an
event. It tells the branches' heads as they are; whoever counts asks for what lies between.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

from firnline_domain.records.events import RefMoved, TableChange
from firnline_domain.values import Value

from firnline_gateway.calls import Call, Route, levels_of
from firnline_gateway.commits import PlannedChange, snapshot_in

MOST_BRANCHES = 100  # told in one event, main and the newest heads; others are told at their next
SKEW_MS = 300_000  # between the catalog's clock and ours
Metadata = dict[str, Any]  # a table's metadata JSON


class Place(Value):
    """A table's raw path, and its names."""

    path: str
    levels: tuple[str, ...]
    name: str


def place_of(call: Call, route: Route | None) -> Place | None:
    """The table that the call's path names; None if it names none."""
    if route is None or route.namespace is None or route.table is None:
        return None
    levels = levels_of(route.namespace, call.separator)
    return Place(route.path, levels, unquote_plus(route.table))


def observed(place: Place, table: Metadata, at_ms: int) -> PlannedChange:
    """The table as a change of it: the heads of its branches, and whatever its metadata says.

    `at_ms`: when the call came. A head from long before it is told as a place that a branch is at.
    """
    heads = _heads(table)
    kept = {one["snapshot-id"]: one for one in table.get("snapshots", ())}
    moments = {ref: kept.get(head, {}).get("timestamp-ms", 0) for ref, head in heads.items()}
    branches = sorted(heads, key=lambda ref: (ref != "main", -moments[ref]))[:MOST_BRANCHES]
    new = {heads[ref] for ref in branches if moments[ref] >= at_ms - SKEW_MS and heads[ref] in kept}
    return PlannedChange(
        change=TableChange.COMMITTED,
        path=place.path,
        namespace=place.levels,
        name=place.name,
        uuid=table["table-uuid"],
        snapshots=tuple(snapshot_in(kept[head]) for head in sorted(new)),
        refs=tuple(RefMoved(ref, "branch", heads[ref]) for ref in branches),
        metadata_changed=True,
    )


def touched_since(table: Metadata, at_ms: int) -> bool:
    """False if the table was last changed well before that moment."""
    return int(table.get("last-updated-ms", at_ms)) >= at_ms - SKEW_MS


def version_of(table: Metadata) -> tuple[Any, ...]:
    """Differs between two states of one table."""
    return table["table-uuid"], table.get("last-updated-ms"), tuple(sorted(_heads(table).items()))


def _heads(table: Metadata) -> dict[str, int]:
    refs = table.get("refs")
    if not refs:  # format v1 could do without; -1: no snapshot yet
        current = table.get("current-snapshot-id")
        return {} if current in (None, -1) else {"main": int(current)}
    return {name: ref["snapshot-id"] for name, ref in refs.items() if ref.get("type") != "tag"}
