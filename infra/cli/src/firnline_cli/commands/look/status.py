"""firnline status"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from firnline_adapters import clock
from firnline_local.stack.state import StateDir
from rich.console import Console

from firnline_cli.shared.buckets import bucket_lines, read_buckets
from firnline_cli.shared.console_client import (
    STATES,
    ConsoleNotReady,
    console_at,
    console_options,
    json_option,
)
from firnline_cli.shared.console_client import Console as Site
from firnline_cli.shared.formats import age_text, count_of, number_text, print_wrapped
from firnline_cli.shared.probes import probe_parts
from firnline_cli.shared.stack import as_json, print_parts


@click.command("status")
@json_option
@console_options
def command(state: Path | None, uri: str | None, json_wanted: bool) -> None:
    """Show which services run and respond, and what is paused.

    Asks the console of --console or its variable, else the embedded stack. Exit code: 0 running,
    1 not running.
    """
    if state is None and uri:
        sys.exit(_of_fleet(console_at(None, uri), uri, json_wanted))
    places = [StateDir.from_path(path) for path in ([state] if state else STATES)]
    place = next((one for one in places if one.is_running()), places[0])
    sys.exit(_of_stack(place, json_wanted))


def _of_stack(place: StateDir, json_wanted: bool) -> int:
    """Show the embedded stack. Return the exit code."""
    is_running = place.is_running()
    problems = probe_parts(place.read_record()) if is_running else {}
    buckets = read_buckets(place) if is_running else None
    if json_wanted:
        fleet = fleet_at(place.root)
        more = {
            "probes": problems,
            "pauses": list(fleet.get("pauses", [])),
            "buckets": buckets,
            "tables_failing": count_failing(fleet),
        }
        click.echo(json.dumps({**json.loads(as_json(place)), **more}, indent=1))
    elif is_running:
        print_parts(place.read_record(), Console(), problems)
        for line in bucket_lines(buckets, names_of(place.root, buckets)) if buckets else ():
            print_wrapped(line, err=not sys.stdout.isatty())
        say_what_is_held(fleet_at(place.root))
    else:
        text = f"no stack runs in {place.root}; for a deployment: --console http://host:port"
        print_wrapped(text, err=not sys.stdout.isatty())
    return 0 if is_running else 1


def _of_fleet(site: Site, uri: str, json_wanted: bool) -> int:
    """Show the deployment by its console. Return the exit code. Raises Away if nothing answers."""
    try:
        is_ready, why = bool(site.get("/healthz")["healthy"]), ""
        answer = site.get("/api/fleet")
    except ConsoleNotReady as error:
        is_ready, why, answer = False, error.message, {}
    if json_wanted:
        facts = {"running": is_ready, "console": uri, "why": why, "pauses": [], **answer}
        facts["tables_failing"] = count_failing(answer)
        click.echo(json.dumps(facts, indent=1))
        return 0 if is_ready else 1
    totals = answer.get("totals", {})
    rows = [
        ("console", uri),
        ("state", "answers" if is_ready else why),
        *(
            (name.replace("_", " "), number_text(totals[key]))
            for name, key in SHOWN
            if key in totals
        ),
    ]
    if sys.stdout.isatty():
        for name, text in rows:
            print_wrapped(f"{name:13} {text}", hang=14)
    else:
        for row in (("what", "value"), *rows):
            click.echo("\t".join(row))
    say_what_is_held(answer)
    return 0 if is_ready else 1


SHOWN = (
    ("tables", "tables"),
    ("data files", "data_files"),
    ("debt files", "debt_files"),
    ("open tasks", "tasks_running"),
    ("overdue tasks", "tasks_overdue"),
    ("parked", "partitions_parked"),
    ("dead letters", "dead_letters"),
)


def say_what_is_held(fleet: dict[str, Any]) -> None:
    """Print a line for each pause, the deployment's first, and one for tables at which the planner
    fails; on stderr if programs read the rows."""
    lines = [pause_text(one, clock.now_ms()) for one in fleet.get("pauses", [])]
    if count := count_failing(fleet):
        lines.append(failing_text(count))
    for line in lines:
        print_wrapped(line, err=not sys.stdout.isatty(), fg="red", bold=True)


def names_of(state: Path, buckets: dict[str, Any]) -> dict[str, str]:
    """Return the names of the tables that were assigned lately, by key; of those that the console
    has."""
    found = {}
    for one in buckets["newest"]:
        with suppress(click.ClickException):
            found[one["table"]] = str(console_at(state, None).table_answer(one["table"])["table"])
    return found


def fleet_at(state: Path) -> dict[str, Any]:
    """Ask the console of the deployment: its totals, and what people have paused; {} if none
    answers."""
    try:
        found: dict[str, Any] = console_at(state, None).get("/api/fleet")
    except click.ClickException:
        return {}
    return found


def count_failing(fleet: dict[str, Any]) -> int:
    """Count the tables at which the planner fails."""
    return int(fleet.get("totals", {}).get("tables_failing", 0))


def failing_text(count: int) -> str:
    """Return a line with the number of such tables, and the command that lists them."""
    return (
        f"PLANNER ERROR at {count_of(count, 'table')}: `firnline tables --status stuck` lists them."
    )


def pause_text(pause: dict[str, Any], now_ms: int) -> str:
    """Return one pause in a line, with the only command that ends it."""
    what = pause["table"] or "MAINTENANCE OF ALL TABLES"
    why = f": {pause['reason']}" if pause["reason"] else ""
    since = age_text(pause["since_ms"], now_ms)
    ends = f"firnline resume {pause['table'] or '--fleet'}"
    return f"PAUSED: {what}, since {since}, by {pause['by']}{why}. `{ends}` ends it."
