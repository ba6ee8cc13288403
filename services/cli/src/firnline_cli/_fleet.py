"""Where the fleet's catalog and broker are, for commands that change something."""

from __future__ import annotations

import difflib
import functools
import getpass
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from firnline_adapters.config_file import CONFIG, with_config
from firnline_adapters.kafka_connection import KAFKA, Kafka, KafkaConnection, connection_here
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import TableName
from firnline_domain.records.pauses import FLEET
from firnline_iceberg.connection import CatalogConnection, connection_of
from firnline_local.ports import LOOPBACK
from firnline_local.state import StateDir

from firnline_cli._console import STATES, Console, console_at, console_option, json_option

F = TypeVar("F", bound=Callable[..., Any])
ORDERS = "operator-orders"
SEND_S = 30.0
HOW_TO = (
    "Start a stack with `firnline up`, name its directory with --state, or say where the fleet is "
    "with --config (FIRNLINE_CONFIG), or --catalog (FIRNLINE_CATALOG_URI) and --kafka "
    "(FIRNLINE_KAFKA)."
)
TOO_LONG = "write it in fewer words"


@dataclass(frozen=True)
class Fleet:
    """`reached`: the catalog, by its gateway. `kafka`: how to reach it; None = no orders. `state`:
    of the embedded stack that it is."""

    reached: CatalogConnection | None
    kafka: KafkaConnection | None
    state: StateDir | None = None

    @property
    def catalog(self) -> CatalogConnection:
        """Raises ClickException where none is named."""
        if self.reached is None:
            raise click.ClickException(f"No catalog is named. {HOW_TO}")
        return self.reached

    def signer(self) -> Any:
        """What the fleet believes. Raises ClickException: the keys are not known."""
        from firnline_adapters.signing import signer_here

        try:
            return signer_here() if self.state is None else self.state.signer()
        except Misconfigured as error:
            raise click.ClickException(str(error)) from None

    def send(self, topic: str, record: Any) -> None:
        """Return when a record is on the broker. Raises ClickException."""
        self._deliver(topic, lambda publisher: publisher.publish(topic, record.table.key, record))

    def broadcast(self, topic: str, record: Any) -> None:
        """Return when a record is in every partition of its topic. Raises ClickException; some may
        have it then, and the same order again does no harm."""
        self._deliver(topic, lambda publisher: publisher.broadcast(topic, FLEET, record))

    def _deliver(self, topic: str, publish: Callable[[Any], bool]) -> None:
        from confluent_kafka import KafkaException
        from firnline_adapters.kafka import KafkaPublisher
        from firnline_domain.errors import RetryLater

        if self.kafka is None:
            raise click.ClickException(f"No broker is known. {HOW_TO}")
        try:
            publisher = KafkaPublisher(
                self.kafka, homes_of(self.kafka), "cli", signer=self.signer()
            )
            sent = publish(publisher)
            if not (publisher.flush(SEND_S) and sent):
                raise click.ClickException(f"{topic} takes no record that large: {TOO_LONG}")
        except (KafkaException, RetryLater) as error:
            text = f"The broker at {self.kafka.servers} does not take it: {error}"
            raise click.ClickException(text) from None


def homes_of(kafka: Kafka) -> int:
    """Buckets that the fleet began with. Raises ClickException where there is no fleet."""
    return partitions_of(kafka, ORDERS)


def partitions_of(kafka: Kafka, topic: str) -> int:
    """Of one topic. Raises ClickException where it is not there."""
    from confluent_kafka.admin import AdminClient
    from firnline_adapters.kafka_connection import client_config

    found = AdminClient(client_config(kafka)).list_topics(timeout=SEND_S).topics
    if topic not in found:
        raise click.ClickException(f"The broker has no topic {topic}: no fleet has run on it.")
    return len(found[topic].partitions)


@dataclass(frozen=True)
class Where:
    """What a command line says of where the fleet is."""

    state: Path | None
    catalog: str | None
    kafka: str | None
    console: str | None = None
    config: str | None = None

    def fleet(self) -> Fleet:
        """That of --state, else of --catalog, of --config or their variables, else what runs
        here."""
        if self.state is None and (found := self.catalog_connection()) is not None:
            return Fleet(found, self.connection())
        for place in (StateDir.at(path) for path in ([self.state] if self.state else STATES)):
            if place.is_running() and "gateway" in place.read().parts:
                ports = place.read().ports
                gateway, kafka = f"http://{LOOPBACK}:{ports['gateway']}", ports["kafka"]
                connection = KafkaConnection(f"{LOOPBACK}:{kafka}")
                return Fleet(connection_of(gateway), connection, place)
        raise click.ClickException(f"No stack runs here. {HOW_TO}")

    def environment(self) -> dict[str, str]:
        """This one, with what the command line says instead. Raises Misconfigured."""
        said = {
            CONFIG.variable: self.config,
            KAFKA.variable: self.kafka,
            # a variable of the same name is for one catalog, and so is the option
            "FIRNLINE_CATALOG_URI": self.catalog if self._is_uri() else None,
        }
        given = {**os.environ, **{name: one for name, one in said.items() if one}}
        return with_config(given)

    def catalog_connection(self) -> CatalogConnection | None:
        """The catalog that is named, None where none is. Raises ClickException."""
        from firnline_iceberg.connections import connections_here, the_one

        with _told():
            if self._is_uri():
                return connection_of(str(self.catalog))
            found = connections_here(self.environment())
            if self.catalog:
                if self.catalog not in found:
                    raise Misconfigured(f"no catalog {self.catalog}; {self._known(found)}")
                return found[self.catalog]
            return the_one(found) if found else None

    def _is_uri(self) -> bool:
        return self.catalog is not None and "://" in self.catalog

    def _known(self, found: Mapping[str, object]) -> str:
        return f"there are {', '.join(found)}" if found else "none is named in --config"

    def connection(self) -> KafkaConnection | None:
        """That of --kafka or of --config, with all properties. Raises ClickException."""
        with _told():
            environment = self.environment()
            servers = environment.get(KAFKA.variable)
            return connection_here(servers, environment) if servers else None

    def fleet_connection(self) -> KafkaConnection:
        """That, else the broker of what runs here. Raises ClickException: no broker is known."""
        found = self.connection() if self.state is None else None
        found = found or self.fleet().kafka
        if found is None:
            raise click.ClickException(f"No broker is known. {HOW_TO}")
        return found

    def site(self) -> Console:
        """Its console. Raises Away."""
        return console_at(self.state, self.console)

    def answer(self, path: str) -> Any:
        """What its console answers; None where none does, which no order waits for."""
        try:
            return self.site().get(path)
        except click.ClickException:
            return None


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Misconfigured as error:
        raise click.ClickException(str(error)) from None


def fleet_options(command: F) -> F:
    """--state, --config, --catalog and --kafka, as `where`."""

    @functools.wraps(command)
    def placed(
        state: Path | None,
        catalog: str | None,
        kafka: str | None,
        config: str | None,
        console: str | None = None,
        **rest: Any,
    ) -> Any:
        return command(where=Where(state, catalog, kafka, console, config), **rest)

    made: Any = placed
    for option in (
        click.option(
            "--kafka", envvar="FIRNLINE_KAFKA", show_envvar=True, help="Bootstrap servers."
        ),
        click.option(
            "--catalog",
            envvar="FIRNLINE_CATALOG_URI",
            show_envvar=True,
            help="Iceberg REST URI of a fleet's gateway, or the name of a catalog of --config.",
        ),
        click.option(
            "--config",
            envvar="FIRNLINE_CONFIG",
            show_envvar=True,
            type=click.Path(dir_okay=False),
            help="firnline.toml: catalogs and Kafka of a fleet, instead of an embedded stack.",
        ),
        click.option(
            "--state",
            type=click.Path(path_type=Path, file_okay=False),
            help="Directory of the embedded stack.  [default: .firnline, else .firnline/demo]",
        ),
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


def operator_options(command: F) -> F:
    """Those, --console and --json: `where` and `json_wanted`."""
    return console_option("console")(fleet_options(json_option(command)))


def report(json_wanted: bool, text: str, **facts: Any) -> None:
    """What became of an order: a line for people, or one JSON object."""
    click.echo(json.dumps(facts) if json_wanted else text)


def named(fleet: Fleet, table: str) -> TableName:
    """The table of a dotted name, with its uuid. Raises ClickException, with names like it."""
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.tables import TableGone, Tables

    *namespace, name = table.split(".")
    if not namespace:
        raise click.ClickException(f"{table}: a table's name is namespace.name")
    tables = Tables(fleet.catalog)
    try:
        return tables.named(tuple(namespace), name).identity
    except TableGone:
        raise click.ClickException(
            f"The catalog has no table {table}.{similar(tables, table)}"
        ) from None
    except (RetryLater, TaskRefused) as error:
        raise click.ClickException(str(error)) from None


def similar(tables: Any, table: str) -> str:
    """Names of the same namespace that come close, as a question; '' where there are none."""
    from firnline_domain.errors import RetryLater, TaskRefused

    try:
        names = [".".join(one) for one in tables.names(tuple(table.split(".")[:-1]))]
    except (RetryLater, TaskRefused):
        return ""
    close = difflib.get_close_matches(table, names)
    return f" Did you mean: {', '.join(close)}?" if close else ""


def operator() -> str:
    """Who orders, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
