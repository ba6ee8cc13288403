"""firnline move"""

from __future__ import annotations

import time

import click
from firnline_domain.records.assignments import TOPIC as ASSIGNMENTS
from firnline_domain.records.orders import MoveTable

from firnline_cli._fleet import (
    ORDERS,
    Where,
    is_empty,
    named,
    operator,
    operator_options,
    partitions_of,
    report,
)


@click.command("move")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE ...")
@click.option("--bucket", type=click.IntRange(min=0), help="Its number.")
@click.option("--home", is_flag=True, help="The bucket of the hash, where the table began.")
@operator_options
def command(
    tables: tuple[str, ...], bucket: int | None, home: bool, where: Where, json_wanted: bool
) -> None:
    """Have TABLE (namespace.name) counted in another bucket, with its pauses and orders.

    For fleets with FIRNLINE_ASSIGN=tables or files; with FIRNLINE_ASSIGN=hash, no table moves.
    """
    if home == (bucket is not None):
        raise click.UsageError("say --bucket or --home")
    fleet = where.fleet()
    if fleet.kafka and is_empty(fleet.kafka, ASSIGNMENTS):
        raise click.ClickException(
            "with FIRNLINE_ASSIGN=hash, which this fleet has, no table moves"
        )
    if bucket is not None and fleet.kafka and bucket >= partitions_of(fleet.kafka, ORDERS):
        raise click.UsageError(f"there are {partitions_of(fleet.kafka, ORDERS)} buckets, from 0 on")
    for table in [named(fleet, one) for one in tables]:
        fleet.send(ORDERS, MoveTable(table, bucket, operator(), int(time.time() * 1000)))
        report(json_wanted, f"{table.dotted}: move ordered", table=table.dotted, bucket=bucket)
