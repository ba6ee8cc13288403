"""Where the fleet's catalog and broker are, for commands that change something."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from firnline_domain.identity import TableName
from firnline_domain.records.pauses import FLEET
from firnline_local.stack import Stack
from firnline_local.state import StateDir

from firnline_cli._console import STATES

F = TypeVar("F", bound=Callable[..., Any])
SEND_S = 30.0
HOW_TO = (
    "Start a stack with `firnline up`, name its directory with --state, or say where the fleet is "
    "with --catalog (FIRNLINE_CATALOG_URI) and --kafka (FIRNLINE_KAFKA)."
)
TOO_LONG = "write it in fewer words"


@dataclass(frozen=True)
class Fleet:
    """`catalog_uri`: the gateway's. `kafka`: bootstrap servers; None = nobody can be told. `state`:
    of the embedded stack that it is."""

    catalog_uri: str
    catalog_name: str
    kafka: str | None
    state: StateDir | None = None

    def signer(self) -> Any:
        """What the fleet believes. Raises ClickException: the keys are not known."""
        from firnline_adapters.signing import signer_here
        from firnline_domain.errors import Misconfigured

        try:
            return signer_here() if self.state is None else self.state.signer()
        except Misconfigured as error:
            raise click.ClickException(str(error)) from None

    def tell(self, topic: str, record: Any) -> None:
        """Return when a record is on the broker. Raises ClickException."""
        self._send(topic, lambda publisher: publisher.publish(topic, record.table.uuid, record))

    def tell_all(self, topic: str, record: Any) -> None:
        """Return when a record is in every partition of its topic. Raises ClickException; some may
        have it then, and the same order again does no harm."""
        self._send(topic, lambda publisher: publisher.broadcast(topic, FLEET, record))

    def _send(self, topic: str, send: Callable[[Any], bool]) -> None:
        from confluent_kafka import KafkaException
        from firnline_adapters.kafka import KafkaPublisher
        from firnline_domain.errors import RetryLater

        if self.kafka is None:
            raise click.ClickException(f"No broker is known. {HOW_TO}")
        try:
            buckets, signer = partitions_of(self.kafka, topic), self.signer()
            publisher = KafkaPublisher(self.kafka, buckets, "cli", signer=signer)
            sent = send(publisher)
            if not (publisher.flush(SEND_S) and sent):
                raise click.ClickException(f"{topic} takes no record that large: {TOO_LONG}")
        except (KafkaException, RetryLater) as error:
            text = f"The broker at {self.kafka} does not take it: {error}"
            raise click.ClickException(text) from None


def partitions_of(kafka: str, topic: str) -> int:
    """As many as the fleet has buckets. Raises ClickException where there is no such topic."""
    from confluent_kafka.admin import AdminClient

    found = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=SEND_S).topics
    if topic not in found:
        raise click.ClickException(f"The broker has no topic {topic}: it is made by newer stacks.")
    return len(found[topic].partitions)


def fleet_options(command: F) -> F:
    """--state, --catalog, --catalog-name and --kafka."""
    for option in (
        click.option(
            "--kafka", envvar="FIRNLINE_KAFKA", show_envvar=True, help="Bootstrap servers."
        ),
        click.option("--catalog-name", envvar="FIRNLINE_CATALOG_NAME", default="lake"),
        click.option(
            "--catalog",
            envvar="FIRNLINE_CATALOG_URI",
            show_envvar=True,
            help="Iceberg REST URI of a fleet's gateway, instead of an embedded stack.",
        ),
        click.option(
            "--state",
            type=click.Path(path_type=Path, file_okay=False),
            help="Directory of the embedded stack.  [default: .firnline, else .firnline/demo]",
        ),
    ):
        command = option(command)
    return command


def fleet_at(
    state: Path | None, catalog: str | None, catalog_name: str, kafka: str | None
) -> Fleet:
    """That of --state, else of --catalog or its variable, else what runs here."""
    if state is None and catalog:
        return Fleet(catalog, catalog_name, kafka)
    for place in (StateDir.at(path) for path in ([state] if state else STATES)):
        if place.is_running() and "gateway" in place.read().parts:
            stack = Stack(place)
            return Fleet(stack.gateway_uri, catalog_name, stack.kafka, place)
    raise click.ClickException(f"No stack runs here. {HOW_TO}")


def named(fleet: Fleet, table: str) -> TableName:
    """The table of a dotted name, with its uuid. Raises ClickException."""
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.tables import Tables

    *namespace, name = table.split(".")
    if not namespace:
        raise click.ClickException(f"{table}: a table's name is namespace.name")
    try:
        tables = Tables(fleet.catalog_uri, fleet.catalog_name)
        return tables.named(tuple(namespace), name).identity
    except (RetryLater, TaskRefused) as error:
        raise click.ClickException(str(error)) from None


def operator() -> str:
    """Who orders, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
