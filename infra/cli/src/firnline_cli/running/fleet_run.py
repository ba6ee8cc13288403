"""Orders an action from a fleet: its planner treats it like any other request."""

from __future__ import annotations

import click
from firnline_adapters import clock
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.operator_requests import RequestedAction
from firnline_domain.records.orders import RunAction

from firnline_cli.shared.fleet import ORDERS, FleetClient, operator_name
from firnline_cli.shared.services import Hidden, members_of, read_planner_app

HERE = "--here does it in this process"


def send_request(fleet: FleetClient, table: TableName, requested: RequestedAction) -> RunAction:
    """Send the request, and return when it is on the broker. Raises ClickException if no planner
    would read it, or if the table is paused."""
    assert fleet.kafka is not None
    if not _has_planner(fleet.kafka):
        raise click.ClickException(
            f"No planner reads the broker at {fleet.kafka.servers}: the order would wait. "
            f"Start the services; {HERE}."
        )
    pauses = fleet.read_pauses()
    if (pause := pauses.pause_of(table.key)) is not None:
        ends = "--fleet" if pauses.is_paused(None) else table.dotted_name
        raise click.ClickException(
            f"{table.dotted_name} is paused ({pause}): the planner drops requests for it. "
            f"Run `firnline resume {ends}` first."
        )
    order = RunAction(
        table=table,
        ref=MAIN,
        action=requested.action,
        partition=requested.partition,
        every_partition=requested.every_partition,
        requested_by=operator_name(),
        requested_at_ms=clock.now_ms(),
    )
    fleet.send(ORDERS, order)
    return order


def _has_planner(kafka: KafkaConnection) -> bool:
    """Return whether a planner runs; True also if the broker does not let us see. Raises
    ClickException if it does not answer."""
    try:
        return bool(members_of(kafka, read_planner_app()))
    except Hidden:
        return True
    except click.ClickException as error:
        raise click.ClickException(f"{error.message}. {HERE}.") from None
