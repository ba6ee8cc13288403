"""Shared parts of the commands for the embedded stack: the --state option and the table of
parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click
from firnline_local.stack.state import StackRecord, StateDir
from rich.console import Console

from firnline_cli.shared.formats import Cell, Column, show_list, styled_text

STATE_OPTION = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".firnline"),
    show_default=True,
    help="Directory of the embedded stack: ports, logs, data.",
)
COLUMNS = (
    Column("part"),
    Column("state"),
    Column("address"),
    Column("pid", True, 1),
    Column("ready after", True, 2),
    Column("restarts", True, 3),
)
COLOURS = {"ready": "green", "starting": "yellow", "crashed": "red", "held": "yellow"}


def as_json(state: StateDir) -> str:
    """Return the stack record and whether it is true: a killed supervisor leaves a stale one."""
    content = {
        "running": state.is_running(),
        "state_dir": str(state.root),
        **asdict(state.read_record()),
    }
    return json.dumps(content, indent=1)


def print_parts(
    record: StackRecord, console: Console, problems: Mapping[str, str] | None = None
) -> None:
    """Print one row per part: a table on a terminal, tab-separated lines elsewhere. `problems`: of
    parts that are ready and do not answer."""
    rows = []
    for name, part in record.parts.items():
        problem = (problems or {}).get(name)
        style = "red" if problem else COLOURS.get(part.life, "dim")
        ready = "" if part.ready_s is None else f"{part.ready_s:.1f} s"
        texts = (problem or part.life, part.address, str(part.pid or ""), ready, str(part.restarts))
        rows.append([Cell(text, styled_text(text, style)) for text in (name, *texts)])
    show_list(COLUMNS, rows, console)
