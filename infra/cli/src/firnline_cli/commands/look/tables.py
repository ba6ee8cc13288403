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
    age_text,
    number_text,
    print_wrapped,
    show_list,
    size_text,
    styled_text,
    timestamp_text,
)

NONE = "no table has been seen yet: writers use the gateway as their catalog, or run the listener"
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
    rows = list(islice(site.list_tables(**query), limit))
    found = site.get(f"/api/tables?{site.query(**query, limit='1')}")
    if json_wanted:
        answer = {"tables": rows, "matched": found["matched"], "total": found["total"]}
        click.echo(json.dumps(answer, indent=1))
        return
    print_tables(rows, Console(), clock.now_ms())
    if not found["total"]:
        print_wrapped(NONE, err=True)
    elif len(rows) < found["total"]:
        matched = f"{found['matched']:,} that match, of {found['total']:,} tables"
        print_wrapped(f"{len(rows):,} of {matched}", err=True)


def print_tables(rows: list[dict[str, Any]], terminal: Console, now_ms: int) -> None:
    """Print one line per table."""
    show_list(COLUMNS, [table_cells(row, now_ms) for row in rows], terminal)


def table_cells(row: dict[str, Any], now_ms: int) -> list[Cell]:
    """Return a table's figures, in the order of COLUMNS."""
    commit, status = row["last_commit"], row["status"]
    at_ms = commit["at_ms"] if commit else row["last_change_ms"]
    debt = row.get("debt_files")
    counts = (row.get(name) for name in ("data_files", "fragments", "delete_files"))
    return [
        Cell(row["table"], styled_text(row["table"])),
        Cell(row.get("records"), styled_text(number_text(row.get("records")))),
        Cell(row.get("data_bytes"), styled_text(size_text(row.get("data_bytes")))),
        *(Cell(count, styled_text(number_text(count))) for count in counts),
        Cell(debt, styled_text(number_text(debt), "bold" if debt else "dim")),
        Cell(status["text"], styled_text(status["text"], COLOURS.get(status["code"], ""))),
        Cell(timestamp_text(at_ms), styled_text(age_text(at_ms, now_ms), "dim")),
    ]
