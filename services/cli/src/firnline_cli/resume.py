"""firnline resume"""

from __future__ import annotations

from pathlib import Path

import click
from firnline_domain.records.orders import ResumeMaintenance

from firnline_cli._fleet import fleet_options, operator
from firnline_cli._switch import reached, switch


@click.command("resume")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@fleet_options
def command(
    tables: tuple[str, ...],
    state: Path | None,
    catalog: str | None,
    catalog_name: str,
    kafka: str | None,
) -> None:
    """Take back `firnline pause`: that of TABLE, or, without one, that of the whole fleet.

    A table that was paused by its name stays paused when the fleet goes on, and the other way
    round.
    """
    fleet = reached(tables, state, catalog, catalog_name, kafka)
    switch(
        fleet,
        tables,
        lambda table, now_ms: ResumeMaintenance(table, operator(), now_ms),
        "goes on",
    )
