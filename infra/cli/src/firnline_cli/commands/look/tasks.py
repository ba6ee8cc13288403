"""firnline tasks"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from firnline_cli.commands.look.explain import SHOWN_ID, about_table, task_result
from firnline_cli.shared.console_client import console_at, console_options, json_option
from firnline_cli.shared.formats import (
    Cell,
    Column,
    age_text,
    print_wrapped,
    show_list,
    status_text,
    styled_text,
    timestamp_text,
)

STATUSES = ("running", "overdue", "committed", "conflicted", "skipped", "failed")
COLUMNS = (
    Column("task"),
    Column("status"),
    Column("table"),
    Column("partition", drop=2),
    Column("why", drop=4),
    Column("result", drop=3),
    Column("snapshots", drop=5),
    Column("age", True, 1),
)


@click.command("tasks")
@click.argument("task", required=False)
@click.option("--table", help="Only this table (namespace.name).")
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    metavar="STATUS",
    help=f"Only tasks with this status: {', '.join(STATUSES)}.",
)
@click.option(
    "--last",
    type=click.IntRange(1, 5_000),
    default=20,
    show_default=True,
    help="Maximum number of tasks.",
)
@json_option
@console_options
def command(
    task: str | None,
    table: str | None,
    status: str | None,
    last: int,
    state: Path | None,
    uri: str | None,
    json_wanted: bool,
) -> None:
    """List tasks, open ones first; or those whose id begins with TASK.

    `firnline undo` and `firnline verify` take these ids. If the output is no terminal, it is
    tab-separated with a header and has complete ids.
    """
    site = console_at(state, uri)
    asked = {"limit": str(last), "task": task, "table": table, "status": status}
    given = {name: text for name, text in asked.items() if text}
    answer = site.get(f"/api/tasks?{site.query(**given)}")
    if json_wanted:
        click.echo(json.dumps(answer, indent=1))
        return
    rows = [task_cells(one, answer["now_ms"]) for one in answer["tasks"]]
    show_list(COLUMNS, rows, Console())
    if not rows:
        if table:
            about_table(site, table, "")  # raises for a name that nobody knows
        kept = answer["kept_since_ms"]
        since = "" if kept is None else f"; they are kept since {timestamp_text(kept)}"
        print_wrapped(f"no such task among those that the console keeps{since}", err=True)
        sys.exit(1 if task else 0)


def task_cells(task: dict[str, Any], now_ms: int) -> list[Cell]:
    """Return a task, in the order of COLUMNS."""
    order, outcome = task["order"], task["outcome"]
    why, came = order["words"] if order else "", task_result(task)
    snapshots = " ".join(outcome["snapshot_ids"] if outcome else ())
    changed = task["changed_at_ms"]
    return [
        Cell(task["task_id"], styled_text(task["task_id"][:SHOWN_ID])),
        Cell(task["status"], status_text(task["status"])),
        Cell(task["table"], styled_text(task["table"])),
        Cell(task["label"], styled_text(task["label"])),
        Cell(why, styled_text(why)),
        Cell(came, styled_text(came)),
        Cell(snapshots, styled_text(snapshots, "dim")),
        Cell(timestamp_text(changed), styled_text(age_text(changed, now_ms), "dim")),
    ]
