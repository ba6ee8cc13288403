"""firnline verify"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from firnline_adapters import clock
from firnline_domain.identity import MAIN
from firnline_domain.records.orders import CompareRows

from firnline_cli.commands.act.undo import find_task
from firnline_cli.shared.fleet import (
    Where,
    operator_name,
    operator_options,
    report_result,
    resolve_table,
)

TOPIC = "compare-tasks"


@click.command("verify")
@click.argument("task")
@click.option("--table", help="Table (namespace.name) of the task, instead of asking the console.")
@click.option(
    "--ref", default=MAIN, show_default=True, help="Branch of the task, used with --table."
)
@operator_options
def command(task: str, table: str | None, ref: str, where: Where, json_wanted: bool) -> None:
    """Verify the rows of TASK's commit with Iceberg's own Spark reader.

    TASK is the beginning of an id that `firnline tasks` lists. A worker reads the rows before and
    after the commit, and `firnline events` shows the result. If several tasks share the commit, all
    their partitions are read.

    Exit code: 0 requested, 1 nothing to verify, with the reason.
    """
    from firnline_domain.errors import RetryLater, TaskRefused
    from firnline_iceberg.table.catalog_client import Tables

    fleet = where.fleet()
    if table is not None:
        name = resolve_table(fleet, table)
    else:
        task, name, ref = find_task(where.console_client(), task)
    try:
        loaded = Tables(fleet.connection_for(name)).load(name)
        orders = list(comparison_tasks(loaded, ref, task, operator_name(), clock.now_ms()))
    except (RetryLater, TaskRefused) as error:
        raise click.ClickException(str(error)) from None
    if not orders:
        text = (
            f"{name.dotted_name} retains no snapshot of task {task}: it made none, or it is expired"
        )
        raise click.ClickException(text)
    for order in orders:
        fleet.send(TOPIC, order)
        text = f"{name.dotted_name}, {order.scope.label}: ordered to be read back"
        report_result(
            json_wanted, text, table=name.dotted_name, partition=order.scope.partition, task_id=task
        )


def comparison_tasks(
    table: Any, ref: str, task: str, by: str, now_ms: int
) -> Iterator[CompareRows]:
    """Yield one task for each partition that the task's snapshots changed. `table`: LoadedTable.
    Raises MetadataFileGone, RetryLater."""
    from firnline_iceberg.commit.pinned_head import changed_by
    from firnline_iceberg.commit.rewrite import claimed_task_ids

    made = [one.snapshot_id for one in table.snapshots if task in claimed_task_ids(one.summary)]
    scopes = {entry.scope for one in made for entry in changed_by(table, one)}
    for number, scope in enumerate(sorted(scopes)):
        # a number of its own: a worker passes over an attempt that it has finished
        yield CompareRows(
            task, table.identity, ref, scope, tuple(made), now_ms + number, by, now_ms
        )
