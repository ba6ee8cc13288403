"""firnline unpark"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.orders import UnparkTable

from firnline_cli._console import console_at
from firnline_cli._fleet import fleet_at, fleet_options, named, operator

TOPIC = "operator-orders"
MOST = 5_000


@click.command("unpark")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option(
    "--partition", help="Only this one, as `firnline explain` has it in JSON: '[\"2026-01-01\"]'."
)
@click.option("--all", "all_wanted", is_flag=True, help="Every table with something parked.")
@click.option(
    "--console",
    "console",
    envvar="FIRNLINE_CONSOLE_URI",
    show_envvar=True,
    help="Address of a console; only --all asks it.",
)
@fleet_options
def command(
    tables: tuple[str, ...],
    partition: str | None,
    all_wanted: bool,
    console: str | None,
    state: Path | None,
    catalog: str | None,
    catalog_name: str,
    kafka: str | None,
) -> None:
    """Let what is parked in TABLE (namespace.name) be tried again at once: partitions that failed
    too often, wait after a failure, or were held by `firnline undo`.
    """
    if bool(tables) == all_wanted:
        raise click.UsageError("name tables, or say --all")
    fleet = fleet_at(state, catalog, catalog_name, kafka)
    meant = list(parked(state, console)) if all_wanted else [named(fleet, one) for one in tables]
    for table in meant:
        now_ms = int(time.time() * 1000)
        fleet.tell(TOPIC, UnparkTable(table, MAIN, partition, operator(), now_ms))
        click.echo(f"{table.dotted}: ordered; `firnline explain {table.dotted}` shows it")
    if not meant:
        click.echo("nothing is parked", err=True)


def parked(state: Path | None, console: str | None) -> Iterator[TableName]:
    """The console's tables with a parked partition, or one that backs off."""
    for row in console_at(state, console).get(f"/api/tables?limit={MOST}")["tables"]:
        statuses = row.get("statuses") or {}
        if statuses.get("parked") or statuses.get("backing_off"):
            *namespace, name = row["table"].split(".")
            yield TableName(row["uuid"], tuple(namespace), name)
