"""What `firnline pause` and `firnline resume` share."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
from firnline_domain.identity import TableName
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance

from firnline_cli._fleet import Fleet, fleet_at, named

TOPIC = "operator-orders"
Order = Callable[[TableName | None, int], PauseMaintenance | ResumeMaintenance]


def reached(
    tables: tuple[str, ...],
    state: Path | None,
    catalog: str | None,
    catalog_name: str,
    kafka: str | None,
) -> Fleet:
    """The fleet to order. To switch all of it the broker is enough: the catalog may be what is
    broken. Raises ClickException."""
    if not tables and state is None and kafka is not None:
        return Fleet(catalog or "", catalog_name, kafka)
    return fleet_at(state, catalog, catalog_name, kafka)


def switch(fleet: Fleet, tables: tuple[str, ...], order: Order, said: str) -> None:
    """Order it for each of the tables, or for all there are and will be. Raises ClickException."""
    now_ms = int(time.time() * 1000)
    if not tables:
        fleet.tell_all(TOPIC, order(None, now_ms))
        click.echo(f"the whole fleet: {said}; `firnline status` shows it")
    for table in [named(fleet, one) for one in tables]:
        fleet.tell(TOPIC, order(table, now_ms))
        click.echo(f"{table.dotted}: {said}; `firnline explain {table.dotted}` shows it")
