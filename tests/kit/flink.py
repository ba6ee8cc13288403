"""Flink SQL in a JVM of its own, on loopback: each job has its cluster in that process.

Its jars come from Maven, pinned in the lock file beside this module (159 MB): Flink 2.1, the newest
that Iceberg has a runtime for. Hadoop's are those of the embedded catalog.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firnline_local.processes.ports import LOOPBACK
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_jars, fetch_pins
from firnline_local.servers.java import find_java
from firnline_local.servers.repository import repository_root
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

LOCK = Path(__file__).with_suffix(".lock")
HEAP = "-Xmx1g"
FROM_CATALOG = ("hadoop-client", "slf4j", "commons-logging")
OPENED = (  # to reflection, as Flink's own launcher does
    "java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "java.text", "java.time",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
    "java.util.concurrent.locks", "sun.nio.ch",
)  # fmt: skip
SETTINGS = {
    "parallelism.default": "1",
    "restart-strategy.type": "none",  # a job that fails is seen to have failed
    "table.exec.sink.upsert-materialize": "NONE",
    "classloader.check-leaked-classloader": "false",
    "taskmanager.memory.network.max": "16m",
    "taskmanager.memory.network.min": "16m",
    "taskmanager.memory.managed.size": "16m",
    "rest.bind-address": LOOPBACK,
    "jobmanager.bind-host": LOOPBACK,
    "taskmanager.bind-host": LOOPBACK,
}
ENDED = ("FAILED", "CANCELED", "FINISHED")


@dataclass(frozen=True)
class FlinkSql:
    """A `TableEnvironment` of Flink."""

    java: Any

    def execute(self, statement: str) -> Any:
        """Return Flink's `TableResult`."""
        return self.java.executeSql(statement)

    def start(self, statement: str) -> Job:
        """Start the job of a statement, and do not wait for its end."""
        return Job(self.execute(statement).getJobClient().get())


@dataclass(frozen=True)
class Job:
    """A job that was started."""

    java: Any

    @property
    def status(self) -> str:
        """Return Flink's word for it: RUNNING, FAILED..."""
        return str(self.java.getJobStatus().get())

    def read_failure(self) -> str:
        """Return why it has failed, the first cause last."""
        try:
            self.java.getJobExecutionResult().get()
        except Exception as error:
            lines = str(error).splitlines()
            causes = [one for one in lines if "Exception" in one and not one.startswith("\tat")]
            return " <- ".join(causes)
        return ""

    def cancel(self) -> None:
        """End it, unless it has ended."""
        if self.status not in ENDED:
            self.java.cancel().get()


@contextmanager
def flink_sql(catalogs: Mapping[str, str], log: Path, checkpoint_s: float) -> Iterator[FlinkSql]:
    """Run Flink while the block runs. `catalogs`: their names in SQL and their addresses."""
    pins = [PinnedArtifact(*line.split()) for line in LOCK.read_text().splitlines()]
    ours = [one for one in fetch_jars("catalog") if one.name.startswith(FROM_CATALOG)]
    jars = [*fetch_pins(pins, cache_root(), repository_root), *ours]
    more = os.environ.get("SPARK_DIST_CLASSPATH")  # what HADOOP_CONF_DIR names
    opened = [f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in OPENED]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    with log.open("wb") as out:
        port = launch_gateway(
            classpath=os.pathsep.join([*map(str, jars), *filter(None, [more])]),
            javaopts=[HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", quiet, *opened],
            java_path=find_java(),
            die_on_exit=True,
            redirect_stdout=out,
            redirect_stderr=out,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            flink = gateway.jvm.org.apache.flink
            settings = flink.configuration.Configuration()
            every = {"execution.checkpointing.interval": f"{checkpoint_s * 1000:.0f} ms"}
            for name, value in {**SETTINGS, **every}.items():
                settings.setString(name, value)
            builder = flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
            environment = builder.withConfiguration(settings).build()
            sql = FlinkSql(flink.table.api.TableEnvironment.create(environment))
            for name, uri in catalogs.items():
                given = f"'type'='iceberg', 'catalog-type'='rest', 'uri'='{uri}'"
                sql.execute(f"CREATE CATALOG {name} WITH ({given}, 'cache-enabled'='false')")
            yield sql
        finally:
            gateway.shutdown()
