"""firnline pause"""

from __future__ import annotations

import time

import click
from firnline_adapters import clock
from firnline_domain.records.orders import PauseMaintenance

from firnline_cli.shared.durations import Duration
from firnline_cli.shared.fleet import (
    ORDERS,
    FleetClient,
    Where,
    operator_name,
    operator_options,
    report_result,
    resolve_table,
)

LOOK_S = 1.0  # between two looks at what still runs


@click.command("pause")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option(
    "--fleet", "whole_fleet", is_flag=True, help="Pause all tables, including future ones."
)
@click.option("--reason", default="", help="Reason, shown wherever the pause is shown.")
@click.option(
    "--wait",
    "is_awaited",
    is_flag=True,
    help="With --fleet: return when no running task can commit or delete any more.",
)
@click.option(
    "--timeout",
    "patience_s",
    type=Duration(),
    default="10m",
    show_default=True,
    help="Maximum time of --wait: 90s, 30m, 24h.",
)
@operator_options
def command(
    tables: tuple[str, ...],
    whole_fleet: bool,
    reason: str,
    is_awaited: bool,
    patience_s: float,
    where: Where,
    json_wanted: bool,
) -> None:
    """Pause the maintenance of TABLE (namespace.name), or with --fleet of all tables.

    Until `firnline resume` no task is scheduled or started, and no rewrite is committed. Running
    tasks continue: an expiry deletes files, and an action of Iceberg's own commits. --wait waits
    until they end.

    Exit code: 0 paused; 1 not paused, or tasks still run after --timeout.
    """
    if is_awaited and not whole_fleet:
        raise click.UsageError("--wait is for --fleet: workers do not say which table they are at")
    fleet = reach_fleet(where, tables, whole_fleet)
    now_ms = clock.now_ms()
    if whole_fleet:
        fleet.broadcast(ORDERS, PauseMaintenance(None, reason, operator_name(), now_ms))
        if not is_awaited or not json_wanted:
            text = "all tables: paused until `firnline resume --fleet`"
            if not is_awaited:
                text += "; what runs goes on to its end: --wait waits for it"
            report_result(json_wanted, text, table=None, paused=True)
        if is_awaited:
            wait_for_rest(fleet, where.redis_url(fleet), patience_s)
            text = "at rest: nothing that runs can commit or delete until it is resumed"
            report_result(json_wanted, text, table=None, paused=True, at_rest=True)
    for table in [resolve_table(fleet, name) for name in tables]:
        fleet.send(ORDERS, PauseMaintenance(table, reason, operator_name(), now_ms))
        text = f"{table.dotted_name}: paused until `firnline resume {table.dotted_name}`"
        report_result(json_wanted, text, table=table.dotted_name, paused=True)


def wait_for_rest(fleet: FleetClient, redis: str | None, patience_s: float) -> None:
    """Return when nothing of the paused deployment can commit or delete any more; print what it
    waits for. Raises ClickException if that takes too long, or the deployment was resumed."""
    from firnline_cli.shared.formats import print_wrapped
    from firnline_cli.shared.services import Services

    services, told = Services(fleet.broker, redis), list[str]()
    if redis is None:
        print_wrapped(
            "no Redis is named (FIRNLINE_REDIS): leases of tasks are not looked at", err=True
        )
    deadline = time.monotonic() + patience_s
    while True:
        pause = fleet.read_pauses().pause_of(None)
        if pause is None:
            raise click.ClickException("maintenance was resumed meanwhile")
        left = services.at_work(pause, fleet.signer())
        if not left:
            return
        if time.monotonic() >= deadline:
            still = "; ".join(left)
            raise click.ClickException(
                f"after {patience_s:g} s something still runs: {still}. The pause holds. Wait again"
                " with a longer --timeout, or stop workers and committers"
            )
        for one in left:
            if one not in told:
                print_wrapped(f"waiting: {one}", err=True)
        told = left
        time.sleep(LOOK_S)


def reach_fleet(where: Where, tables: tuple[str, ...], whole_fleet: bool) -> FleetClient:
    """Return the client for the named tables or the whole deployment. The latter needs only the
    broker: the catalog may be what is broken.

    Raises ClickException."""
    if bool(tables) == whole_fleet:
        raise click.UsageError("name tables, or say --fleet for all of them")
    if whole_fleet and where.state is None and (kafka := where.kafka_connection()) is not None:
        return FleetClient({}, kafka)
    return where.fleet()
