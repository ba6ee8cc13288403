"""Events of catalogs that this enricher cannot open."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord, TaskRefused
from firnline_domain.identity import TableName
from firnline_enricher.handlers import EnricherHandlers
from firnline_iceberg.catalogs import UnknownCatalog
from firnline_iceberg.connection.prefix import OtherPrefix


@pytest.mark.parametrize("reason", ["unknown_catalog", "unknown_prefix"])
def test_it_is_said_why_and_nothing_is_told_that_a_planner_would_ask_for(
    lake, rows, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = lake.tables.load

    def only_lake(table: TableName):
        known: dict[str, TaskRefused] = {
            "stranger": UnknownCatalog(table, {"lake": None}),
            "elsewhere": OtherPrefix("elsewhere", table.prefix, "main"),
        }
        if table.catalog in known:
            raise known[table.catalog]
        return load(table)

    monkeypatch.setattr(lake.tables, "load", only_lake)
    handlers: EnricherHandlers = lake.handlers
    lake.table.append(rows((1, 1)))
    [event] = lake.commits()[-1:]
    catalog = "stranger" if reason == "unknown_catalog" else "elsewhere"
    strange = replace(event, table=replace(event.table, catalog=catalog))
    with pytest.raises(PoisonousRecord, match=catalog) as refused:
        lake.handle(strange)
    assert refused.value.reason == reason
    assert handlers.unread_changes(strange) == []
    assert lake.handle(event), "others go on"
    assert handlers.unread_changes(event)
