"""firnline adopt"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from itertools import chain
from typing import Any

import click
from firnline_adapters.in_memory import MemoryBroker
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.settings.thresholds import resolve_thresholds
from firnline_iceberg.table.catalog_client import Tables, Unlisted

from firnline_cli.adoption.amoro import alter_table, convert_properties
from firnline_cli.adoption.catalog_tables import CatalogLake, Gone, Name, Outage, Unreadable
from firnline_cli.adoption.counted_tables import CountedTables
from firnline_cli.adoption.report import JsonAdoptionReport, TextAdoptionReport
from firnline_cli.adoption.requests import AdoptionStopped, RequestClock, Requests
from firnline_cli.adoption.run import UNREAD_IN_A_ROW, Adoption
from firnline_cli.commands.existing_tables.plan import parse_properties
from firnline_cli.shared.fleet import HOW_TO, FleetClient, Where, fleet_options, name_levels
from firnline_cli.shared.formats import plain, print_wrapped
from firnline_cli.shared.topic_reader import BrokerTopics, KafkaTopics
from firnline_cli.shared.topic_reader_memory import MemoryTopics

SECONDS = {"s": 1, "min": 60, "h": 3_600}
WAITING = 100  # tables under way: what was asked for twice when the command was killed
ONLY_HEADS = {"snapshot-loading-mode": "refs"}  # of a table's snapshots, where a catalog can do so


class Rate(click.ParamType):
    """A rate `60/min`, `5/s`, `1000/h`, converted to the seconds between two requests."""

    name = "rate"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)/(s|min|h)", str(value))
        if not found or not float(found[1]):
            self.fail(f"{value!r}: say 60/min, 5/s or 1000/h", param, ctx)
        return SECONDS[found[2]] / float(found[1])


@click.command("adopt")
@click.option("--all", "all_wanted", is_flag=True, help="Register every table of the catalog.")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Only tables of this namespace and of nested ones; repeatable.",
)
@click.option(
    "--table", "tables", multiple=True, help="Only this table (namespace.name); repeatable."
)
@click.option(
    "--rate",
    "interval_s",
    type=Rate(),
    default="60/min",
    show_default=True,
    help="Maximum rate of tables to request, for example 60/min.",
)
@click.option(
    "--waiting",
    type=click.IntRange(1),
    default=WAITING,
    show_default=True,
    help="Maximum number of tables in progress.",
)
@click.option("--limit", type=click.IntRange(1), help="Maximum number of tables, worst first.")
@click.option(
    "--from-amoro",
    is_flag=True,
    help="Only print the ALTER TABLE statements that set Firnline's properties as Amoro's are set.",
)
@click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="NAME=VALUE",
    help="Default of a table property, as in FIRNLINE_DEFAULTS; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only show the tables, worst first.")
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object per line.")
@fleet_options
def command(
    all_wanted: bool,
    namespaces: tuple[str, ...],
    tables: tuple[str, ...],
    interval_s: float,
    waiting: int,
    limit: int | None,
    from_amoro: bool,
    fleets: tuple[str, ...],
    dry_run: bool,
    json_wanted: bool,
    where: Where,
) -> None:
    """Register existing tables for maintenance, those that need it most first.

    Each is counted once, from its newest snapshot, at a limited rate. Tables that the planner knows
    are skipped, unless --table names one whose newest snapshot is another than the planner's. The
    command can be stopped and started again at any time. At the end it lists the tables that are
    maintained and those in shadow mode.

    Exit code: 0 done; 1 a table or a namespace could not be read, or a table was not counted.
    """
    if all_wanted == bool(namespaces or tables):
        raise click.UsageError("name tables or namespaces, or say --all")
    if from_amoro and json_wanted:
        raise click.UsageError("--from-amoro prints SQL: leave out --json")
    below = [()] if all_wanted else [name_levels(one) for one in namespaces]
    defaults = resolve_thresholds(parse_properties(fleets))
    names = [name_of(one) for one in tables]
    fleet = where.fleet()
    lake = CatalogLake(
        Tables(fleet.only_catalog, None, **ONLY_HEADS),
        Tables(fleet.only_catalog),
        defaults,
        time.sleep,
        time.time,
        fleet.policies,
    )
    if from_amoro:
        sys.exit(not print_conversions(lake, below, names))
    topics = topics_of(fleet, dry_run)
    known, report = (
        CountedTables(topics),
        JsonAdoptionReport() if json_wanted else TextAdoptionReport(dry_run),
    )
    clock = RequestClock(time.time, time.sleep)
    requests = Requests(topics, known, clock, interval_s, waiting, report.report_waiting)
    adoption = Adoption(lake, known, None if dry_run else requests, report, time.time, limit)
    try:
        known.catch_up()
        adoption.adopt_all(adoption.find_newcomers(below, names))
    except (AdoptionStopped, RetryLater) as stopped:
        report.sum_up(adoption.tally, requests.unanswered)
        raise click.ClickException(str(stopped)) from None
    if not dry_run:
        found = (known.find_by_key(table.key) for table in adoption.adopted_tables)
        report.report_standings([one for one in found if one is not None])
    report.sum_up(adoption.tally, requests.unanswered)
    sys.exit(bool(requests.unanswered or adoption.tally.unread))


def print_conversions(lake: CatalogLake, below: Iterable[Name], names: Iterable[Name]) -> bool:
    """Print an ALTER TABLE for each table with properties of Amoro's; False if a table or a
    namespace could not be read. Raises ClickException."""
    failed, unread_in_a_row, unlisted = False, 0, Unlisted()
    try:
        every = [*chain.from_iterable(lake.table_names(one, unlisted) for one in below), *names]
    except (RetryLater, TaskRefused) as error:
        raise click.ClickException(str(error)) from None
    for name in every:
        try:
            converted, ignored = convert_properties(lake.properties(name))
        except (Gone, Unreadable) as error:
            print_wrapped(plain(f"cannot read {'.'.join(name)}: {error}"), fg="red", err=True)
            failed = True
            unread_in_a_row = unread_in_a_row + 1 if isinstance(error, Outage) else 0
            if unread_in_a_row >= UNREAD_IN_A_ROW:
                text = f"{unread_in_a_row} tables in a row had no answer: check the catalog"
                raise click.ClickException(text) from None
            continue
        unread_in_a_row = 0
        if converted:
            click.echo(alter_table(name, converted))
        for one in ignored:
            print_wrapped(
                plain(f"{'.'.join(name)}: {one} has no counterpart"), fg="yellow", err=True
            )
    for namespace, why in unlisted.items():
        print_wrapped(plain(f"cannot read namespace {namespace}: {why}"), fg="red", err=True)
    return not failed and not unlisted


def name_of(text: str) -> tuple[str, ...]:
    """Return the levels of a table's name. Raises BadParameter for one without a namespace."""
    if len(found := name_levels(text)) < 2:
        raise click.BadParameter(f"{text}: a table's name is namespace.name")
    return found


def topics_of(fleet: FleetClient, dry_run: bool) -> BrokerTopics:
    """Return the broker's topics; a dry run needs none. Raises ClickException."""
    if fleet.kafka is not None:
        return KafkaTopics(fleet.kafka, fleet.signer())
    if not dry_run:
        raise click.ClickException(f"No Kafka is configured. {HOW_TO}")
    print_wrapped(
        "no Kafka configured: the list includes tables that are already registered", err=True
    )
    return MemoryTopics(MemoryBroker())
