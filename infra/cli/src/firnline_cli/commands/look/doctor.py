"""firnline doctor"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firnline_cli.shared.console_client import STATES, json_option

if TYPE_CHECKING:
    from firnline_cli.checks.findings import Check, CheckFinding
    from firnline_cli.checks.settings import Given

SERVICES = ("gateway", "listener", "enricher", "planner", "worker", "committer", "console")
HANG = 33  # characters before what was tried
COLOURS = {"ok": "green", "remark": "yellow", "failed": "red", "skipped": None}


@click.command("doctor")
@click.option(
    "--service",
    "services",
    multiple=True,
    type=click.Choice(SERVICES),
    help="Service whose needs to check; repeatable.  [default: all]",
)
@click.option(
    "--table", help="Table (namespace.name) whose storage is checked.  [default: the first]"
)
@click.option("--config", envvar="FIRNLINE_CONFIG", show_envvar=True, help="Path of firnline.toml.")
@click.option(
    "--write", "writes", is_flag=True, help="Also create a temporary table and commit to it."
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the embedded stack.  [default: .firnline, else .firnline/demo]",
)
@json_option
def command(
    services: tuple[str, ...],
    table: str | None,
    config: str | None,
    writes: bool,
    state: Path | None,
    json_wanted: bool,
) -> None:
    """Check connections, permissions and settings of the services, and report how to fix failures.

    Run it on the services' hosts with their variables. Exit code 1 if a check failed.
    """
    from firnline_domain.errors import Misconfigured

    from firnline_cli.checks.findings import CheckStatus, run_checks
    from firnline_cli.checks.settings import read_given
    from firnline_cli.shared.formats import print_wrapped

    began = time.monotonic()
    try:
        asked = read_given(given_environment(state, config), services, writes, table)
    except Misconfigured as error:
        raise click.ClickException(str(error)) from None
    found, report = [], DoctorReport()
    for one in run_checks(list(requested_checks(asked))):
        found.append(one)
        if not json_wanted:
            report.print_finding(one)
    is_fine = all(one.status is not CheckStatus.FAILED for one in found)
    if json_wanted:
        click.echo(
            json.dumps({"ok": is_fine, "findings": [asdict(one) for one in found]}, indent=1)
        )
    else:
        print_wrapped(summary_line(found, time.monotonic() - began))
    sys.exit(0 if is_fine else 1)


def requested_checks(asked: Given) -> Iterator[Check]:
    """Yield all checks that concern what is requested, in the order in which they are shown."""
    from firnline_cli.checks.clock import clock_checks
    from firnline_cli.checks.host import host_checks
    from firnline_cli.checks.kafka import KafkaChecks, kafka_checks
    from firnline_cli.checks.lake import lake_checks
    from firnline_cli.checks.redis import redis_checks
    from firnline_cli.checks.signatures import Signatures
    from firnline_cli.checks.tables import table_checks

    kafka = KafkaChecks(asked)
    signatures = Signatures(asked, kafka)
    yield from host_checks(asked)
    yield from kafka_checks(asked, kafka)
    yield from signatures.checks()
    yield from redis_checks(asked)
    yield from clock_checks(asked, signatures)
    yield from table_checks(asked)
    yield from lake_checks(asked, kafka)


def given_environment(state: Path | None, config: str | None) -> Mapping[str, str]:
    """Return this environment; if it names no Kafka, that of the embedded stack on this host."""
    from firnline_local.stack.parts import addresses_of, service_environment
    from firnline_local.stack.state import StateDir

    here = {**os.environ, **({"FIRNLINE_CONFIG": config} if config else {})}
    if state is None and (config or here.get("FIRNLINE_KAFKA")):
        return here
    for place in (StateDir.from_path(path) for path in ([state] if state else STATES)):
        if place.is_running():
            where = addresses_of(place.read_record())
            console = {"FIRNLINE_CONSOLE_URI": where.console}
            return {**here, **service_environment("worker", place, where), **console}
    return here


class DoctorReport:
    """A report as text: a line for each finding, and one with what to do."""

    def __init__(self) -> None:
        self._last = ("", "")  # check and remedy

    def print_finding(self, one: CheckFinding) -> None:
        """Print a finding. A remedy that was just printed is not repeated."""
        from firnline_cli.shared.formats import print_wrapped

        text = f"{one.status:8} {one.check:23} {one.tried}: {one.found}"
        is_bad = one.status == "failed"
        print_wrapped(
            text, hang=HANG, head=len(f"{one.status:8}"), fg=COLOURS[one.status], bold=is_bad
        )
        if one.remedy and self._last != (one.check, one.remedy):
            print_wrapped(f"{'':32} do: {one.remedy}", hang=HANG)
        self._last = (one.check, one.remedy)


def summary_line(found: list[CheckFinding], took_s: float) -> str:
    """Return the number of findings by status."""
    counts = {status: sum(one.status == status for one in found) for status in COLOURS}
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return f"{told} ({took_s:.1f} s)"
