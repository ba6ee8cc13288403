"""firnline pause"""

from __future__ import annotations

import time

import click
from firnline_domain.records.orders import PauseMaintenance

from firnline_cli._fleet import ORDERS, Fleet, Where, named, operator, operator_options, report


@click.command("pause")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option(
    "--fleet", "whole_fleet", is_flag=True, help="All tables, also those that come later."
)
@click.option("--reason", default="", help="Why, for those who find it paused.")
@operator_options
def command(
    tables: tuple[str, ...], whole_fleet: bool, reason: str, where: Where, json_wanted: bool
) -> None:
    """Stop the maintenance of TABLE (namespace.name), or with --fleet of all tables.

    From then on nothing is ordered, no waiting order is begun, and no result is committed, until
    `firnline resume`. Running tasks end, without their commit.
    """
    fleet = reached(where, tables, whole_fleet)
    now_ms = int(time.time() * 1000)
    if whole_fleet:
        fleet.broadcast(ORDERS, PauseMaintenance(None, reason, operator(), now_ms))
        text = "the whole fleet: paused until `firnline resume --fleet`"
        report(json_wanted, text, table=None, paused=True)
    for table in [named(fleet, name) for name in tables]:
        fleet.send(ORDERS, PauseMaintenance(table, reason, operator(), now_ms))
        text = f"{table.dotted}: paused until `firnline resume {table.dotted}`"
        report(json_wanted, text, table=table.dotted, paused=True)


def reached(where: Where, tables: tuple[str, ...], whole_fleet: bool) -> Fleet:
    """The fleet to order. For all of it the broker is enough: the catalog may be what is broken.

    Raises ClickException.
    """
    if bool(tables) == whole_fleet:
        raise click.UsageError("name tables, or say --fleet for all of them")
    if whole_fleet and where.state is None and (kafka := where.connection()) is not None:
        return Fleet({}, kafka)
    return where.fleet()
