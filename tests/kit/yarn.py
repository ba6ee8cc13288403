"""YARN's daemons, from Maven's artifacts: a resource manager, and a node manager on each host."""

from __future__ import annotations

import shutil
from pathlib import Path

from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_pins
from firnline_local.servers.repository import repository_root

from tests.kit.hdfs import JARS
from tests.kit.spark_cluster import DRIVER, Host, Manager

MORE = (  # what the daemons load beside Spark's jars
    PinnedArtifact("add5915e6acfc6ab5836e1fd8a5e21c6488536a8c1f21f386eeb3bf280b702d7",
        "org/bouncycastle/bcprov-jdk18on/1.78.1/bcprov-jdk18on-1.78.1.jar"),
    PinnedArtifact("4b48ea084e5232b9d79ebca1887b9de037b124931807cd60710748c2aee08cc9",
        "org/bouncycastle/bcpkix-jdk18on/1.78.1/bcpkix-jdk18on-1.78.1.jar"),
    PinnedArtifact("d9fa56f97b0f761ce3bc8d9d74c5d7137a987bf5bd3abfe1003f9bafa45a1d2f",
        "org/bouncycastle/bcutil-jdk18on/1.78.1/bcutil-jdk18on-1.78.1.jar"),
    PinnedArtifact("88b955a0df57880a26a74708bc34f74dcaf8ebf4e78843a28b50eae945732b06",
        "javax/xml/bind/jaxb-api/2.3.1/jaxb-api-2.3.1.jar"),
    PinnedArtifact("43fdef0b5b6ceb31b0424b208b930c74ab58fac2ceeb7b3f6fd3aeb8b5ca4393",
        "javax/activation/javax.activation-api/1.2.0/javax.activation-api-1.2.0.jar"),
    PinnedArtifact("3ba42e1fe670bc9d04409f2493f5482dc96cac21caa11adb27b897e57386fef6",
        "com/sun/xml/bind/jaxb-impl/2.3.9/jaxb-impl-2.3.9.jar"),
)  # fmt: skip
SERVER = "org.apache.hadoop.yarn.server"
MANAGER = f"{SERVER}.resourcemanager"
MEMORY_MB = 2100  # of a host: one executor, and the application's master on one of them
SPARK = {
    "spark.executor.memoryOverhead": "700m",  # YARN kills at heap and overhead, 1,280 MB here
    "spark.yarn.am.memory": "384m",
    "spark.yarn.am.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.yarn.am.memoryOverhead": "384m",
    "spark.yarn.jars": "local:/opt/spark/jars/*",
}
_SETTINGS = {
    "yarn.resourcemanager.hostname": DRIVER,
    # The capacity scheduler's settings are a file of their own.
    "yarn.resourcemanager.scheduler.class": f"{MANAGER}.scheduler.fifo.FifoScheduler",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.local-dirs": "/tmp/yarn",
    "yarn.nodemanager.log-dirs": "/work",
    "yarn.nodemanager.container-monitor.interval-ms": "300",  # 3 s: a task could end before it
    # Else it leaves the killing to cgroups, even where it uses none.
    "yarn.nodemanager.resource.memory.enforced": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
}


def yarn(folder: Path) -> Manager:
    """It, as a manager of a Spark cluster. Drivers need `environment` and `spark_settings`."""
    folder.mkdir(parents=True)
    for jar in fetch_pins((*JARS, *MORE), cache_root(), repository_root):
        shutil.copy(jar, folder)
    entries = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in _SETTINGS.items()
    )
    text = f"<configuration>{''.join(entries)}</configuration>"
    (folder / "yarn-site.xml").write_text(text)
    return Manager(
        "yarn",
        (f"{MANAGER}.ResourceManager",),
        _node,
        "Registered with ResourceManager",
        f"{folder}:/opt/spark/jars/*:{folder}/*",
        "--add-opens=java.base/java.lang=ALL-UNNAMED -Dlog4j2.level=INFO",
        folder,
    )


def spark_settings(manager: Manager) -> dict[str, str]:
    """Of a driver's `[spark]`. Its staging folder is what HDFS is elsewhere."""
    return {**SPARK, "spark.yarn.stagingDir": f"file://{manager.shared}"}


def _node(host: Host) -> tuple[str, ...]:
    settings = {
        "yarn.nodemanager.hostname": host.address,
        "yarn.nodemanager.resource.memory-mb": str(host.memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(host.cores),
    }
    given = (word for name, value in settings.items() for word in ("-D", f"{name}={value}"))
    return (f"{SERVER}.nodemanager.NodeManager", *given)
