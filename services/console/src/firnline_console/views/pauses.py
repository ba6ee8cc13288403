"""Pauses that operators have ordered, as the console shows them."""

from __future__ import annotations

from firnline_domain.base.values import Value
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance

FLEET = "fleet"  # in place of a table's key


class PauseView(Value):
    """The newest order about one pause. `table` is '' for the fleet's."""

    place: str  # table key, or FLEET
    table: str
    paused: bool
    at_ms: int
    by: str
    reason: str = ""
    catalog: str = ""  # its path


def pause_key(fact: PauseMaintenance | ResumeMaintenance) -> str:
    """Return the key of the pause: the table's, or the deployment's."""
    return fact.table.key if fact.table else FLEET


def fold_pause(old: PauseView | None, fact: PauseMaintenance | ResumeMaintenance) -> PauseView:
    """Keep the later order, whichever arrives first; at the same time, the pause."""
    paused = isinstance(fact, PauseMaintenance)
    new = PauseView(
        place=pause_key(fact),
        table=fact.table.dotted_name if fact.table else "",
        paused=paused,
        at_ms=fact.requested_at_ms,
        by=fact.requested_by,
        reason=fact.reason if isinstance(fact, PauseMaintenance) else "",
        catalog=fact.table.catalog_path if fact.table else "",
    )
    return max(old or new, new, key=lambda one: (one.at_ms, one.paused))


def active_pauses(pauses: list[PauseView]) -> list[PauseView]:
    """Return the pauses in force: the deployment's first, then by table."""
    return sorted((one for one in pauses if one.paused), key=lambda one: (one.table, one.catalog))
