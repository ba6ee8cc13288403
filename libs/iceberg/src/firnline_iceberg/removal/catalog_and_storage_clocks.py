"""The clocks of a table's catalog and of its storage, beside this host's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firnline_domain.clocks import agreed_now
from firnline_domain.errors import StorageUnreachable

from firnline_iceberg.connection.call_metrics import catalog_now_ms
from firnline_iceberg.removal.removal import storage_now_ms
from firnline_iceberg.table.loaded_table import LoadedTable

Ask = Callable[[LoadedTable], Mapping[str, int]]
"""Other hosts' clocks, by whose they are."""


def ask_clocks(table: LoadedTable) -> Mapping[str, int]:
    """Ask the catalog and the storage of a table for their time. The catalog has dated the answer
    with which the table was loaded; for the storage's clock an empty file is written and removed. A
    local folder has this host's clock, and so has a catalog that runs here.

    Raises StorageUnreachable if neither has a time."""
    found = dict[str, int]()
    if (now_ms := catalog_now_ms(table.identity.catalog)) is not None:
        found["the catalog"] = now_ms
    try:
        if (now_ms := storage_now_ms(table)) is not None:
            found["the storage"] = now_ms
    except OSError as error:  # another process has removed the file, or it may not be written
        if not found:
            raise StorageUnreachable(f"the storage does not tell its time: {error}") from error
    return found


def table_now(
    table: LoadedTable, own_ms: Callable[[], int], ordered_at_ms: int, ask: Ask = ask_clocks
) -> int:
    """Return the earliest of this host's clock and of others (`agreed_now`). Raises TaskRefused
    `clocks_differ`, StorageUnreachable."""
    others = ask(table)
    return agreed_now({"this host": own_ms(), **others}, ordered_at_ms)
