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
        more = {"probes": problems, "pauses": pauses(state), "buckets": buckets}
        click.echo(json.dumps({**json.loads(as_json(place)), **more}, indent=1))
    elif is_running:
        show(place.read(), Console(), problems)
        for line in lines(buckets) if buckets else ():
            click.echo(line)
        for one in pauses(state):
            click.secho(pause_text(one, int(time.time() * 1000)), fg="red", bold=True)
    else:
        click.echo(f"no stack runs in {place.root}")
    sys.exit(0 if is_running else 1)


def pauses(state: Path) -> list[dict[str, Any]]:
    """What people have paused, the fleet first; nothing where no console answers."""
    try:
        found = console_at(state, None).get("/api/fleet").get("pauses", [])
    except click.ClickException:
        return []
    return list(found)


def pause_text(pause: dict[str, Any], now_ms: int) -> str:
    """One pause in a line, with the command that ends it and no other."""
    what = pause["table"] or "MAINTENANCE OF THE WHOLE FLEET"
    why = f": {pause['reason']}" if pause["reason"] else ""
    since = age(pause["since_ms"], now_ms)
    ends = f"firnline resume {pause['table'] or '--fleet'}"
    return f"PAUSED: {what}, since {since}, by {pause['by']}{why}. `{ends}` ends it."
