"""firnline events"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from firnline_cli._console import Away, console_at, console_options
from firnline_cli._console import Console as Site
from firnline_cli._figures import plain, styled

PAUSE_S = 2.0
REMEMBERED = 10_000  # ids; a rebuild of the console's view tells everything once more
COLOURS = {
    "order": "cyan",
    "own": "blue",
    "committed": "green",
    "expired": "green",
    "announced": "yellow",
    "swept": "green",
    "operator": "magenta",
    "conflicted": "yellow",
    "skipped": "yellow",
    "failed": "red",
    "dead_letter": "red",
}


@click.command("events")
@console_options
@click.option("--follow", "-f", is_flag=True, help="Stay, and show events as they happen.")
@click.option("--last", type=click.IntRange(0, 2_000), default=20, show_default=True)
@click.option("--table", help="Only of this table, by dotted name.")
@click.option("--json", "json_wanted", is_flag=True, help="One JSON object per line.")
def command(
    state: Path | None,
    uri: str | None,
    follow: bool,
    last: int,
    table: str | None,
    json_wanted: bool,
) -> None:
    """Show what happened: commits, orders, rewrites, conflicts, failures."""
    site = console_at(state, uri)
    printer = Printer(Console(highlight=False, soft_wrap=True), json_wanted)
    answer = site.get(f"/api/events?limit={max(last, 1)}")
    earlier = answer["events"]
    with suppress(KeyboardInterrupt):
        shown = earlier[-last:] if last else []
        for event in chain(shown, followed(site, answer) if follow else ()):
            if table in (None, event["table"]):
                printer.show(event)


def followed(site: Site, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Events after those of the answer, each once; a console that is away is awaited."""
    seen = dict.fromkeys(event["id"] for event in answer["events"])
    cursor, is_away = answer["cursor"], False
    while True:
        try:
            for event in site.stream(cursor):
                is_away, cursor = False, max(cursor, event["number"])
                if event["id"] not in seen:
                    remember(seen, event["id"])
                    yield event
        except Away as away:
            if not is_away:
                click.echo(f"{away.message} Waiting for it.", err=True)
            is_away = True
        time.sleep(PAUSE_S)


def remember(seen: dict[str, None], event_id: str) -> None:
    """Keep an id and forget the oldest above REMEMBERED."""
    seen[event_id] = None
    if len(seen) > REMEMBERED:
        del seen[next(iter(seen))]


class Printer:
    """Prints events as JSON lines, as coloured lines, or as tab-separated ones."""

    def __init__(self, terminal: Console, as_json: bool) -> None:
        self._terminal = terminal
        self._as_json = as_json

    def show(self, event: dict[str, Any]) -> None:
        """One event on one line, flushed."""
        if self._as_json:
            click.echo(json.dumps(event))
        elif self._terminal.is_terminal:
            self._terminal.print(line_of(event))
        else:
            moment = datetime.fromtimestamp(event["at_ms"] / 1000, UTC)
            fields = (moment.isoformat(timespec="milliseconds"), event["kind"], event["table"])
            click.echo("\t".join((*fields, plain(event["text"]))))


def line_of(event: dict[str, Any]) -> Text:
    """Local time, kind, table and words."""
    moment = datetime.fromtimestamp(event["at_ms"] / 1000).strftime("%H:%M:%S")
    kind = event["kind"].replace("_", " ")
    return Text.assemble(
        styled(moment, "dim"),
        "  ",
        styled(f"{kind:<11}", COLOURS.get(event["kind"], "dim")),
        " ",
        styled(event["table"], "bold"),
        " ",
        styled(event["text"]),
    )
