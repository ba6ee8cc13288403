"""The Iceberg REST catalog: the reference adapter of Iceberg's own tests, on a local warehouse.

Test code upstream (no promise of its API, no authentication, several tables of one transaction
commit one after another), so its version is pinned and it listens on loopback only. Its own
server class binds every interface; jetty-xml assembles one that does not (catalog.xml).
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.error import URLError
from xml.sax.saxutils import escape

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK
from firnline_local.servers.artifacts import join_class_path
from firnline_local.servers.java import find_java

JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.eclipse.jetty.xml.XmlParser.Validating=false",  # our XML names no DTD
)
MAIN = "org.eclipse.jetty.xml.XmlConfiguration"


def uri(port: int) -> str:
    """Return the address for clients."""
    return f"http://{LOOPBACK}:{port}"


def command(
    directory: Path, port: int, database: str | None = None, driver: Path | None = None
) -> Command:
    """Return the command of a catalog whose warehouse is in `directory`. So is its database, unless
    `database` is the JDBC address of one, with the jar of its driver."""
    config = directory / "catalog.xml"
    warehouse = directory / "warehouse"

    def prepare() -> None:
        warehouse.mkdir(parents=True, exist_ok=True)
        values = {
            "host": LOOPBACK,
            "port": port,
            "database": database or f"jdbc:sqlite:{directory / 'catalog.db'}",
            "warehouse": warehouse.as_uri(),
        }
        template = Template(files("firnline_local").joinpath("catalog.xml").read_text())
        config.write_text(template.substitute({k: escape(str(v)) for k, v in values.items()}))

    paths = join_class_path("catalog") + (f"{os.pathsep}{driver}" if driver else "")
    return Command(
        name="catalog",
        argv=(find_java(), *JVM, *OPTIONS, "-cp", paths, MAIN, str(config)),
        cwd=directory,
        ready=make_probe(uri(port)),
        prepare=prepare,
    )


def make_probe(base: str) -> Callable[[], bool]:
    """Return a probe: GET /v1/config is answered with 200. It also serves for the gateway."""

    def probe() -> bool:
        try:
            with urllib.request.urlopen(f"{base}/v1/config", timeout=2.0) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    return probe
