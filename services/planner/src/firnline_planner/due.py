"""When a table needs a look even if nothing happens to it."""

from __future__ import annotations

from firnline_domain.gaps import ask_ms
from firnline_domain.progress import Table
from firnline_domain.schedule import earliest


def due_ms(table: Table) -> int | None:
    """The first of its moments; None = never."""
    work = table.work
    return earliest(work.look_ms, work.show_ms, work.expiry_ms, ask_ms(table.counters))
