"""`firnline demo`: the main job, from writers to verified rows."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from firnline_domain.errors import Misconfigured

from firnline_cli.shared.extras import with_everything


@click.command("demo")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=Path(".firnline/demo"),
    show_default=True,
    help="Directory of all data and logs.",
)
@click.option(
    "--seconds",
    type=float,
    default=120.0,
    show_default=True,
    help="Time that the writers run, in seconds.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Random seed of the writers.")
@click.option(
    "--kill",
    "kills",
    default="",
    help="Parts to kill (SIGKILL) during the run, comma-separated, for example worker.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Path of a firnline.toml in whose catalog the demo's namespace is created.",
)
@click.option(
    "--running",
    "on_running_fleet",
    is_flag=True,
    help="Use the running deployment of FIRNLINE_KAFKA and FIRNLINE_CONFIG (or "
    "FIRNLINE_CATALOG_URI) instead of an embedded stack.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(
    state: Path,
    seconds: float,
    seed: int,
    kills: str,
    config: Path | None,
    on_running_fleet: bool,
    as_json: bool,
) -> None:
    """Run three writers, show the tables before and after maintenance, and verify every row."""
    if on_running_fleet and (kills or config):
        raise click.UsageError("--kill and --config need the embedded stack: take --running out")
    if not on_running_fleet:
        with_everything()
    # Spark and PyArrow take a second to import; only this command pays for them.
    from firnline_demo.run import run_demo

    parts = [part for part in kills.split(",") if part]
    try:
        sys.exit(run_demo(state, seconds, seed, parts, as_json, config, on_running_fleet))
    except Misconfigured as error:
        raise click.ClickException(str(error)) from None
