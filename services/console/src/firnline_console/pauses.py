"""Switches that people have pulled, as the console shows them."""

from __future__ import annotations

from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance
from firnline_domain.values import Value

FLEET = "fleet"  # in place of a table's uuid


class PauseView(Value):
    """The newest word about one switch. `table` is '' for the fleet's."""

    place: str  # uuid, or FLEET
    table: str
    paused: bool
    at_ms: int
    by: str
    reason: str = ""


def place_of_switch(fact: PauseMaintenance | ResumeMaintenance) -> str:
    """Which switch it is about."""
    return fact.table.uuid if fact.table else FLEET


def fold_pause(old: PauseView | None, fact: PauseMaintenance | ResumeMaintenance) -> PauseView:
    """The later word holds, in whatever order they are told; at one moment the pause does."""
    paused = isinstance(fact, PauseMaintenance)
    new = PauseView(
        place=place_of_switch(fact),
        table=fact.table.dotted if fact.table else "",
        paused=paused,
        at_ms=fact.requested_at_ms,
        by=fact.requested_by,
        reason=fact.reason if isinstance(fact, PauseMaintenance) else "",
    )
    return max(old or new, new, key=lambda one: (one.at_ms, one.paused))


def pulled(switches: list[PauseView]) -> list[PauseView]:
    """Those that hold now: the fleet's first, then by table."""
    return sorted((one for one in switches if one.paused), key=lambda one: one.table)
