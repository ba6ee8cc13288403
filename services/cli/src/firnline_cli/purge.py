"""firnline purge"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from firnline_domain.identity import TableName

from firnline_cli._figures import say
from firnline_cli._fleet import Fleet, Where, fleet_options, named

if TYPE_CHECKING:
    from firnline_iceberg.tables import LoadedTable, Tables

NOT_YET = 1


@click.command("purge")
@click.argument("table")
@click.option("--where", "condition", required=True, help='Which rows: "customer = 7".')
@click.option("--yes", is_flag=True, help="Compact and expire what holds them, in that order.")
@click.option("--prove", is_flag=True, help="Exit code 1 while any file may hold such a row.")
@click.option("--report", "path", type=click.Path(path_type=Path), help="Keep what was found here.")
@click.option("--memory", default="1g", show_default=True, help="Of Spark's JVM: 512m, 4g.")
@click.option("--json", "json_wanted", is_flag=True, help="The report as JSON.")
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
    """Say which files of TABLE (namespace.name) hold rows that were deleted, what keeps each of
    them, and what has to be done: the right to be forgotten. Delete the rows first, with a DELETE
    of your own: this deletes none.

    Files of all retained snapshots, branches and tags are read, without the deletes that hide rows.
    --yes compacts the partitions that hold such rows, and expires all snapshots but the newest:
    **time travel ends**, but for what the table's own properties keep, and tags and branches.

    --report FILE remembers the files, and looks for them on the storage again each time: in the end
    it says when the last of them went.

    Exit code: 0 done, and with --prove none is left; 1 some are left, or it failed; 2 wrong
    arguments or settings.
    """
    from firnline_cli.purging.report import text_of

    fleet = where.fleet()
    name = named(fleet, table)
    found = looked(fleet, name, condition, path)
    if yes and found.holders:
        carry_out(fleet, name, found, memory, where.config, json_wanted)
        found = looked(fleet, name, condition, path)
    click.echo(found.json()) if json_wanted else say(text_of(found), hang=4)
    sys.exit(NOT_YET if prove and not found.proved else 0)


def looked(fleet: Fleet, name: TableName, condition: str, path: Path | None) -> Any:
    """What there is now, beside what the report of an earlier look has. Raises ClickException."""
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.avro import MetadataFileGone
    from firnline_iceberg.tables import Tables

    from firnline_cli.purging.report import UnusableReport, earlier, look

    try:
        before = earlier(path, name, condition)
        tables, now_ms = Tables(fleet.of(name)), int(time.time() * 1000)
        table = tables.load(name)
        found = look(table, archive_of(tables, table), condition, before, now_ms)
    except (RetryLater, TaskRefused, MetadataFileGone, UnusableReport) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{name.dotted} cannot be read: {error}") from None
    if path is not None:
        path.write_text(found.json() + "\n")
    return found


def archive_of(tables: Tables, table: LoadedTable) -> LoadedTable | None:
    """None where it has none. Raises RetryLater, TaskRefused."""
    from firnline_domain.settings.thresholds import thresholds
    from firnline_iceberg.archive_tables import NoArchive, find
    from firnline_iceberg.tables import settings_of

    try:
        return find(tables, table, thresholds(settings_of(tables, table)).archive_table)
    except NoArchive:  # a table of this name that is another's
        return None


def carry_out(
    fleet: Fleet, name: TableName, found: Any, memory: str, config: str | None, quiet: bool
) -> None:
    """Compact, then expire; each as `firnline run` does it. Raises ClickException."""
    from firnline_domain.policy.requested import Requested
    from firnline_domain.settings.thresholds import Thresholds

    from firnline_cli.run import bytes_of
    from firnline_cli.running.here import Here

    steps = [Requested("compact", partition) for partition in found.partitions]
    for requested in (*steps, Requested("expire")):
        run = Here(fleet, name, requested, Thresholds(retain_hours=0.0), quiet, config)
        if (code := run.execute(bytes_of(memory), verify=False)) != 0:
            raise click.ClickException(f"{requested.action} failed ({code}): nothing else was done")
