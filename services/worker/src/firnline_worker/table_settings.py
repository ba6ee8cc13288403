"""Properties that workers read from the table alone (`settings.READ_ELSEWHERE`)."""

from __future__ import annotations

from firnline_domain.settings.property import WORKERS
from firnline_iceberg.table.loaded_table import LoadedTable


def milliseconds(table: LoadedTable, name: str, default: int) -> int:
    """A property of `property.WORKERS`; a text that cannot be read counts as unset."""
    found = WORKERS[name].read(table.properties.get(name, ""))
    return default if found is None else int(found)
