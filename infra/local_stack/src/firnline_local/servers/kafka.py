"""The broker: one KRaft node, broker and controller in one JVM, on loopback.

Options are those of Kafka 4.1's own server; 1.7 s to the first metadata answer, 210 MB, on a
quiet machine of 2 cores.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from firnline_adapters.kafka.connection import client_config

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, is_open
from firnline_local.servers.artifacts import join_class_path
from firnline_local.servers.java import find_java

JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
FORMAT_TIMEOUT_S = 60.0

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# The default, 128 MiB, does not fit the heap above: the broker dies with OutOfMemoryError.
log.cleaner.dedupe.buffer.size=4194304
"""

LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %-5p %c{1} %m%n
"""


def bootstrap_servers(port: int) -> str:
    """Return the address for clients."""
    return f"{LOOPBACK}:{port}"


def command(
    directory: Path, port: int, controller_port: int, properties: str | None = None
) -> Command:
    """Return the command of a broker whose configuration and data are in `directory`. `properties`:
    in place of those of a broker without authentication."""
    paths = join_class_path("kafka")
    config = directory / "server.properties"
    logging = directory / "log4j2.properties"

    def prepare() -> None:
        directory.mkdir(parents=True, exist_ok=True)
        logging.write_text(LOGGING)
        ports = {"port": port, "controller_port": controller_port}
        ours = PROPERTIES.format(host=LOOPBACK, data=directory / "data", **ports)
        config.write_text(properties or ours)
        if not (directory / "data" / "meta.properties").exists():
            _format_storage(paths, config)

    log4j = f"-Dlog4j2.configurationFile={logging}"
    return Command(
        name="kafka",
        argv=(find_java(), *JVM, log4j, "-cp", paths, "kafka.Kafka", str(config)),
        cwd=directory,
        ready=make_probe(port),
        prepare=prepare,
    )


def _format_storage(paths: str, config: Path) -> None:
    """Give an empty disk a cluster id; one more JVM start, once per state directory."""
    # A leading "-" (one id in 64) would be read as an option, hence the zero byte.
    cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    tool = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config))
    subprocess.run(
        [find_java(), *JVM, "-cp", paths, *tool],
        check=True,
        capture_output=True,
        timeout=FORMAT_TIMEOUT_S,
    )


def make_probe(port: int) -> Callable[[], bool]:
    """Return a probe: the broker answers a metadata request."""

    def probe() -> bool:
        if not is_open(port):
            return False
        try:
            AdminClient(client_config(bootstrap_servers(port))).list_topics(timeout=1.0)
        except KafkaException:
            return False
        return True

    return probe
