"""firnline undo"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import click
from firnline_adapters import clock
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.orders import HoldPartitions

from firnline_cli.shared.console_client import Console, identity_in
from firnline_cli.shared.fleet import (
    ORDERS,
    FleetClient,
    Where,
    operator_name,
    operator_options,
    report_result,
    resolve_table,
)
from firnline_cli.shared.formats import print_wrapped

HOLD_MS = 24 * 3_600_000  # by then a person has seen to what made the undo necessary
MIN_PREFIX = 6  # characters of a task's id


@click.command("undo")
@click.argument("task")
@click.option(
    "--yes", is_flag=True, help="Do it. Without --yes the command only shows what it would change."
)
@click.option("--table", help="Table (namespace.name) of the task, instead of asking the console.")
@click.option(
    "--ref", default=MAIN, show_default=True, help="Branch of the task, used with --table."
)
@operator_options
def command(
    task: str, yes: bool, table: str | None, ref: str, where: Where, json_wanted: bool
) -> None:
    """Revert the commit of TASK: move its branch back to the snapshot before the commit.

    TASK is the beginning of an id that `firnline tasks` lists. It is possible while that snapshot
    is retained and no other commit followed. Firnline then leaves the partitions alone for a day,
    or until `firnline unpark`.

    Exit code: 0 done or possible, 1 not possible, with the reason.
    """
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.commit.revert import CannotUndo, undo_of
    from firnline_iceberg.table.catalog_client import Tables

    fleet = where.fleet()
    if table is not None:
        name = resolve_table(fleet, table)
    else:
        task, name, ref = find_task(where.console_client(), task)
    try:
        found = undo_of(Tables(fleet.connection_for(name)).load(name), ref, task)
    except (RetryLater, TaskRefused) as error:
        raise click.ClickException(str(error)) from None
    if isinstance(found, CannotUndo):
        text = f"cannot be undone ({found.reason}): {found.detail}.\n{found.remedy}."
        raise click.ClickException(text)
    facts = {
        "table": name.dotted_name,
        "ref": found.ref,
        "from_snapshot_id": str(found.head),
        "to_snapshot_id": str(found.restored),
        "task_ids": list(found.task_ids),
        "undone": yes,
    }
    if not json_wanted:
        print_wrapped(describe_undo(name, found))
    if yes:
        _undo(fleet, name, found)
    did = "undone; its partitions are left alone for 24 h, or until `firnline unpark`"
    report_result(json_wanted, did if yes else "nothing was changed: --yes does it", **facts)


def find_task(site: Console, task: str) -> tuple[str, TableName, str]:
    """Return (whole id, table, ref) of a task by the beginning of its id. Raises ClickException."""
    if len(task) < MIN_PREFIX:
        raise click.UsageError(f"{task!r}: write at least {MIN_PREFIX} characters of a task's id")
    found = site.get(f"/api/tasks?limit=2&task={quote(task)}")["tasks"]
    if len(found) != 1:
        what = "several tasks begin" if found else "the console knows no task that begins"
        raise click.ClickException(f"{what} with {task!r}; give its whole id, or --table NAME")
    (one,) = found
    return one["task_id"], identity_in(one), one["ref"]


def describe_undo(table: TableName, undo: Any) -> str:
    """Return what the undo does, as text."""
    snapshots = ", ".join(map(str, undo.snapshot_ids))
    lines = [
        f"{table.dotted_name}, {undo.ref}: from snapshot {undo.head} back to {undo.restored}",
        f"  takes back: snapshot {snapshots}; task {', '.join(undo.task_ids)}",
        f"  {undo.files_back} replaced files are live again, {undo.files_gone} new ones are not",
        "  no row changes; the new files go when their snapshot expires",
    ]
    return "\n".join(lines)


def _undo(fleet: FleetClient, table: TableName, undo: Any) -> None:
    """Undo the commit. The planner is informed first: else it orders the same task again while the
    ref moves."""
    from firnline_domain.errors import RetryLater
    from firnline_iceberg.commit.java_commits import JavaCommits
    from firnline_iceberg.commit.revert import give_back
    from firnline_iceberg.java.jvm import IcebergJvm
    from firnline_iceberg.table.catalog_client import Tables
    from firnline_local.servers.artifacts import iceberg_jar

    now_ms = clock.now_ms()
    hold = HoldPartitions(
        table, undo.ref, undo.scopes, "undone", now_ms + HOLD_MS, operator_name(), now_ms
    )
    fleet.send(ORDERS, hold)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # its objects outlive the JVM, loudly
    try:
        if undo.snapshot is not None:
            done = give_back(Tables(fleet.connection_for(table)), table, undo)
        else:
            with IcebergJvm(iceberg_jar()) as iceberg:
                commits = JavaCommits(iceberg, fleet.connection_for(table))
                done = commits.undo(table, undo.ref, undo.head, undo.restored)
    except RetryLater:  # perhaps done, perhaps not: the table knows
        tables = Tables(fleet.connection_for(table))
        done = tables.load(table).head_id(undo.ref) == undo.restored
    if not done:
        raise click.ClickException(
            "another commit has landed meanwhile, or the catalog does not take an earlier snapshot "
            "back, and nothing was undone. Its partitions are held "
            f"all the same: `firnline unpark {table.dotted_name}` frees them"
        )
