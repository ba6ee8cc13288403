"""firnline events"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import click
from cachetools import FIFOCache
from rich.console import Console
from rich.table import Table
from rich.text import Text

from firnline_cli.commands.look.explain import SHOWN_ID, about_table
from firnline_cli.shared.console_client import Away, console_at, console_options
from firnline_cli.shared.console_client import Console as Site
from firnline_cli.shared.formats import plain, print_wrapped, styled_text, timestamp_text

PAUSE_S = 2.0
REMEMBERED = 10_000  # ids; a rebuild of the console's view sends everything once more
KEPT = 2_000  # events that a console keeps
COLOURS = {
    "order": "cyan",
    "own": "blue",
    "committed": "green",
    "compared": "green",
    "expired": "green",
    "announced": "yellow",
    "swept": "green",
    "operator": "magenta",
    "conflicted": "yellow",
    "skipped": "yellow",
    "running": "cyan",
    "failed": "red",
    "dead_letter": "red",
}
KINDS = ("commit", "table", "counters", *COLOURS)
HEADER = ("time", "kind", "table", "task", "text")
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Moment(click.ParamType):
    """A time: `2026-11-23`, `2026-11-23T03:12` (local time), `03:12` (today), or `90m` (ago)."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if found := re.fullmatch(r"(\d+)([smhd])", str(value)):
            return int((time.time() - int(found[1]) * SECONDS[found[2]]) * 1000)
        today = datetime.now().astimezone().date().isoformat()
        text = f"{today}T{value}" if re.fullmatch(r"\d\d:\d\d(:\d\d)?", str(value)) else str(value)
        try:
            return int(datetime.fromisoformat(text).timestamp() * 1000)
        except ValueError:
            self.fail(f"{value!r}: say 2026-11-23T03:12, 03:12 or 90m", param, ctx)


@click.command("events")
@click.option("--follow", "-f", is_flag=True, help="Continue to show new events.")
@click.option(
    "--last",
    type=click.IntRange(0, KEPT),
    help="Maximum number of events.  [default: 20, all with --since]",
)
@click.option("--table", help="Only this table (namespace.name).")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    metavar="KIND",
    multiple=True,
    help=f"Only of this kind, repeatable: {', '.join(KINDS)}.",
)
@click.option(
    "--since",
    type=Moment(),
    help="Only events from this time on: 2026-11-23T03:12, 03:12 (today), or 90m (minutes ago).",
)
@click.option("--until", type=Moment(), help="Only events before this time, in the same forms.")
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object per line.")
@console_options
def command(
    follow: bool,
    last: int | None,
    table: str | None,
    kinds: tuple[str, ...],
    since: int | None,
    until: int | None,
    state: Path | None,
    uri: str | None,
    json_wanted: bool,
) -> None:
    """Show events: commits, tasks, rewrites, conflicts, failures.

    If the output is no terminal, it is tab-separated with a header and has times in UTC.
    """
    site = console_at(state, uri)
    count = last if last is not None else 20 if since is None else KEPT

    def is_wanted(event: dict[str, Any]) -> bool:
        return (
            is_of_table(event, table)
            and (not kinds or event["kind"] in kinds)
            and (since or 0) <= event["at_ms"]
            and (until is None or event["at_ms"] <= until)
        )

    answer = site.get(f"/api/events?limit={KEPT}")
    found = list(filter(is_wanted, answer["events"]))
    if table and not found:
        about_table(site, table, "")  # raises for a name that nobody knows
    kept, asked = answer["kept_since_ms"], since if since is not None else until
    if asked is not None and (kept is None or asked < kept):
        print_wrapped(unknown_before(kept), err=True)
    printer = Printer(Console(highlight=False), json_wanted)
    later = filter(is_wanted, follow_events(site, answer)) if follow else ()
    with suppress(KeyboardInterrupt):
        for event in chain(found[-count:] if count else (), later):
            printer.print_event(event)


def unknown_before(kept_since_ms: int | None) -> str:
    """Return the note that nothing is known of an earlier time, which does not mean that nothing
    happened."""
    if kept_since_ms is None:
        return "the console keeps no event yet: nothing is known of that time"
    since = timestamp_text(kept_since_ms)
    return f"events are kept since {since}: nothing is known of what was before"


def is_of_table(event: dict[str, Any], table: str | None) -> bool:
    """Return whether an event is of the table of that name, in any catalog."""
    head = f"{event['catalog']}:"
    dotted = event["table"].removeprefix(head)
    return table in (None, dotted, head + dotted)


def follow_events(site: Site, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events after those of the answer, each once. Waits for a console that does not
    answer."""
    seen = FIFOCache[str, None](REMEMBERED)
    seen.update(dict.fromkeys(event["id"] for event in answer["events"]))
    cursor, is_away = answer["cursor"], False
    while True:
        try:
            for event in site.stream_events(cursor):
                is_away, cursor = False, max(cursor, event["number"])
                if event["id"] not in seen:
                    seen[event["id"]] = None
                    yield event
        except Away as away:
            if not is_away:
                print_wrapped(f"{away.message} Waiting for it.", err=True)
            is_away = True
        time.sleep(PAUSE_S)


class Printer:
    """A printer of events as JSON lines, as coloured lines, or as tab-separated ones."""

    def __init__(self, terminal: Console, as_json: bool) -> None:
        self._terminal = terminal
        self._as_json = as_json
        self._day = ""
        if not as_json and not terminal.is_terminal:
            click.echo("\t".join(HEADER))

    def print_event(self, event: dict[str, Any]) -> None:
        """Print one event, and flush. On a terminal it is under its day, wrapped beneath its own
        text."""
        if self._as_json:
            click.echo(json.dumps(event))
        elif self._terminal.is_terminal:
            at = datetime.fromtimestamp(event["at_ms"] / 1000)
            if (day := f"{at:%A, %Y-%m-%d}") != self._day:
                self._day = day
                self._terminal.print(styled_text(day, "bold dim"))
            self._terminal.print(line_of(event, at))
        else:
            fields = (event["kind"], event["table"], event["task_id"], event["text"])
            click.echo("\t".join((timestamp_text(event["at_ms"]), *map(plain, fields))))


def line_of(event: dict[str, Any], at: datetime) -> Table:
    """Return local time, kind, table, text and task."""
    line = Table.grid(padding=(0, 1))
    for width in (8, 11):
        line.add_column(min_width=width, no_wrap=True)
    line.add_column()
    kind = event["kind"].replace("_", " ")
    first_task = event["task_id"].partition(",")[0][:SHOWN_ID]
    line.add_row(
        styled_text(f"{at:%H:%M:%S}", "dim"),
        styled_text(kind, COLOURS.get(event["kind"], "dim")),
        Text.assemble(
            styled_text(event["table"], "bold"),
            " " if event["table"] else "",
            styled_text(event["text"]),
            styled_text(f" {first_task}" if first_task else "", "dim"),
        ),
    )
    return line
