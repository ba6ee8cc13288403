"""firnline tables"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from firnline_cli._console import console_at, console_options
from firnline_cli._figures import COLOURS, STATUS, age, number, plain, size, styled

MOST = 5_000
COLUMNS = ("table", "rows", "size", "files", "small", "deletes", "debt", "status", "commit")
RIGHT = {"rows", "size", "files", "small", "deletes", "debt", "commit"}
NONE = "no table has been seen yet: give writers the gateway's address as their catalog"


@click.command("tables")
@console_options
@click.option("--json", "json_wanted", is_flag=True, help="The console's answer, for machines.")
def command(state: Path | None, uri: str | None, json_wanted: bool) -> None:
    """List the tables, the deepest in debt first.

    Debt: small files and delete files, which maintenance would be rid of. Tab-separated lines
    where the output is no terminal.
    """
    answer = console_at(state, uri).get(f"/api/tables?limit={MOST}")
    terminal = Console()
    if json_wanted:
        click.echo(json.dumps(answer, indent=1))
    elif not answer["tables"]:
        click.echo(NONE, err=True)
    else:
        show(answer["tables"], terminal, int(time.time() * 1000))


def show(tables: list[dict[str, Any]], terminal: Console, now_ms: int) -> None:
    """One row per table."""
    if not terminal.is_terminal:
        for row in tables:
            sys.stdout.write("\t".join(cells(row, now_ms)) + "\n")
        return
    grid = Table(box=None, header_style="dim", pad_edge=False)
    for name in COLUMNS:
        is_name = name == "table"
        grid.add_column(
            name, justify="right" if name in RIGHT else "left", no_wrap=not is_name, overflow="fold"
        )
    for row in tables:
        name, *figures, debt, _, commit = cells(row, now_ms)
        middle = [styled(figure) for figure in figures]
        deep = styled(debt, "bold" if row.get("debt_files") else "dim")
        grid.add_row(styled(name), *middle, deep, status_of(row), styled(commit, "dim"))
    terminal.print(grid)


def cells(row: dict[str, Any], now_ms: int) -> list[str]:
    """A table's figures as text, in the order of COLUMNS."""
    commit = row["last_commit"]
    at_ms = commit["at_ms"] if commit else row["last_change_ms"]
    return [
        plain(row["table"]),
        number(row.get("records")),
        size(row.get("data_bytes")),
        number(row.get("data_files")),
        number(row.get("fragments")),
        number(row.get("delete_files")),
        number(row.get("debt_files")),
        status_of(row).plain,
        age(at_ms, now_ms),
    ]


def status_of(row: dict[str, Any]) -> Text:
    """What goes on in a table's partitions."""
    if not row["counted"]:
        return styled("not counted yet", "dim")
    if row["waiting_for_resync"]:
        return styled("waiting for commits", "yellow")
    if (hold := row.get("hold")) and not row["statuses"].get("would_order"):
        return styled(hold["reason"].replace("_", " "), "yellow")
    busy = [
        styled(f"{row['statuses'][code]} {words}", COLOURS[code])
        for code, words in STATUS.items()
        if row["statuses"].get(code)
    ]
    quiet = styled("idle" if row["debt_files"] else "healthy", "dim")
    return Text(", ").join(busy) if busy else quiet
