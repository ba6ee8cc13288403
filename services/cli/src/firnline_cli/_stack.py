"""What the commands about the embedded stack share: the --state option and the table of parts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click
from firnline_local.state import StackRecord, StateDir
from rich.console import Console
from rich.table import Table

STATE_OPTION = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".firnline"),
    show_default=True,
    help="Directory of the embedded stack: ports, logs, data.",
)
COLOURS = {"ready": "green", "starting": "yellow", "crashed": "red", "held": "yellow"}


def as_json(state: StateDir) -> str:
    """The stack record plus whether it is true: a killed supervisor leaves a stale one."""
    content = {"running": state.is_running(), "state_dir": str(state.root), **asdict(state.read())}
    return json.dumps(content, indent=1)


def show(record: StackRecord, console: Console, problems: Mapping[str, str] | None = None) -> None:
    """One row per part: a table on a terminal, tab-separated lines elsewhere. `problems`: of parts
    that are ready and do not answer."""
    found = problems or {}
    rows = [
        (
            name,
            found.get(name) or part.life,
            part.address,
            str(part.pid or ""),
            "" if part.ready_s is None else f"{part.ready_s:.1f} s",
            str(part.restarts),
        )
        for name, part in record.parts.items()
    ]
    if not console.is_terminal:
        for row in rows:
            sys.stdout.write("\t".join(row) + "\n")
        return
    table = Table("part", "state", "address", "pid", "ready after", "restarts", box=None)
    for row in rows:
        table.add_row(*row, style="red" if found.get(row[0]) else COLOURS.get(row[1], "dim"))
    console.print(table)
