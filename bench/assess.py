"""How long a lake's assessment takes: `make bench-assess TABLES=2000`.

The lake is the reference catalog's, of metadata alone (`tests.kit.large_lake`). Prints, as JSON,
the seconds and the CPU seconds of `firnline assess`, the bytes and files of all that it had to
read.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import artifacts, catalog
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.large_lake import lake_of


def main() -> None:
    """Make a lake, then assess it once."""
    words = argparse.ArgumentParser()
    words.add_argument("--tables", type=int, default=2_000)
    words.add_argument("--connections", type=int, default=16)
    words.add_argument("--html", type=Path)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        served = catalog.command(Path(folder, "catalog"), port)
        with run_process(served, Path(folder, "catalog.log")):
            began_s = time.monotonic()
            made(catalog.uri(port), given.tables, Path(folder))
            made_s = time.monotonic() - began_s
            print(json.dumps({"made_s": round(made_s)} | assessed(catalog.uri(port), given)))


def made(uri: str, tables: int, folder: Path) -> None:
    """The lake."""
    with IcebergJvm(artifacts.iceberg_jar()) as iceberg:
        java, client = rest_catalog(iceberg.jvm, uri), RestCatalog("lake", uri=uri)
        for _ in lake_of(iceberg.jvm, java, client, "lake", tables, folder / "copies"):
            pass


def assessed(uri: str, given: argparse.Namespace) -> dict[str, object]:
    """Figures of one run, as a person starts it."""
    argv = [sys.executable, "-m", "firnline_cli", "assess", "--catalog", uri, "--json"]
    argv += ["--connections", str(given.connections)]
    argv += ["--html", str(given.html)] if given.html else []
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, env=dict(os.environ), check=False)
    seconds, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    facts = [one["facts"] for one in found["tables"]]
    return {
        "tables": found["lake"]["assessed"],
        "connections": given.connections,
        "seconds": round(seconds, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mb": round(after.ru_maxrss / 1024),
        "manifests": sum(one["manifests"] for one in facts),
        "manifest_mb": round(sum(one["manifest_bytes"] for one in facts) / 1e6, 1),
        "metadata_mb": round(sum(one["metadata_bytes"] or 0 for one in facts) / 1e6, 1),
        "snapshots": sum(one["snapshots"] for one in facts),
    }


if __name__ == "__main__":
    main()
