"""Spark's executors as pods on the nodes of `tests/kubernetes`. The driver is in their network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.kit.spark_cluster import enter_network, is_jvm_with
from tests.kubernetes.cluster import API, DOCKER, PROGRAMS, Cluster, load_image, run_cluster

MASTER = f"k8s://https://{API}:6443"
IMAGE = "docker.io/library/firnline-jvm:executors"
EXECUTOR = "KubernetesExecutorBackend"
PODS = 2
POD_SETTINGS = {  # two executors, as the two hosts of the other managers have
    "spark.dynamicAllocation.minExecutors": str(PODS),
    "spark.dynamicAllocation.maxExecutors": str(PODS),
    "spark.executor.memoryOverhead": "700m",
    "spark.kubernetes.container.image": IMAGE,
    "spark.kubernetes.executor.request.cores": "100m",
    "spark.pyspark.python": "/opt/firnline/bin/python",
}


def find_pods_obstacle() -> str | None:
    """Return why this machine can have no such cluster; None: it can."""
    if os.geteuid() or not (PROGRAMS / "kubelet").exists() or shutil.which(DOCKER[0]) is None:
        return (
            "needs root, `tests/kubernetes/build.sh node`, and a container engine with our images"
        )
    return None


@dataclass(frozen=True)
class Pod:
    """The JVM of an executor, seen from this machine, and what is beside it in its container."""

    jvm: psutil.Process

    @property
    def tree(self) -> list[psutil.Process]:
        return [self.jvm, *self.jvm.children(recursive=True)]

    def scratch(self) -> list[str]:
        """Return all files of its scratch volume, as paths there."""
        root = Path(f"/proc/{self.jvm.pid}/root/var/data")
        return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]


@dataclass(frozen=True)
class PodCluster:
    """Nodes that run executors for a driver in their network."""

    nodes: Cluster
    master: str = MASTER

    @property
    def hosts(self) -> list[Pod]:
        """A pod has a disk and a network of its own: it is what a host is elsewhere."""
        return [Pod(one) for one in self.executors()]

    def executors(self) -> list[psutil.Process]:
        return [one for one in psutil.process_iter() if is_jvm_with(one, EXECUTOR, API)]

    def read_logs(self) -> list[str]:
        """Return the logs of the pods, and their manifests."""
        logs = self.nodes.state.glob("node-*/logs/**/*.log")
        pods = self.nodes.kubectl("get", "pods", "--output", "yaml")
        return [*(path.read_text(errors="replace") for path in logs), pods]

    @contextmanager
    def here(self) -> Iterator[None]:
        """Put this thread, and what it starts, into the network of the nodes."""
        inside = (self.nodes.state / "etcd.pid").read_text().strip()
        with enter_network(Path(f"/proc/{inside}/ns/net")):
            yield


@contextmanager
def pod_cluster(state: Path) -> Iterator[PodCluster]:
    """Yield two nodes with the image of the executors."""
    try:
        with run_cluster(state, "nodes") as nodes:
            for number in range(1, PODS + 1):
                load_image(nodes, number, "firnline-jvm:local", IMAGE)
            yield PodCluster(nodes)
    finally:
        for images in state.glob("node-*/containerd"):
            shutil.rmtree(images, ignore_errors=True)  # 2 GB
