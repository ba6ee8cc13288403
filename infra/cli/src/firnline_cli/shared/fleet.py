"""The fleet's catalog and broker, for commands that change something."""

from __future__ import annotations

import difflib
import functools
import getpass
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click
from firnline_adapters.config.config_file import CONFIG, with_config
from firnline_adapters.kafka.connection import KAFKA, Kafka, KafkaConnection, connection_here
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import MAIN, Scope, TableName, levels_of, readings_of, split_name
from firnline_domain.records.pauses import FLEET, PauseState
from firnline_domain.settings.policies import NO_POLICIES, TablePolicies
from firnline_iceberg.connection.connection import CatalogConnection, connection_of
from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.state import StateDir

from firnline_cli.shared.console_client import (
    STATES,
    Console,
    console_at,
    console_option,
    json_option,
)

F = TypeVar("F", bound=Callable[..., Any])
ORDERS = "operator-orders"
SEND_S = 30.0
HOW_TO = (
    "Start a stack with `firnline up`, name its directory with --state, or set the deployment "
    "with --config (FIRNLINE_CONFIG), or --catalog (FIRNLINE_CATALOG_URI) and --kafka "
    "(FIRNLINE_KAFKA)."
)
TOO_LONG = "write it in fewer words"


@dataclass(frozen=True)
class FleetClient:
    """A fleet. `reached`: its catalogs by name, each by its gateway. `kafka`: the connection; None
    = no orders. `state`: of the embedded stack, if it is one. `config`: its firnline.toml."""

    reached: Mapping[str, CatalogConnection]
    kafka: KafkaConnection | None
    state: StateDir | None = None
    config: str | None = None

    @cached_property
    def policies(self) -> TablePolicies:
        """Return the policies of its file. Raises ClickException for one with a problem: the
        planner keeps the last valid policies, which are not known here."""
        if not self.config:
            return NO_POLICIES
        from firnline_adapters.policy_file import read_policies

        with _as_click_error():
            found = read_policies(self.config)
        if found.problems:
            raise click.ClickException("\n".join(found.problems))
        return found.policies

    @property
    def catalogs(self) -> Mapping[str, CatalogConnection]:
        """Return all catalogs that are named. Raises ClickException if there is none."""
        if not self.reached:
            raise click.ClickException(f"No catalog is named. {HOW_TO}")
        return self.reached

    @property
    def only_catalog(self) -> CatalogConnection:
        """Return the only catalog. Raises ClickException, with the names of several."""
        if len(self.catalogs) > 1:
            names = ", ".join(self.catalogs)
            raise click.ClickException(f"There are several catalogs: say --catalog {names}")
        return next(iter(self.catalogs.values()))

    def connection_for(self, table: TableName) -> CatalogConnection:
        """Return the connection that opens a table. Raises ClickException."""
        from firnline_iceberg.connection.prefix import at_prefix

        if table.catalog not in self.catalogs:
            known = ", ".join(self.catalogs)
            raise click.ClickException(
                f"{table.full_name}: no catalog {table.catalog}; there are {known}"
            )
        return at_prefix(self.catalogs[table.catalog], table.prefix)

    def signer(self) -> Any:
        """Return the signer that the fleet trusts. Raises ClickException: the keys are not
        known."""
        from firnline_adapters.records.signing import signer_here

        try:
            return signer_here() if self.state is None else self.state.signer()
        except Misconfigured as error:
            raise click.ClickException(str(error)) from None

    def send(self, topic: str, record: Any) -> None:
        """Send a record, and return when it is on the broker. Raises ClickException."""
        self._deliver(topic, lambda publisher: publisher.publish(topic, record.table.key, record))

    def broadcast(self, topic: str, record: Any) -> None:
        """Send a record, and return when it is in every partition of its topic. Raises
        ClickException; some partitions may have it then, and the same order again does no harm."""
        self._deliver(topic, lambda publisher: publisher.broadcast(topic, FLEET, record))

    def read_pauses(self) -> PauseState:
        """Read the pauses from `operator-orders`. Raises ClickException."""
        from confluent_kafka import KafkaException
        from firnline_adapters.kafka.topic_reader import FullTopicReader
        from firnline_domain.errors import RetryLater

        board = PauseState()

        def fold(_: str, record: Any | None, partition: int) -> None:
            if record is not None:
                board.fold_record(record, partition)

        try:
            FullTopicReader(self.broker, ORDERS, fold, signer=self.signer()).close()
        except (KafkaException, RetryLater) as error:
            text = f"{ORDERS} cannot be read from {self.broker.servers}: {error}"
            raise click.ClickException(text) from None
        return board

    @property
    def broker(self) -> KafkaConnection:
        """Return the broker. Raises ClickException if none is known."""
        if self.kafka is None:
            raise click.ClickException(f"No broker is known. {HOW_TO}")
        return self.kafka

    def _deliver(self, topic: str, publish: Callable[[Any], bool]) -> None:
        from confluent_kafka import KafkaException
        from firnline_adapters.kafka.client import KafkaPublisher
        from firnline_domain.errors import RetryLater

        broker = self.broker
        try:
            publisher = KafkaPublisher(broker, homes_of(broker), "cli", signer=self.signer())
            sent = publish(publisher)
            if not (publisher.flush(SEND_S) and sent):
                raise click.ClickException(f"{topic} takes no record that large: {TOO_LONG}")
        except (KafkaException, RetryLater) as error:
            text = f"The broker at {broker.servers} does not take it: {error}"
            raise click.ClickException(text) from None


def homes_of(kafka: Kafka) -> int:
    """Return the number of buckets that the fleet began with. Raises ClickException if there is no
    fleet."""
    return partitions_of(kafka, ORDERS)


def partitions_of(kafka: Kafka, topic: str) -> int:
    """Return the number of partitions of one topic. Raises ClickException if it does not exist."""
    from confluent_kafka.admin import AdminClient
    from firnline_adapters.kafka.connection import QUIET, client_config

    found = AdminClient(client_config(kafka, QUIET)).list_topics(timeout=SEND_S).topics
    if topic not in found:
        raise click.ClickException(f"The broker has no topic {topic}: no deployment has run on it.")
    return len(found[topic].partitions)


@dataclass(frozen=True)
class Where:
    """The options of a command line that name the addresses of the fleet."""

    state: Path | None
    catalog: str | None
    kafka: str | None
    console: str | None = None
    config: str | None = None

    def fleet(self) -> FleetClient:
        """Return the fleet of --state, else of --catalog, of --config or their variables, else what
        runs on this host."""
        from firnline_local.stack.parts import addresses_of

        if self.state is None and (found := self.catalogs()):
            config = self.environment().get(CONFIG.variable)
            return FleetClient(found, self.kafka_connection(), config=config)
        for place in (
            StateDir.from_path(path) for path in ([self.state] if self.state else STATES)
        ):
            record = place.read_record()
            if place.is_running() and {"gateway", "listener"} & record.parts.keys():
                where = addresses_of(record)
                reached, kafka = connection_of(where.writers), KafkaConnection(where.kafka)
                config = str(place.config) if place.config.exists() else None
                return FleetClient({reached.name: reached}, kafka, place, config)
        raise click.ClickException(f"No stack runs here. {HOW_TO}")

    def environment(self) -> dict[str, str]:
        """Return this environment, with the options of the command line in place of its values.
        Raises Misconfigured."""
        said = {
            CONFIG.variable: self.config,
            KAFKA.variable: self.kafka,
            # a variable of the same name is for one catalog, and so is the option
            "FIRNLINE_CATALOG_URI": self.catalog if self._is_uri() else None,
        }
        given = {**os.environ, **{name: one for name, one in said.items() if one}}
        return with_config(given)

    def catalogs(self) -> Mapping[str, CatalogConnection]:
        """Return the catalogs that are named, {} if there is none. Raises ClickException."""
        from firnline_iceberg.connection.configuration import connections_here

        with _as_click_error():
            found = connections_here(self.environment())
            if self.catalog and not self._is_uri():
                if self.catalog not in found:
                    raise Misconfigured(f"no catalog {self.catalog}; {self._known_names(found)}")
                return {self.catalog: found[self.catalog]}
            return found

    def _is_uri(self) -> bool:
        return self.catalog is not None and "://" in self.catalog

    def _known_names(self, found: Mapping[str, object]) -> str:
        return f"there are {', '.join(found)}" if found else "none is named in --config"

    def kafka_connection(self) -> KafkaConnection | None:
        """Return the broker of --kafka or of --config, with all properties. Raises
        ClickException."""
        with _as_click_error():
            environment = self.environment()
            servers = environment.get(KAFKA.variable)
            return connection_here(servers, environment) if servers else None

    def fleet_connection(self) -> KafkaConnection:
        """Return the broker of the options, else that of the stack on this host. Raises
        ClickException: no broker is known."""
        found = self.kafka_connection() if self.state is None else None
        found = found or self.fleet().kafka
        if found is None:
            raise click.ClickException(f"No broker is known. {HOW_TO}")
        return found

    def redis_url(self, fleet: FleetClient) -> str | None:
        """Return the Redis of the embedded stack, of FIRNLINE_REDIS or of --config; None if none is
        named. Raises ClickException."""
        if fleet.state is not None:
            port = fleet.state.read_record().ports.get("redis")
            return f"redis://{LOOPBACK}:{port}/0" if port else None
        with _as_click_error():
            return self.environment().get("FIRNLINE_REDIS") or None

    def console_client(self) -> Console:
        """Return the fleet's console. Raises Away."""
        return console_at(self.state, self.console)

    def console_answer(self, path: str) -> Any:
        """Return what its console answers; None if none does: no order waits for it."""
        try:
            return self.console_client().get(path)
        except click.ClickException:
            return None


@contextmanager
def _as_click_error() -> Iterator[None]:
    try:
        yield
    except Misconfigured as error:
        raise click.ClickException(str(error)) from None


def fleet_options(command: F) -> F:
    """Add --state, --config, --catalog and --kafka, as `where`."""

    @functools.wraps(command)
    def with_where(
        state: Path | None,
        catalog: str | None,
        kafka: str | None,
        config: str | None,
        console: str | None = None,
        **rest: Any,
    ) -> Any:
        return command(where=Where(state, catalog, kafka, console, config), **rest)

    made: Any = with_where
    for option in (
        click.option(
            "--kafka", envvar="FIRNLINE_KAFKA", show_envvar=True, help="Kafka bootstrap servers."
        ),
        click.option(
            "--catalog",
            envvar="FIRNLINE_CATALOG_URI",
            show_envvar=True,
            help="Iceberg REST URI of the gateway, or the name of a catalog in --config.",
        ),
        click.option(
            "--config",
            envvar="FIRNLINE_CONFIG",
            show_envvar=True,
            type=click.Path(dir_okay=False),
            help="Path of firnline.toml with catalogs and Kafka, instead of the embedded stack.",
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
    """Add the fleet options, --console and --json: `where` and `json_wanted`."""
    return console_option("console")(fleet_options(json_option(command)))


def report_result(json_wanted: bool, text: str, **facts: Any) -> None:
    """Print the result of an order: a line of text, or one JSON object."""
    from firnline_cli.shared.formats import print_wrapped

    click.echo(json.dumps(facts)) if json_wanted else print_wrapped(text)


def resolve_table(fleet: FleetClient, table: str) -> TableName:
    """Return the table of a name, with its uuid: `shop.orders`, or `lake:shop.orders` and
    `lake/dev:shop.orders` if several catalogs or prefixes have one. Raises ClickException, with the
    names that could be meant."""
    path, dotted = split_name(table)
    if path and path.partition("/")[0] in fleet.catalogs:
        catalog, _, prefix = path.partition("/")
        found = [_in_catalog(fleet.connection_for(TableName("", (), "", catalog, prefix)), dotted)]
    else:
        found = [_in_catalog(one, table) for one in fleet.catalogs.values()]
    there = [one for one in found if isinstance(one, TableName)]
    if len(there) > 1:
        names = ", ".join(one.full_name for one in there)
        raise click.ClickException(f"{table} is in several catalogs: {names}. Say which one.")
    if not there:
        where = "The catalog has" if len(found) == 1 else f"None of {', '.join(fleet.catalogs)} has"
        close = "".join(map(str, found))
        raise click.ClickException(f"{where} no table {table}.{close}")
    return there[0]


def scopes_of(fleet: FleetClient, table: TableName) -> list[Scope]:
    """Return the partitions in which the table's newest snapshot has files; reads all its
    manifests. Raises ClickException."""
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.metadata.avro_reader import MetadataFileGone
    from firnline_iceberg.metadata.manifest_reader import Detail
    from firnline_iceberg.scan.planning import live_entries
    from firnline_iceberg.table.catalog_client import Tables

    try:
        loaded = Tables(fleet.connection_for(table)).load(table)
        head = loaded.head_id(MAIN)
        entries = () if head is None else live_entries(loaded, head, Detail.COUNTS)
        return [*dict.fromkeys(one.scope for one in entries)]
    except (RetryLater, TaskRefused, MetadataFileGone) as error:
        raise click.ClickException(f"{table.dotted_name} cannot be read: {error}") from None


def _in_catalog(reached: CatalogConnection, dotted: str) -> TableName | str:
    """Return a table of one catalog; else similar names, as `similar_names`. Raises
    ClickException."""
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.table.catalog_client import Tables

    if len(name_levels(dotted)) < 2:
        raise click.ClickException(f"{dotted}: a table's name is namespace.name")
    tables = Tables(reached)
    try:
        found = table_of(tables, dotted)
    except (RetryLater, TaskRefused) as error:
        raise click.ClickException(str(error)) from None
    return similar_names(tables, dotted) if found is None else found.identity


def name_levels(dotted: str) -> tuple[str, ...]:
    """Return the levels of a name that a user has typed. Raises ClickException."""
    try:
        return levels_of(dotted)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def table_of(tables: Any, dotted: str) -> Any:
    """Return the loaded table of a dotted name, or None. Where each dot parting two levels gives no
    table, one level may have a dot in it. Raises ClickException if several do; RetryLater and
    TaskRefused, as `Tables.load_named`."""
    from firnline_domain.errors import CatalogUnreachable
    from firnline_iceberg.table.loaded_table import TableGone

    plain, *others = readings_of(dotted)
    try:
        return tables.load_named(plain[:-1], plain[-1])
    except TableGone:
        found = []
    for one in others:
        with suppress(TableGone, CatalogUnreachable):  # some catalogs take no such namespace
            found.append(tables.load_named(one[:-1], one[-1]))
    if len(found) > 1:
        quoted = " and ".join(quoted_name(one.identity) for one in found)
        raise click.ClickException(f"{dotted} may be {quoted}: write it with the quotes")
    return found[0] if found else None


def quoted_name(table: TableName) -> str:
    """Return the name as a user may type it if a level has a dot in it."""
    parts = (*table.namespace, table.name)
    return ".".join('"' + one.replace('"', '""') + '"' if "." in one else one for one in parts)


def similar_names(tables: Any, table: str) -> str:
    """Return similar names of the same namespace, as a question; '' if there are none."""
    from firnline_domain.errors import RetryLater, TaskRefused

    try:
        names = [".".join(one) for one in tables.table_names(name_levels(table)[:-1])]
    except (RetryLater, TaskRefused):
        return ""
    close = difflib.get_close_matches(table, names)
    return f" Did you mean: {', '.join(close)}?" if close else ""


def operator_name() -> str:
    """Return the name of the user of this process, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
