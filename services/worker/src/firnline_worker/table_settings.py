"""Properties that workers read from the table alone (`settings.READ_ELSEWHERE`)."""

from __future__ import annotations

from firnline_iceberg.tables import LoadedTable


def milliseconds(table: LoadedTable, name: str, default: int) -> int:
    """A property; a text that cannot be read counts as unset."""
    digits = table.properties.get(name, "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() else default
