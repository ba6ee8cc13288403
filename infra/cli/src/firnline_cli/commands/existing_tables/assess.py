"""firnline assess"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import click

from firnline_cli.shared.fleet import Where, fleet_options, name_levels

CONNECTIONS = 16
INTERRUPTED = 130  # as a shell says of Ctrl-C
SHOWN = 20  # tables on a terminal


@click.command("assess")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Only tables of this namespace and of nested ones; repeatable.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 256),
    default=CONNECTIONS,
    show_default=True,
    help="Maximum number of parallel connections to catalog and storage.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=SHOWN,
    show_default=True,
    help="Maximum number of tables to print.",
)
@click.option(
    "--fleet",
    "fleets",
    multiple=True,
    metavar="NAME=VALUE",
    help="Default of a table property, as in FIRNLINE_DEFAULTS; repeatable.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the report to this HTML file.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print all tables as one JSON object.")
@fleet_options
def command(
    namespaces: tuple[str, ...],
    connections: int,
    limit: int,
    fleets: tuple[str, ...],
    html: Path | None,
    json_wanted: bool,
    where: Where,
) -> None:
    """Report which tables need maintenance, worst first, what Firnline would do, and what it would
    cost and save. Needs no deployment and writes nothing.

    It reads each table's metadata and the manifests of its current snapshot, and applies the
    planner's policy. Ctrl-C shows the result so far.

    Exit code: 0 done; 1 some tables or namespaces could not be read; 130 interrupted.
    """
    from firnline_domain.settings.thresholds import resolve_thresholds
    from firnline_iceberg.table.catalog_client import Tables

    from firnline_cli.assessment.lake import AssessedLake
    from firnline_cli.assessment.summary import as_plain, summarize
    from firnline_cli.assessment.text import ProgressBar, print_assessment
    from firnline_cli.assessment.verdict import with_shared_uuids
    from firnline_cli.commands.existing_tables.plan import parse_properties

    began_s = time.time()
    now_ms = int(began_s * 1000)
    fleet, defaults = where.fleet(), resolve_thresholds(parse_properties(fleets))
    tables = Tables(fleet.only_catalog)
    lake = AssessedLake(tables, defaults, connections, now_ms, fleet.policies)
    below = [name_levels(one) for one in namespaces] or [()]
    found, names, interrupted = [], list[tuple[str, ...]](), False
    with ProgressBar() as progress:
        try:
            names = lake.list_tables(below, progress.show_listed)
            progress.begin(len(names))
            for verdict in lake.read_verdicts(names):
                found.append(verdict)
                progress.show_read(len(found))
        except KeyboardInterrupt:
            interrupted = True
    found = with_shared_uuids(found)
    seconds = time.time() - began_s
    summary = summarize(found, len(names), lake.unlisted, seconds, interrupted)
    if html is not None:
        from firnline_cli.assessment.html import render_page

        html.write_text(render_page(summary, found, now_ms), encoding="utf-8")
    if json_wanted:
        click.echo(json.dumps(as_plain(summary, found)))
    else:
        print_assessment(summary, found, limit, html, now_ms)
    lake.close(wait_for=not interrupted)
    if interrupted:  # nobody waits for connections that do not answer
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    sys.exit(int(bool(summary.unread or summary.unlisted)))
