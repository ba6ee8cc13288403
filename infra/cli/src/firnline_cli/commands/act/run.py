"""firnline run"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from urllib.parse import quote

import click
from firnline_domain.identity import TableName
from firnline_domain.policy.operator_requests import ACTIONS, RequestedAction
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.records.pauses import HoldReason
from firnline_domain.settings.thresholds import resolve_thresholds

from firnline_cli.shared.console_client import console_option
from firnline_cli.shared.extras import with_everything
from firnline_cli.shared.fleet import (
    FleetClient,
    Where,
    fleet_options,
    report_result,
    resolve_table,
    scopes_of,
)
from firnline_cli.shared.partitions import partition_named

MISCONFIGURED = 2


@click.command("run")
@click.argument("table")
@click.argument("action", type=click.Choice(ACTIONS), metavar=f"[{'|'.join(ACTIONS)}]")
@click.option(
    "--partition", help="Only this partition, as `--dry-run` shows it: 2026-11-24, or JSON."
)
@click.option(
    "--all-partitions",
    "every",
    is_flag=True,
    help="All partitions, whether or not the policy would choose them.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option(
    "--verify", is_flag=True, help="Verify the rows of each commit with Iceberg's own reader."
)
@click.option("--here", is_flag=True, help="Run in this process even if a deployment is known.")
@click.option(
    "--memory", default="1g", show_default=True, help="Heap of Spark's JVM, for example 512m or 4g."
)
@click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="NAME=VALUE",
    help="Default of a table property, as in FIRNLINE_DEFAULTS; repeatable.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object per line.")
@console_option("console")
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
    """Run one ACTION on TABLE (namespace.name) now.

    It runs in this process, without Kafka, Redis and services. If a deployment is known (--kafka,
    [kafka] of --config, or an embedded stack), the planner schedules it instead, unless --here is
    given. The action `policy` runs all tasks that the policy would schedule. Other rewrites take
    the partitions that it would choose.

    Exit code: 0 done, or nothing to do; 1 failed or refused; 2 wrong arguments or settings.
    """
    if partition is not None and every:
        raise click.UsageError("--partition and --all-partitions exclude each other")
    fleet = _fleet_or_exit(where)
    is_for_planner = fleet.kafka is not None and not here and not dry_run
    if not (is_for_planner or find_spec("pyspark")):  # what the extra `committer` has is enough
        with_everything()
    name = resolve_table(fleet, table)
    if partition is not None:
        partition = partition_named(partition, scopes_of(fleet, name), name.dotted_name)
    requested = RequestedAction(action, partition, every)
    if is_for_planner:
        order_from_planner(fleet, name, requested, where, json_wanted)
        return
    from firnline_cli.running.local_run import Here

    run = Here(
        fleet, name, requested, resolve_thresholds(_parse_pairs(fleets)), json_wanted, where.config
    )
    sys.exit(run.preview() if dry_run else run.execute(bytes_of(memory), verify))


def _fleet_or_exit(where: Where) -> FleetClient:
    """Return the deployment. If the options do not name a catalog, a setting is wrong: exit code
    2."""
    try:
        fleet = where.fleet()
        fleet.only_catalog  # noqa: B018  raises, where none is named
    except click.ClickException as error:
        error.exit_code = MISCONFIGURED
        raise
    return fleet


def order_from_planner(
    fleet: FleetClient,
    table: TableName,
    requested: RequestedAction,
    where: Where,
    json_wanted: bool,
) -> None:
    """Request the action from the deployment's planner. Raises ClickException."""
    from firnline_cli.running.fleet_run import send_request

    sent = send_request(fleet, table, requested)
    text = f"{table.dotted_name}: {sent.action} requested from the planner"
    in_shadow = sent.action not in TABLE_ACTIONS and _is_in_shadow(where, table)
    text += SHADOW if in_shadow else "; `firnline tasks` shows the task"
    report_result(
        json_wanted,
        text,
        table=table.dotted_name,
        action=sent.action,
        ordered=True,
        in_shadow=in_shadow,
    )


SHADOW = (
    ". The table is in shadow mode: the task starts when it leaves it. "
    "Set its property firnline.shadow=false"
)


def _is_in_shadow(where: Where, table: TableName) -> bool:
    """Return whether the console shows the table in shadow mode; False if no console answers."""
    answer = where.console_answer(f"/api/tables/{quote(table.key, safe='')}") or {}
    hold = answer.get("hold") or {}
    return bool(hold.get("reason") == HoldReason.SHADOW)


def bytes_of(text: str) -> int:
    """Return the bytes of `512m`, `4g`. Raises BadParameter."""
    units = {"m": 1 << 20, "g": 1 << 30}
    if text[-1:].lower() not in units or not text[:-1].isdecimal():
        raise click.BadParameter(f"{text}: say 512m or 4g", param_hint="--memory")
    return int(text[:-1]) * units[text[-1].lower()]


def _parse_pairs(texts: tuple[str, ...]) -> dict[str, str]:
    from firnline_cli.commands.existing_tables.plan import parse_properties

    return parse_properties(texts)
