"""firnline run"""

from __future__ import annotations

import sys

import click
from firnline_domain.policy.requested import ACTIONS, Requested
from firnline_domain.settings.thresholds import thresholds

from firnline_cli._extras import with_everything
from firnline_cli._fleet import Where, fleet_options, named

FAILED, MISCONFIGURED = 1, 2


@click.command("run")
@click.argument("table")
@click.argument("action", type=click.Choice(ACTIONS), metavar=f"[{'|'.join(ACTIONS)}]")
@click.option("--partition", help="One partition, as `--dry-run` shows it: '[\"2026-11-24\"]'.")
@click.option("--all-partitions", "every", is_flag=True, help="Whatever the policy says of them.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and do nothing.")
@click.option("--verify", is_flag=True, help="Read each commit back through Iceberg's own reader.")
@click.option("--here", is_flag=True, help="In this process, though a fleet is known.")
@click.option("--memory", default="1g", show_default=True, help="Of Spark's JVM: 512m, 4g.")
@click.option("--fleet", "fleets", multiple=True, metavar="NAME=VALUE", help="A fleet's default.")
@click.option("--json", "json_wanted", is_flag=True, help="One JSON object a line.")
@fleet_options
def command(
    table: str,
    action: str,
    partition: str | None,
    every: bool,
    dry_run: bool,
    verify: bool,
    here: bool,
    memory: str,
    fleets: tuple[str, ...],
    json_wanted: bool,
    where: Where,
) -> None:
    """Do one ACTION on TABLE (namespace.name) now, in this process: no Kafka, no Redis, no service.

    Partitions are those that the policy would order a rewrite of; `policy` does whatever it would
    order. It is the worker's and the committer's own code: outputs are listed before they are
    written, each commit is checked against the head of the moment, and carries its proof.

    Exit code: 0 done, or nothing to do; 1 failed or refused; 2 wrong arguments or settings.
    """
    if partition is not None and every:
        raise click.UsageError("--partition and --all-partitions exclude each other")
    with_everything()
    from firnline_cli.running.here import Here

    fleet = where.fleet()
    if fleet.kafka is not None and not here and not dry_run:
        raise click.ClickException(
            "A fleet is known (--kafka, FIRNLINE_KAFKA, or what runs here): its services do this "
            "by themselves. --here does it in this process beside them."
        )
    requested = Requested(action, partition, every)
    name = named(fleet, table)
    run = Here(fleet, name, requested, thresholds(_pairs(fleets)), json_wanted, where.config)
    sys.exit(run.preview() if dry_run else run.execute(bytes_of(memory), verify))


def bytes_of(text: str) -> int:
    """`512m`, `4g`. Raises BadParameter."""
    units = {"m": 1 << 20, "g": 1 << 30}
    if text[-1:].lower() not in units or not text[:-1].isdecimal():
        raise click.BadParameter(f"{text}: say 512m or 4g", param_hint="--memory")
    return int(text[:-1]) * units[text[-1].lower()]


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    from firnline_cli.plan import pairs

    return pairs(texts)
