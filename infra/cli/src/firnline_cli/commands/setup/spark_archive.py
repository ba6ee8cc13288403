"""firnline spark-archive"""

from __future__ import annotations

import json
from pathlib import Path

import click

from firnline_cli.shared.console_client import json_option
from firnline_cli.shared.formats import print_wrapped


@click.command("spark-archive")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def command(path: Path, json_wanted: bool) -> None:
    """Pack the Python environment of Spark executors into PATH, a .tar.gz.

    It contains this command's Python, the packages that a rewrite needs, and Firnline. Executors
    need Spark, Java and a glibc that is not older than this host's. A worker packs its own
    archive unless `spark.firnline.python-archive` in [spark] names one. Name one if the worker's
    state directory is lost at each start.
    """
    from firnline_domain.errors import Misconfigured
    from firnline_standalone.archive import pack

    if not path.name.endswith(".tar.gz"):
        raise click.UsageError("Spark unpacks it by its name: end it with .tar.gz")
    try:
        files, size = pack(path)
    except (Misconfigured, OSError) as error:
        raise click.ClickException(str(error)) from None
    if json_wanted:
        click.echo(json.dumps({"path": str(path), "files": files, "bytes": size}))
        return
    print_wrapped(f"{path}: {files:,} files, {size / 1e6:.0f} MB")
