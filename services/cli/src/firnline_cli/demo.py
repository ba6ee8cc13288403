"""`firnline demo`: the main job on the embedded stack, from writers to verified rows."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from firnline_domain.errors import Misconfigured

from firnline_cli._extras import with_everything


@click.command("demo")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=Path(".firnline/demo"),
    show_default=True,
    help="Directory for all state and logs.",
)
@click.option("--seconds", type=float, default=120.0, show_default=True, help="Writers' time.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the writers' dice.")
@click.option(
    "--kill", "kills", default="", help="Parts to kill -9 on the way, comma-separated: worker,..."
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A firnline.toml: the tables are made in its catalog, in a namespace of their own.",
)
@click.option("--json", "as_json", is_flag=True, help="Figures as JSON on stdout.")
def command(
    state: Path, seconds: float, seed: int, kills: str, config: Path | None, as_json: bool
) -> None:
    """Three real writers, a table of before and after, and every row verified."""
    with_everything()
    # Spark and PyArrow take a second to import; only this command pays for them.
    from firnline_demo.run import run

    parts = [part for part in kills.split(",") if part]
    try:
        sys.exit(run(state, seconds, seed, parts, as_json, config))
    except Misconfigured as error:
        raise click.ClickException(str(error)) from None
