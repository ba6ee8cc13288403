"""firnline advise"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from firnline_cli.commands.look.explain import about_table
from firnline_cli.shared.console_client import console_at, console_options
from firnline_cli.shared.formats import (
    Column,
    age_text,
    plain_cells,
    print_wrapped,
    show_list,
    styled_text,
    timestamp_text,
)

MOST = 5_000
COLUMNS = [Column(name) for name in ("table", "rule", "finding", "remedy", "since")]


@click.command("advise")
@click.argument("table", required=False)
@console_options
@click.option("--json", "json_wanted", is_flag=True, help="Print the console's JSON.")
def command(table: str | None, state: Path | None, uri: str | None, json_wanted: bool) -> None:
    """Show recommendations for the owner of TABLE (namespace.name, or its UUID), or for all tables.

    If the output is no terminal, it is tab-separated with a header.
    """
    site = console_at(state, uri)
    path = f"/api/advice?limit={MOST}"
    answer = about_table(site, table, "/advice") if table else site.get(path)
    if json_wanted:
        click.echo(json.dumps(answer, indent=1))
        return
    terminal = Console()
    if terminal.is_terminal:
        terminal.print(render_hints(answer, table or "any table"))
        return
    names = [one.name for one in COLUMNS[:-1]]
    rows = [
        [*(one[name] for name in names), timestamp_text(one["since_ms"])]
        for one in answer["advice"]
    ]
    show_list(COLUMNS, [plain_cells(row) for row in rows], terminal)
    if not rows:
        print_wrapped(f"nothing to say about {table or 'any table'}", err=True)


def render_hints(answer: dict[str, Any], about: str) -> Group:
    """Render the recommendations by table: the finding, its time, and the remedy."""
    if not answer["advice"]:
        return Group(styled_text(f"Nothing to say about {about}.", "dim"))
    parts: list[RenderableType] = []
    for name, hints in groupby(answer["advice"], key=lambda hint: hint["table"]):
        parts.append(styled_text(name, "bold"))
        parts.extend(Padding(one, (0, 0, 0, 2)) for one in hint_lines(hints, answer["now_ms"]))
    return Group(*parts)


def hint_lines(hints: Any, now_ms: int) -> list[RenderableType]:
    """Return two lines for each recommendation."""
    found: list[RenderableType] = []
    for hint in hints:
        since = styled_text(f"  (for {age_text(hint['since_ms'], now_ms)})", "dim")
        rule = styled_text(hint["rule"].replace("_", " "), "yellow")
        found.append(Text.assemble(rule, ": ", styled_text(hint["finding"]), since))
        found.append(
            Padding(Text.assemble(styled_text("-> ", "dim"), styled_text(hint["remedy"])), (0, 2))
        )
    return found
