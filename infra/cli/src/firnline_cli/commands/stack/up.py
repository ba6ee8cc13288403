"""firnline up"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import psutil
from firnline_domain.errors import Misconfigured
from firnline_local.processes.process import PartNotReady
from firnline_local.servers import artifacts
from firnline_local.servers.java import JavaMissing
from firnline_local.servers.repository import RepositoryUnknown
from firnline_local.stack import stack
from firnline_local.stack.parts import CAPTURE, CAPTURES, UnknownPart, choose_parts, parts_with
from firnline_local.stack.state import AlreadyRunning, Event, StateDir
from firnline_local.stack.supervisor import StartFailed, Supervisor
from firnline_local.topics.topics import WrongPartitions
from firnline_local.workers.keeper import ONE_WORKER, read_limits
from rich.console import Console

from firnline_cli.shared.console_client import json_option
from firnline_cli.shared.extras import with_everything
from firnline_cli.shared.stack import STATE_OPTION, as_json, print_parts

MARKS = {"ready": "[green]✓[/]", "crashed": "[red]✗[/]"}
FAILURES = (
    artifacts.BadArtifact,
    artifacts.RepositoryAway,
    JavaMissing,
    Misconfigured,
    PartNotReady,
    RepositoryUnknown,
    StartFailed,
    WrongPartitions,
)
LOUD = {"ready", "crashed", "held", "stopping", "stopped", "left-overs-killed", "scaled", "sized"}


@click.command("up")
@STATE_OPTION
@click.option("--detach", is_flag=True, help="Return when all parts are ready.")
@click.option("--only", help="Parts to start, comma-separated, instead of all.")
@click.option(
    "--capture",
    type=click.Choice(tuple(CAPTURES)),
    help="How commits are noticed. With `gateway` writers use the gateway as their catalog. With "
    "`sweep` they use the catalog itself, and the listener asks it for changes. With "
    "`postgres` the catalog has a PostgreSQL database of its own, which the listener follows.  "
    f"[default: {CAPTURE}]",
)
@click.option(
    "--workers",
    default=ONE_WORKER,
    show_default=True,
    metavar="NUMBER",
    help="Number of workers, or limits such as 0..4. Between the limits the number follows the "
    "open tasks. A worker that is not needed for 60 s completes its tasks and ends. 0..4:30:120 "
    "means 30 s, and workers that complete the open tasks within 120 s instead of 60 s.",
)
@json_option
def command(
    state: Path,
    detach: bool,
    only: str | None,
    capture: str | None,
    workers: str,
    json_wanted: bool,
) -> None:
    """Start the embedded stack: Kafka, Redis, a catalog and all services.

    It stays in the foreground, and Ctrl-C stops everything. Policies for its tables are in
    firnline.toml of the state directory. Exit code: 0 stopped on request, or
    already running; 1 a part did not start; 2 wrong arguments, or the running stack lacks a part
    of --only.
    """
    with_everything()
    if only and capture:
        raise click.UsageError("--capture chooses the parts: leave out --only")
    wanted = tuple(only.split(",")) if only else parts_with(capture) if capture else None
    try:
        limits = read_limits(workers)
    except ValueError as error:
        raise click.UsageError(f"--workers {error}") from None
    place = StateDir.from_path(state)
    console = Console(stderr=json_wanted)
    try:
        if limits.minimum < limits.maximum and not {"console", "worker"} <= {*choose_parts(wanted)}:
            raise click.UsageError("--workers: add worker and console, which computes their number")
        with console.status("checking the pinned jars") as line:
            artifacts.fetch_all(lambda file, done, of: line.update(f"fetched {done}/{of} {file}"))
        if detach:
            stack.start_detached(state, wanted, workers)
            _print_summary(place, console, json_wanted)
        else:
            printer = _Printer(place, console, json_wanted)
            Supervisor(place, wanted, printer, _own_age_s, workers=limits).run()
    except AlreadyRunning:
        sys.exit(_show_running(place, wanted, console))
    except UnknownPart as error:
        raise click.UsageError(str(error)) from None
    except FAILURES as error:
        raise click.ClickException(str(error)) from None


def _own_age_s() -> float:
    """Return the seconds since the command was entered, interpreter and imports included."""
    return time.time() - psutil.Process().create_time()


def _show_running(place: StateDir, wanted: tuple[str, ...] | None, console: Console) -> int:
    record = place.read_record()
    console.print(f"already running in {place.root} (pid {record.pid})", highlight=False)
    print_parts(record, console)
    missing = set(wanted or ()) - set(record.parts)
    if missing:
        console.print(f"not part of it: {', '.join(sorted(missing))}; `firnline down` first")
    return 2 if missing else 0


class _Printer:
    """A printer of the stack's events, and of its table once all parts are ready."""

    def __init__(self, place: StateDir, console: Console, json_wanted: bool) -> None:
        self._place = place
        self._console = console
        self._json_wanted = json_wanted

    def __call__(self, event: Event) -> None:
        if event.what in LOUD or not self._console.is_terminal:
            mark = MARKS.get(event.what, " ") if self._console.is_terminal else ""
            self._console.print(
                f"{mark} {event.as_line()}".strip(),
                highlight=False,
                soft_wrap=not self._console.is_terminal,
            )
        if not event.part and event.what == "ready":
            _print_summary(self._place, self._console, self._json_wanted)
            self._console.print("Ctrl-C stops everything.")


def _print_summary(place: StateDir, console: Console, json_wanted: bool) -> None:
    record = place.read_record()
    if json_wanted:
        click.echo(as_json(place))
        return
    print_parts(record, console)
    console.print(f"ready in {record.ready_s:g} s · state and logs in {place.root}")
