"""firnline settings"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from firnline_adapters.config.redaction import MASK, redact
from firnline_adapters.config.settings import Setting, all_settings
from firnline_adapters.policy_file import read_policies
from firnline_domain.errors import Misconfigured
from firnline_local.stack.state import StateDir
from rich.console import Console

from firnline_cli.shared.console_client import STATES, console_at, console_options, json_option
from firnline_cli.shared.formats import Cell, Column, show_list, styled_text

VARIABLES = (Column("variable"), Column("value"), Column("from"), Column("read by", drop=1))
PROPERTIES = (Column("property"), Column("value"), Column("from"))
NAMES = ("name", "value", "source", "services")
Environments = Mapping[str, Mapping[str, str]]


@click.command("settings")
@click.argument("table", required=False)
@click.option(
    "--check",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Check the policies of a firnline.toml, offline, and show nothing else.",
)
@json_option
@console_options
def command(
    table: str | None, check: str | None, state: Path | None, uri: str | None, json_wanted: bool
) -> None:
    """Print the environment variables of all services with their values and sources, or with TABLE
    (namespace.name) the table's effective properties.

    For a running embedded stack these are the values of its processes, else those of this
    environment. Exit code of --check: 0 no problem, 1 problems, each on a line of its own.
    """
    if check:
        sys.exit(print_check(check))
    if table:
        from firnline_cli.commands.look.explain import about_table

        found = about_table(console_at(state, uri), table, "/explain")["settings"]
    else:
        found = list(variable_rows(read_environments(state)))
    if json_wanted:
        click.echo(json.dumps(found, indent=1))
        return
    rows = [
        [Cell(one[name], styled_text(one[name], text_style(one))) for name in NAMES if name in one]
        for one in found
    ]
    show_list(PROPERTIES if table else VARIABLES, rows, Console())


def print_check(path: str) -> int:
    """Print what is wrong with the policies of a file. Return the exit code."""
    try:
        found = read_policies(path)
    except Misconfigured as error:
        click.echo(str(error))
        return 1
    for warning in found.warnings:
        click.echo(f"warning: {warning}")
    for problem in found.problems:
        click.echo(problem)
    if not found.problems:
        counted = found.policies
        counts = f"policies: {len(counted.policies)}, rules: {len(counted.rules)}"
        click.echo(f"{path}: no problem ({counts})")
    return int(bool(found.problems))


def text_style(setting: Mapping[str, str]) -> str:
    """Return the style in which a setting is printed: `dim` for a default, '' for others."""
    return "dim" if setting["source"] == "default" else ""


def read_environments(state: Path | None) -> dict[str, dict[str, str]]:
    """Return service -> its environment, of the stack on this host; {} if none runs."""
    for place in (StateDir.from_path(path) for path in ([state] if state else STATES)):
        if place.is_running():
            parts = place.read_record().parts.items()
            return {name: environment_of(part.pid) for name, part in parts if part.pid}
    return {}


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; {} if the system does not show it."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    texts = (pair.decode(errors="replace").partition("=") for pair in pairs if pair)
    return {name: value for name, _, value in texts}


def variable_rows(of_services: Environments) -> Iterator[dict[str, Any]]:
    """Yield each variable once for each value that it has."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}  # service -> what it is about
    for one in all_settings():
        for service in one.services:
            value, source = effective_value(one, service, of_services)
            shown = MASK if one.secret and value else redact(value)
            found.setdefault((one.variable, shown, source), {})[service] = one.about
    for (variable, value, source), services in found.items():
        row = {"name": variable, "value": value, "source": source}
        yield {**row, "services": ", ".join(services), "about": next(iter(services.values()))}


def effective_value(setting: Setting, service: str, of_services: Environments) -> tuple[str, str]:
    """Return (value, source) of one variable in one service."""
    given = of_services.get(service, os.environ).get(setting.variable)
    if given:
        is_ours = os.environ.get(setting.variable) == given
        return given, "environment" if is_ours else "embedded stack"
    if setting.is_required:
        return "", "not set, required"
    return "" if setting.default is None else str(setting.default), "default"
