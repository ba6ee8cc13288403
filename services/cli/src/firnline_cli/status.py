"""firnline status"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from firnline_local.state import StateDir
from rich.console import Console

from firnline_cli._stack import STATE_OPTION, as_json, show


@click.command("status")
@STATE_OPTION
@click.option("--json", "json_wanted", is_flag=True, help="The whole record, for machines.")
def command(state: Path, json_wanted: bool) -> None:
    """Say what runs, and where. Exit code: 0 running, 1 not."""
    place = StateDir.at(state)
    is_running = place.is_running()
    if json_wanted:
        click.echo(as_json(place))
    elif is_running:
        show(place.read(), Console())
    else:
        click.echo(f"no stack runs in {place.root}")
    sys.exit(0 if is_running else 1)
