"""firnline undo"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import click
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.orders import HoldPartitions

from firnline_cli._console import console_at
from firnline_cli._fleet import Fleet, fleet_at, fleet_options, named, operator

TOPIC = "operator-orders"
HOLD_MS = 24 * 3_600_000  # by then a person has seen to what made the undo necessary
MOST = 5_000
SHORTEST = 6  # characters of a task's id


@click.command("undo")
@click.argument("task")
@click.option("--yes", is_flag=True, help="Do it. Without, only say what it would come to.")
@click.option("--table", help="namespace.name, instead of asking the console for the task's.")
@click.option("--ref", default=MAIN, show_default=True, help="Branch, where --table is given.")
@click.option(
    "--console",
    envvar="FIRNLINE_CONSOLE_URI",
    show_envvar=True,
    help="Address of a console, which knows the task's table.",
)
@fleet_options
def command(
    task: str,
    yes: bool,
    table: str | None,
    ref: str,
    console: str | None,
    state: Path | None,
    catalog: str | None,
    catalog_name: str,
    kafka: str | None,
) -> None:
    """Take the commit of TASK back: its branch points at the snapshot before it again.

    That is possible while that snapshot is retained and nothing was committed on top. The
    partitions are left alone for a day then, or until `firnline unpark`.

    Exit code: 0 done or possible, 1 not possible, with the reason.
    """
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.tables import Tables
    from firnline_iceberg.undoing import CannotUndo, undo_of

    fleet = fleet_at(state, catalog, catalog_name, kafka)
    if table is not None:
        name = named(fleet, table)
    else:
        task, name, ref = known(state, console, task)
    try:
        found = undo_of(Tables(fleet.catalog_uri, fleet.catalog_name).load(name), ref, task)
    except (RetryLater, TaskRefused) as error:
        raise click.ClickException(str(error)) from None
    if isinstance(found, CannotUndo):
        click.echo(f"cannot be undone ({found.reason}): {found.detail}.\n{found.remedy}.", err=True)
        sys.exit(1)
    click.echo(described(name, found))
    if yes:
        _do(fleet, name, found)
    else:
        click.echo("nothing was changed: --yes does it")


def known(state: Path | None, console: str | None, task: str) -> tuple[str, TableName, str]:
    """(Whole id, table, ref) of a task by the beginning of its id. Raises ClickException."""
    tasks = console_at(state, console).get(f"/api/tasks?limit={MOST}")["tasks"]
    found = [one for one in tasks if one["task_id"].startswith(task)]
    if len(found) != 1 or len(task) < SHORTEST:
        what = "several tasks begin" if len(found) > 1 or found else "the console knows no task"
        raise click.ClickException(f"{what} with {task!r}; give its whole id, or --table NAME")
    (one,) = found
    *namespace, name = one["table"].split(".")
    return one["task_id"], TableName(one["table_uuid"], tuple(namespace), name), one["ref"]


def described(table: TableName, undo: Any) -> str:
    """What it comes to."""
    snapshots = ", ".join(map(str, undo.snapshot_ids))
    lines = [
        f"{table.dotted}, {undo.ref}: from snapshot {undo.head} back to {undo.restored}",
        f"  takes back: snapshot {snapshots}; task {', '.join(undo.task_ids)}",
        f"  {undo.files_back} replaced files are live again, {undo.files_gone} new ones are not",
        "  no row changes; the new files go when their snapshot expires",
    ]
    return "\n".join(lines)


def _do(fleet: Fleet, table: TableName, undo: Any) -> None:
    """The planner is told first: else it orders the same again while the ref moves."""
    from firnline_domain.errors import RetryLater
    from firnline_iceberg.commits import JavaCommits
    from firnline_iceberg.jvm import IcebergJvm
    from firnline_iceberg.tables import Tables
    from firnline_local.artifacts import iceberg_jar

    now_ms = int(time.time() * 1000)
    hold = HoldPartitions(
        table, undo.ref, undo.scopes, "undone", now_ms + HOLD_MS, operator(), now_ms
    )
    fleet.tell(TOPIC, hold)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # its objects outlive the JVM, loudly
    try:
        with IcebergJvm(iceberg_jar()) as iceberg:
            commits = JavaCommits(iceberg, fleet.catalog_uri, fleet.catalog_name)
            done = commits.undo(table, undo.ref, undo.head, undo.restored)
    except RetryLater:  # perhaps done, perhaps not: the table knows
        tables = Tables(fleet.catalog_uri, fleet.catalog_name)
        done = tables.load(table).head_id(undo.ref) == undo.restored
    if not done:
        raise click.ClickException(
            "another commit has landed meanwhile, and nothing was undone. Its partitions are held "
            f"all the same: `firnline unpark {table.dotted}` frees them"
        )
    click.echo("undone; its partitions are left alone for 24 h, or until `firnline unpark`")
