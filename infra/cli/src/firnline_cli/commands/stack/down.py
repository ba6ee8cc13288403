"""firnline down"""

from __future__ import annotations

import json
from pathlib import Path

import click
from firnline_local.stack import stack

from firnline_cli.shared.console_client import json_option
from firnline_cli.shared.stack import STATE_OPTION


@click.command("down")
@STATE_OPTION
@json_option
def command(state: Path, json_wanted: bool) -> None:
    """Stop the embedded stack and all of its processes."""
    stopped = stack.stop_stack(state)
    text = "stopped" if stopped else "nothing was running"
    click.echo(json.dumps({"stopped": stopped}) if json_wanted else text)
