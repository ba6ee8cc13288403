"""firnline tables"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import click
from firnline_adapters import clock
from rich.console import Console

from firnline_cli.shared.console_client import console_at, console_options, json_option
from firnline_cli.shared.formats import (
    COLOURS,
    Cell,
    Column,
    age,
    moment,
    number,
    say,
    show_list,
    size,
    styled,
)

NONE = "no table has been seen yet: give writers the gateway's address as their catalog"
SORTS = ("table", "rows", "size", "files", "small", "deletes", "debt", "status", "commit")
STATUSES = (
    *("stuck", "failing", "working", "waiting", "cooling", "held", "paused", "off", "healthy"),
    *("resync", "not_counted"),
)
COLUMNS = (
    Column("table"),
    Column("rows", True, 6),
    Column("size", True, 5),
    Column("files", True, 4),
    Column("small", True, 3),
    Column("deletes", True, 2),
    Column("debt", True),
    Column("status"),
    Column("commit", True, 1),
)


@click.command("tables")
@click.option("--filter", "text", default="", help="Only tables whose name contains this text.")
@click.option("--namespace", default="", help="Only tables of this namespace and of nested ones.")
@click.option(
    "--status", type=click.Choice(STATUSES), metavar="STATUS", help=f"One of {', '.join(STATUSES)}."
)
@click.option(
    "--sort", type=click.Choice(SORTS), default="debt", show_default=True, help="Column to sort by."
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Maximum number of tables.",
)
@json_option
@console_options
def command(
    text: str,
    namespace: str,
    status: str | None,
    sort: str,
    reverse: bool,
    limit: int,
    state: Path | None,
    uri: str | None,
    json_wanted: bool,
) -> None:
    """List tables, those with most files to compact first.

    Debt is how many files fewer a compaction would leave, data files and delete files together. If
    the output is no terminal, it is tab-separated with a header.
    """
    site = console_at(state, uri)
    is_descending = (sort not in ("table", "status")) != reverse
    query = {"q": text, "namespace": namespace, "status": status or ""}
    query["sort"] = f"-{sort}" if is_descending else sort
    rows = list(islice(site.tables(**query), limit))
    found = site.get(f"/api/tables?{site.query(**query, limit='1')}")
    if json_wanted:
        answer = {"tables": rows, "matched": found["matched"], "total": found["total"]}
        click.echo(json.dumps(answer, indent=1))
        return
    show(rows, Console(), clock.now_ms())
    if not found["total"]:
        say(NONE, err=True)
    elif len(rows) < found["total"]:
        matched = f"{found['matched']:,} that match, of {found['total']:,} tables"
        say(f"{len(rows):,} of {matched}", err=True)


def show(rows: list[dict[str, Any]], terminal: Console, now_ms: int) -> None:
    """Print one line per table."""
    show_list(COLUMNS, [cells(row, now_ms) for row in rows], terminal)


def cells(row: dict[str, Any], now_ms: int) -> list[Cell]:
    """Return a table's figures, in the order of COLUMNS."""
    commit, status = row["last_commit"], row["status"]
    at_ms = commit["at_ms"] if commit else row["last_change_ms"]
    debt = row.get("debt_files")
    counts = (row.get(name) for name in ("data_files", "fragments", "delete_files"))
    return [
        Cell(row["table"], styled(row["table"])),
        Cell(row.get("records"), styled(number(row.get("records")))),
        Cell(row.get("data_bytes"), styled(size(row.get("data_bytes")))),
        *(Cell(count, styled(number(count))) for count in counts),
        Cell(debt, styled(number(debt), "bold" if debt else "dim")),
        Cell(status["text"], styled(status["text"], COLOURS.get(status["code"], ""))),
        Cell(moment(at_ms), styled(age(at_ms, now_ms), "dim")),
    ]
