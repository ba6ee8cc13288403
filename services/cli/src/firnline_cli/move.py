"""firnline move"""

from __future__ import annotations

import time
from pathlib import Path

import click
from firnline_domain.records.orders import MoveTable

from firnline_cli._fleet import fleet_at, fleet_options, named, operator, partitions_of

TOPIC = "operator-orders"


@click.command("move")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE ...")
@click.option("--bucket", type=click.IntRange(min=0), help="Its number.")
@click.option("--home", is_flag=True, help="The bucket of the hash, where the table began.")
@fleet_options
def command(
    tables: tuple[str, ...],
    bucket: int | None,
    home: bool,
    state: Path | None,
    catalog: str | None,
    catalog_name: str,
    kafka: str | None,
) -> None:
    """Have TABLE (namespace.name) counted in another bucket, with all that is known of it: its
    pauses and its orders go along. For fleets with FIRNLINE_ASSIGN=tables or files.
    """
    if home == (bucket is not None):
        raise click.UsageError("say --bucket or --home")
    fleet = fleet_at(state, catalog, catalog_name, kafka)
    if bucket is not None and fleet.kafka and bucket >= partitions_of(fleet.kafka, TOPIC):
        raise click.UsageError(f"there are {partitions_of(fleet.kafka, TOPIC)} buckets, from 0 on")
    for table in [named(fleet, one) for one in tables]:
        fleet.tell(TOPIC, MoveTable(table, bucket, operator(), int(time.time() * 1000)))
        click.echo(f"{table.dotted}: ordered")
