"""When a table needs a look even if nothing happens to it."""

from __future__ import annotations

from firnline_domain.gaps import ask_ms
from firnline_domain.progress import Table
from firnline_domain.schedule import earliest


def due_ms(table: Table) -> int | None:
    """The first of its moments; None = never."""
    return earliest(look_ms(table), table.work.show_ms)


def look_ms(table: Table) -> int | None:
    """When something is to be decided, asked for or given up."""
    return earliest(table.work.look_ms, table.work.expiry_ms, ask_ms(table.counters))
