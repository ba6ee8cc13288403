"""firnline status"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
from firnline_local.state import StateDir
from rich.console import Console

from firnline_cli._buckets import buckets_of, lines
from firnline_cli._console import console_at, json_option
from firnline_cli._figures import age
from firnline_cli._probes import probes
from firnline_cli._stack import STATE_OPTION, as_json, show


@click.command("status")
@STATE_OPTION
@json_option
def command(state: Path, json_wanted: bool) -> None:
    """Say what runs, where, whether it answers, what is paused, and which tables the planner has
    moved between its buckets. Exit code: 0 running, 1 not."""
    place = StateDir.at(state)
    is_running = place.is_running()
    problems = probes(place.read()) if is_running else {}
    buckets = buckets_of(place) if is_running else None
    if json_wanted:
        fleet = fleet_at(state)
        more = {
            "probes": problems,
            "pauses": list(fleet.get("pauses", [])),
            "buckets": buckets,
            "tables_failing": failing(fleet),
        }
        click.echo(json.dumps({**json.loads(as_json(place)), **more}, indent=1))
    elif is_running:
        show(place.read(), Console(), problems)
        for line in lines(buckets) if buckets else ():
            click.echo(line)
        fleet = fleet_at(state)
        for one in fleet.get("pauses", []):
            click.secho(pause_text(one, int(time.time() * 1000)), fg="red", bold=True)
        if count := failing(fleet):
            click.secho(failing_text(count), fg="red", bold=True)
    else:
        click.echo(f"no stack runs in {place.root}")
    sys.exit(0 if is_running else 1)


def fleet_at(state: Path) -> dict[str, Any]:
    """Ask the console of the fleet: its totals, and what people have paused; {} if none answers."""
    try:
        found: dict[str, Any] = console_at(state, None).get("/api/fleet")
    except click.ClickException:
        return {}
    return found


def failing(fleet: dict[str, Any]) -> int:
    """Count the tables at which the planner fails."""
    return int(fleet.get("totals", {}).get("tables_failing", 0))


def failing_text(count: int) -> str:
    """Say so in a line, with the command that says more."""
    tables = f"{count} table" if count == 1 else f"{count} tables"
    return f"PLANNER ERROR at {tables}: `firnline tables --status stuck` lists them."


def pause_text(pause: dict[str, Any], now_ms: int) -> str:
    """One pause in a line, with the command that ends it and no other."""
    what = pause["table"] or "MAINTENANCE OF THE WHOLE FLEET"
    why = f": {pause['reason']}" if pause["reason"] else ""
    since = age(pause["since_ms"], now_ms)
    ends = f"firnline resume {pause['table'] or '--fleet'}"
    return f"PAUSED: {what}, since {since}, by {pause['by']}{why}. `{ends}` ends it."
