"""firnline move"""

from __future__ import annotations

import click
from firnline_adapters import clock
from firnline_domain.records.orders import MoveTable

from firnline_cli.shared.fleet import (
    ORDERS,
    Where,
    operator_name,
    operator_options,
    partitions_of,
    report_result,
    resolve_table,
)

BUCKETS_OF = "file-changes"  # it has a partition for each


@click.command("move")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE ...")
@click.option("--bucket", type=click.IntRange(min=0), help="Number of the bucket.")
@click.option("--home", is_flag=True, help="Move it back to the bucket of its hash.")
@click.option("--reason", default="", help="Reason, shown with the assignment.")
@operator_options
def command(
    tables: tuple[str, ...],
    bucket: int | None,
    home: bool,
    reason: str,
    where: Where,
    json_wanted: bool,
) -> None:
    """Move TABLE (namespace.name) to another bucket, with its pauses and tasks.

    It stays there for at least an hour. Then an overloaded bucket may move it again. The planner
    driver `faust` moves no tables.
    """
    if home == (bucket is not None):
        raise click.UsageError("say --bucket or --home")
    fleet = where.fleet()
    if bucket is not None and fleet.kafka and bucket >= partitions_of(fleet.kafka, BUCKETS_OF):
        buckets = partitions_of(fleet.kafka, BUCKETS_OF)
        raise click.UsageError(f"there are {buckets} buckets, from 0 on")
    for table in [resolve_table(fleet, one) for one in tables]:
        now_ms = clock.now_ms()
        fleet.send(ORDERS, MoveTable(table, bucket, operator_name(), now_ms, reason))
        report_result(
            json_wanted,
            f"{table.dotted_name}: move ordered",
            table=table.dotted_name,
            bucket=bucket,
        )
