"""firnline purge"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from firnline_adapters import clock
from firnline_domain.identity import TableName

from firnline_cli.shared.fleet import FleetClient, Where, fleet_options, resolve_table
from firnline_cli.shared.formats import print_wrapped

if TYPE_CHECKING:
    from firnline_iceberg.table.catalog_client import Tables
    from firnline_iceberg.table.loaded_table import LoadedTable

NOT_YET = 1


@click.command("purge")
@click.argument("table")
@click.option(
    "--where", "condition", required=True, help='Condition of the rows, for example "customer = 7".'
)
@click.option("--yes", is_flag=True, help="Compact the partitions and expire snapshots.")
@click.option("--prove", is_flag=True, help="Exit with code 1 while a file may contain such a row.")
@click.option(
    "--report",
    "path",
    type=click.Path(path_type=Path),
    help="File that stores the list of files between runs.",
)
@click.option(
    "--memory", default="1g", show_default=True, help="Heap of Spark's JVM, for example 512m or 4g."
)
@click.option("--json", "json_wanted", is_flag=True, help="Print the report as JSON.")
@fleet_options
def command(
    table: str,
    condition: str,
    yes: bool,
    prove: bool,
    path: Path | None,
    memory: str,
    json_wanted: bool,
    where: Where,
) -> None:
    """List the files of TABLE (namespace.name) that still contain deleted rows, what keeps each of
    them, and how to remove them. Run your own DELETE first: this command deletes no rows.

    It reads the files of all retained snapshots, branches and tags, without applying deletes.
    --yes compacts the partitions with such rows and expires all snapshots but the newest, so time
    travel ends. Snapshots that the table's properties, tags and branches keep stay.

    --report FILE stores the list of files. Later runs check whether they are still on the storage,
    and report when the last one was removed.

    Exit code: 0 done, and with --prove no such file is left; 1 some are left, or it failed; 2 wrong
    arguments or settings.
    """
    from firnline_cli.purging.report import text_of

    fleet = where.fleet()
    name = resolve_table(fleet, table)
    found = look_for_rows(fleet, name, condition, path)
    if yes and found.holders:
        carry_out(fleet, name, found, memory, where.config, json_wanted)
        found = look_for_rows(fleet, name, condition, path)
    click.echo(found.as_json()) if json_wanted else print_wrapped(text_of(found), hang=4)
    sys.exit(NOT_YET if prove and not found.is_proved else 0)


def look_for_rows(fleet: FleetClient, name: TableName, condition: str, path: Path | None) -> Any:
    """Return what is there now, next to what the report of an earlier look contains. Raises
    ClickException."""
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.metadata.avro_reader import MetadataFileGone
    from firnline_iceberg.table.catalog_client import Tables

    from firnline_cli.purging.report import UnusableReport, look_for_rows, read_earlier

    try:
        before = read_earlier(path, name, condition)
        tables, now_ms = Tables(fleet.connection_for(name)), clock.now_ms()
        table = tables.load(name)
        found = look_for_rows(
            table,
            archive_of(tables, table, fleet.policies.properties_of(name)),
            condition,
            before,
            now_ms,
        )
    except (RetryLater, TaskRefused, MetadataFileGone, UnusableReport) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{name.dotted_name} cannot be read: {error}") from None
    if path is not None:
        path.write_text(found.as_json() + "\n")
    return found


def archive_of(
    tables: Tables, table: LoadedTable, policies: Mapping[str, str]
) -> LoadedTable | None:
    """Return the table's archive; None if it has none. Raises RetryLater, TaskRefused."""
    from firnline_domain.settings.thresholds import resolve_thresholds
    from firnline_iceberg.archive.archive_table import NoArchive, find_archive
    from firnline_iceberg.table.catalog_client import settings_of

    try:
        settings = settings_of(tables, table, policies)
        return find_archive(tables, table, resolve_thresholds(settings).archive_table)
    except NoArchive:  # a table of this name that is another's
        return None


def carry_out(
    fleet: FleetClient, name: TableName, found: Any, memory: str, config: str | None, quiet: bool
) -> None:
    """Compact, then expire; each as `firnline run` does it. Raises ClickException."""
    from firnline_domain.policy.operator_requests import RequestedAction
    from firnline_domain.settings.thresholds import Thresholds

    from firnline_cli.commands.act.run import bytes_of
    from firnline_cli.running.local_run import Here

    steps = [RequestedAction("compact", partition) for partition in found.partitions_to_compact]
    for requested in (*steps, RequestedAction("expire")):
        run = Here(fleet, name, requested, Thresholds(retain_hours=0.0), quiet, config)
        if (code := run.execute(bytes_of(memory), verify=False)) != 0:
            raise click.ClickException(f"{requested.action} failed ({code}): nothing else was done")
