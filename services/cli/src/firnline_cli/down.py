"""firnline down"""

from __future__ import annotations

from pathlib import Path

import click
from firnline_local import stack

from firnline_cli._stack import STATE_OPTION


@click.command("down")
@STATE_OPTION
def command(state: Path) -> None:
    """Stop the embedded stack and whatever it left behind."""
    click.echo("stopped" if stack.down(state) else "nothing was running")
