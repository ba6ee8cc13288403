"""firnline sweep-outputs"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click
from firnline_adapters.clock import now_ms
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_iceberg.table.catalog_client import Tables, Unlisted

from firnline_cli.running.sweep_age import fleets_age_s
from firnline_cli.shared.durations import Duration
from firnline_cli.shared.fleet import FleetClient, Where, fleet_options, resolve_table
from firnline_cli.shared.formats import plain, print_wrapped


@click.command("sweep-outputs")
@click.argument("tables", nargs=-1, metavar="[TABLE ...]")
@click.option(
    "--older-than",
    type=Duration(),
    help="Minimum age of a task's list.  [default: FIRNLINE_SWEEP_AGE_SECONDS, or 24h]",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option(
    "--idle",
    is_flag=True,
    help="Accept lists of any age. Refused while a worker or committer runs.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object per table.")
@fleet_options
def command(
    tables: tuple[str, ...],
    older_than: float | None,
    dry_run: bool,
    idle: bool,
    json_wanted: bool,
    where: Where,
) -> None:
    """Remove files of failed tasks: files on a task's list that no snapshot of any branch contains.

    Takes all tables, or those named (namespace.name). Exit code: 0 done, 1 a table,
    namespace or list could not be read, or --idle and a worker or committer runs.
    """
    age_s = older_than if older_than is not None else fleets_age_s()
    if age_s < fleets_age_s() and not idle and not dry_run:
        raise click.UsageError(
            f"a result younger than {fleets_age_s():g} s may yet be committed. Stop committers and "
            "workers and say --idle, or give all of them a lower FIRNLINE_SWEEP_AGE_SECONDS first"
        )
    fleet = where.fleet()
    if idle and not dry_run:
        refuse_if_running(fleet, where.redis_url(fleet))
    whole = True
    for answer in sweep_tables(fleet, tables, age_s, dry_run):
        whole &= not answer["troubles"]
        click.echo(json.dumps(answer)) if json_wanted else print_wrapped(
            result_lines(answer, dry_run), hang=4
        )
    sys.exit(0 if whole else 1)


def refuse_if_running(fleet: FleetClient, redis: str | None) -> None:
    """Raise ClickException if a worker or a committer runs, or if that cannot be seen."""
    from firnline_cli.shared.services import Services

    if fleet.kafka is None:
        raise click.ClickException(
            "--idle: no broker is known, so that nothing shows whether a worker or a committer "
            "runs. Name it with --kafka, or leave out --idle and wait until lists are old enough"
        )
    if redis is None:
        print_wrapped(
            "no Redis is named (FIRNLINE_REDIS): leases of tasks are not looked at", err=True
        )
    if found := Services(fleet.kafka, redis).running_members():
        raise click.ClickException(
            f"--idle, but something still runs: {'; '.join(found)}. Its files would be removed "
            "under it. Stop workers and committers first; a killed one stays a member for 6 s"
        )


def sweep_tables(
    fleet: FleetClient, tables: tuple[str, ...], age_s: float, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Sweep each table, and yield the result for it."""
    from firnline_iceberg.catalogs import CatalogTables
    from firnline_iceberg.removal.sweep import OutputSweeper

    known = CatalogTables(fleet.catalogs)
    sweeper = OutputSweeper(known, now_ms, int(age_s * 1000), keys=fleet.signer().keys)
    unlisted: Unlisted = {}
    for table in tables or names_in(fleet, unlisted):
        answer = _empty_answer(table)
        try:
            swept = sweeper.sweep(resolve_table(fleet, table), dry_run)
        except (RetryLater, TaskRefused, click.ClickException) as error:
            yield {**answer, "troubles": [str(error)]}
            continue
        if swept.lists and not dry_run and fleet.kafka:
            fleet.send("maintenance-events", swept.to_event("cli", now_ms()))
        yield {
            **answer,
            "removed": swept.removed,
            "lists": swept.lists,
            "uploads": swept.uploads,
            "reachable": swept.reachable,
            "left": [asdict(one) for one in swept.left],
            "troubles": [
                *(f"{one.path}: {one.detail}" for one in swept.left if one.detail),
                *filter(None, [swept.uploads_unknown]),
            ],
        }

    for namespace, why in unlisted.items():
        yield {**_empty_answer(f"namespace {namespace}"), "troubles": [why]}


def _empty_answer(name: str) -> dict[str, Any]:
    return {"table": name, "removed": [], "lists": [], "left": [], "uploads": [], "reachable": 0}


def names_in(fleet: FleetClient, unlisted: Unlisted) -> Iterator[str]:
    """Yield the names of all tables, with their catalogs if there are several. `unlisted` gets the
    namespaces that cannot be listed."""
    for name, reached in fleet.catalogs.items():
        of = f"{name}:" if len(fleet.catalogs) > 1 else ""
        failed: Unlisted = {}
        try:
            for levels in Tables(reached).table_names((), failed):
                yield of + ".".join(levels)
        except RetryLater as error:
            failed["all"] = str(error)
        unlisted.update({of + namespace: why for namespace, why in failed.items()})


def result_lines(answer: dict[str, Any], dry_run: bool) -> str:
    """Return a line per table, and one per file and list."""
    verb = "would remove" if dry_run else "removed"
    files, lists = len(answer["removed"]), len(answer["lists"])
    kept, left = answer["reachable"], len(answer["left"])
    did = f"{verb} {files} files and {lists} lists"
    head = f"{answer['table']}: {did}; {kept} files are live, {left} lists were left alone"
    more = (
        *(f"  {path}" for path in answer["removed"]),
        *(f"  upload: {path}" for path in answer["uploads"]),
        *(f"  left: {one['reason']} {one['path']}" for one in answer["left"]),
        *(f"  trouble: {text}" for text in answer["troubles"]),
    )
    return "\n".join(map(plain, (head, *more)))
