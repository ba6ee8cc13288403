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

from firnline_cli._console import console_at
from firnline_cli._figures import age
from firnline_cli._stack import STATE_OPTION, as_json, show


@click.command("status")
@STATE_OPTION
@click.option("--json", "json_wanted", is_flag=True, help="The whole record, for machines.")
def command(state: Path, json_wanted: bool) -> None:
    """Say what runs, and where, and what is paused. Exit code: 0 running, 1 not."""
    place = StateDir.at(state)
    is_running = place.is_running()
    if json_wanted:
        click.echo(json.dumps({**json.loads(as_json(place)), "pauses": pauses(state)}, indent=1))
    elif is_running:
        show(place.read(), Console())
        for one in pauses(state):
            click.secho(told(one, int(time.time() * 1000)), fg="red", bold=True)
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


def told(pause: dict[str, Any], now_ms: int) -> str:
    """One pause in a line that nobody overlooks."""
    what = pause["table"] or "MAINTENANCE OF THE WHOLE FLEET"
    why = f": {pause['reason']}" if pause["reason"] else ""
    since = age(pause["since_ms"], now_ms)
    return f"PAUSED: {what}, since {since}, by {pause['by']}{why}. `firnline resume` ends it."
