"""firnline pause"""

from __future__ import annotations

from pathlib import Path

import click
from firnline_domain.records.orders import PauseMaintenance

from firnline_cli._fleet import fleet_options, operator
from firnline_cli._switch import reached, switch


@click.command("pause")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option("--reason", default="", help="Why, for those who find it paused.")
@fleet_options
def command(
    tables: tuple[str, ...],
    reason: str,
    state: Path | None,
    catalog: str | None,
    catalog_name: str,
    kafka: str | None,
) -> None:
    """Stop the maintenance of TABLE (namespace.name); without one, of the whole fleet, tables that
    come later included.

    From then on nothing is ordered, no waiting order is begun, and no result is committed, until
    `firnline resume`. What a task does at that moment it ends, without its commit.
    """
    fleet = reached(tables, state, catalog, catalog_name, kafka)
    switch(
        fleet,
        tables,
        lambda table, now_ms: PauseMaintenance(table, reason, operator(), now_ms),
        "paused until `firnline resume`",
    )
