"""A Hive metastore on PostgreSQL, and Iceberg's REST adapter in front of it: writers speak Thrift,
Firnline speaks REST."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, is_open
from firnline_local.servers import catalog
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_jars, fetch_pins
from firnline_local.servers.java import find_java
from firnline_local.servers.postgres import driver_jar
from firnline_local.servers.repository import repository_root

VERSION = "4.0.1"  # the newest whose server is a published jar
LOCK = Path(__file__).with_suffix(".lock")
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
HIVE = "org.apache.hadoop.hive.metastore"
# Locks need tables that come with Hive's distribution only. Since 4.0 the server compares the
# pointer itself.
TABLE = {"engine.hive.lock-enabled": "false"}


def uri(port: int) -> str:
    """Return the address for Thrift clients."""
    return f"thrift://{LOOPBACK}:{port}"


def command(directory: Path, port: int, database: str) -> Command:
    """Return the command of a metastore whose tables are in a PostgreSQL database, at this JDBC
    address."""
    config = {
        "metastore.thrift.bind.host": LOOPBACK,
        "metastore.warehouse.dir": (directory / "managed").as_uri(),
        "metastore.warehouse.external.dir": (directory / "warehouse").as_uri(),
        "javax.jdo.option.ConnectionURL": database,
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.schema.verification": "false",
        "metastore.expression.proxy": f"{HIVE}.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": f"{HIVE}.events.EventCleanerTask",
    }
    paths = os.pathsep.join(str(one) for one in (*_jars(), *fetch_jars("catalog"), driver_jar()))
    given = (word for one in config.items() for word in ("--hiveconf", "=".join(one)))
    return Command(
        name="metastore",
        argv=(find_java(), *JVM, "-cp", paths, f"{HIVE}.HiveMetaStore", "-p", str(port), *given),
        cwd=directory,
        ready=lambda: is_open(port),
    )


def adapter(directory: Path, port: int, metastore: str) -> Command:
    """Return the command of a REST service on a metastore."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.submodule_search_locations is not None
    rest = Path(spark.submodule_search_locations[0], "jars", "*")  # Hive's configuration
    client = os.pathsep.join(map(str, (*_jars(), rest)))
    plain = catalog.command(directory, port, metastore, Path(client))

    def prepare() -> None:
        plain.prepare()
        config = directory / "catalog.xml"
        config.write_text(config.read_text().replace("jdbc.JdbcCatalog", "hive.HiveCatalog"))

    return replace(plain, prepare=prepare)


def _jars() -> tuple[Path, ...]:
    """Return the server's, which its clients need too: those of Hive 2 ask for `get_table`."""
    pins = [PinnedArtifact(*line.split()) for line in LOCK.read_text().splitlines()]
    return fetch_pins(pins, cache_root(), repository_root)
