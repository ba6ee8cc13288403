"""An action ordered of a fleet: its planner takes it like any other order."""

from __future__ import annotations

import time
from typing import Any

import click
from firnline_adapters.kafka_connection import KafkaConnection
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.requested import Requested
from firnline_domain.records.orders import RunAction

from firnline_cli._fleet import ORDERS, SEND_S, Fleet, operator

PLANNER = "planner"  # its consumer group, unless FIRNLINE_PLANNER_APP says otherwise
HERE = "--here does it in this process"


def send(fleet: Fleet, table: TableName, requested: Requested, group: str = PLANNER) -> RunAction:
    """Return when the order is on the broker. Raises ClickException where no planner would read
    it, or the table is paused."""
    assert fleet.kafka is not None
    if members(fleet.kafka, group) == 0:
        raise click.ClickException(
            f"No planner reads the broker at {fleet.kafka.servers}: the order would wait. "
            f"Start the services; {HERE}."
        )
    order = RunAction(
        table=table,
        ref=MAIN,
        action=requested.action,
        partition=requested.partition,
        every_partition=requested.every_partition,
        requested_by=operator(),
        requested_at_ms=int(time.time() * 1000),
    )
    fleet.send(ORDERS, order)
    return order


def members(kafka: KafkaConnection, group: str) -> int | None:
    """Of a consumer group; None where the broker does not let us see. Raises ClickException where
    it does not answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from firnline_adapters.kafka_connection import client_config
    from firnline_adapters.kafka_groups import ask_coordinator

    try:
        admin: Any = AdminClient(client_config(kafka))
        admin.list_topics(timeout=SEND_S)
    except KafkaException as error:
        raise click.ClickException(
            f"The broker at {kafka.servers} does not answer ({error}). {HERE}."
        ) from None
    try:
        found = ask_coordinator(
            lambda: admin.describe_consumer_groups([group], request_timeout=SEND_S)[group].result()
        )
    except KafkaException:
        return None
    return len(found.members)
