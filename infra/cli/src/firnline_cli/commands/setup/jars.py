"""firnline jars"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import click

from firnline_cli.shared.console_client import json_option

BUNDLES = {"s3": "iceberg-aws-bundle", "gcs": "iceberg-gcp-bundle", "adls": "iceberg-azure-bundle"}


@click.command("jars")
@click.option(
    "--s3", is_flag=True, help="Add the AWS bundle, for S3, compatible storage and SigV4."
)
@click.option("--gcs", is_flag=True, help="Add the GCP bundle.")
@click.option("--adls", is_flag=True, help="Add the Azure bundle.")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy the jars to this folder.  [default: leave them in the cache]",
)
@json_option
def command(s3: bool, gcs: bool, adls: bool, folder: Path | None, json_wanted: bool) -> None:
    """Download Iceberg's jars, check their SHA-256, and print their paths for FIRNLINE_ICEBERG_JAR:
    `export FIRNLINE_ICEBERG_JAR=$(firnline jars --s3)`.

    The source is FIRNLINE_MAVEN_ROOT, else the default repository of PySpark's Ivy.
    """
    from firnline_local.servers import artifacts
    from firnline_local.servers.repository import RepositoryUnknown, repository_root

    wanted = [name for name, is_wanted in (("s3", s3), ("gcs", gcs), ("adls", adls)) if is_wanted]
    names = [BUNDLES[one] for one in wanted]
    pins = [
        *artifacts.read_pins("iceberg"),
        *(one for one in artifacts.read_pins("bundles") if one.path.split("/")[-3] in names),
    ]
    try:
        found = artifacts.fetch_pins(pins, artifacts.cache_root(), repository_root, _print_progress)
        placed = [_place_jar(one, folder) for one in found] if folder else list(found)
    except (artifacts.RepositoryAway, artifacts.BadArtifact, RepositoryUnknown, OSError) as error:
        raise click.ClickException(str(error)) from None
    if json_wanted:
        rows = [
            {"path": str(path), "version": pin.path.split("/")[-2], "sha256": pin.sha256}
            for pin, path in zip(pins, placed, strict=True)
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    click.echo(os.pathsep.join(map(str, placed)))


def _place_jar(jar: Path, folder: Path) -> Path:
    """Copy the jar, and rename it whole, so that no process starts with half a jar."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder.absolute() / jar.name
    part = target.with_suffix(".part")
    shutil.copyfile(jar, part)
    part.rename(target)
    return target


def _print_progress(name: str, done: int, of: int) -> None:
    click.echo(f"fetched {name} ({done} of {of})", err=True)
