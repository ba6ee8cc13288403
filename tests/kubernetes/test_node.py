"""The chart on real nodes: `make test-kubernetes`. The commands are those of the documentation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes.cluster import CHART, PROGRAMS, ROOT, Cluster, load_image, run_cluster
from tests.kubernetes.writers import (
    BURST,
    NAMESPACE,
    READ,
    WIDE,
    start_writers,
    wait_for_line,
    wait_for_writers,
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        os.geteuid() != 0 or not (PROGRAMS / "kubelet").exists(),
        reason="needs root and `tests/kubernetes/build.sh node`",
    ),
]
VERSION = yaml.safe_load((ROOT / "infra/helm/firnline/Chart.yaml").read_text())["appVersion"]
SERVERS = (ROOT / "infra/helm/trial/servers.yaml").read_text()
PAGE = (ROOT / "docs/deploy/kubernetes.md").read_text()
VOLUMES = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume-NUMBER}
spec:
  capacity: {storage: 4Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: FOLDER}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]
"""

MOST_WORKERS = 4
SCALER = f"""
scaler: {{enabled: true, drainSeconds: 5, idleSeconds: 30}}
workers:
  worker:
    heapBytes: {512 << 20}
    deleteSetBytes: {64 << 20}
    drainSeconds: 60
    autoscale: {{min: 0, max: 2}}
"""
SCALED = f"""
scaler:
  enabled: false
keda:
  enabled: true
  kafka: kafka.{NAMESPACE}:9092
  drainSeconds: 5
  pollingSeconds: 2
  cooldownSeconds: 10
workers:
  worker:
    lanes: [ordinary]
    heapBytes: {512 << 20}
    deleteSetBytes: {64 << 20}
    drainSeconds: 60
    autoscale: {{min: 0, max: {MOST_WORKERS}}}
  worker-heavy:
    lanes: [heavy]
    replicas: 1
    cpu: 500m
    heapBytes: {1 << 30}
    deleteSetBytes: {512 << 20}
    drainSeconds: 60
    autoscale: {{min: 0, max: 1}}
"""


def read_commands(heading: str) -> str:
    """Return the commands below a heading of the page."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    [commands] = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return str(commands)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes with three volumes. The second one, without images, takes no pods."""
    state = tmp_path_factory.mktemp("node")
    with run_cluster(state, "nodes") as cluster:
        cluster.kubectl("cordon", "node-2")
        load_firnline(cluster, 1)
        for image in sorted(set(re.findall(r"image: (\S+)", SERVERS))):
            load_image(cluster, 1, image, f"docker.io/{image}")
        volumes = [VOLUMES]
        for number in range(3):
            folder = state / f"volumes/{number}"
            folder.mkdir(parents=True)
            volumes.append(VOLUME.replace("NUMBER", str(number)).replace("FOLDER", str(folder)))
        cluster.apply(manifests="---".join(volumes), namespace="default")
        yield cluster


def load_firnline(cluster: Cluster, node: int, built: str = "local", tag: str = VERSION) -> None:
    for family in ("edge", "enricher", "jvm"):
        name = f"firnline-{family}"
        load_image(cluster, node, f"{name}:{built}", f"docker.io/library/{name}:{tag}")


@pytest.fixture(scope="module")
def installed(node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Cluster, str]:
    """The cluster after the commands of the page, and their output."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "infra").symlink_to(ROOT / "infra")
    commands = f"set -ex; cd {folder}\n{read_commands('Try it')}"
    done = node.run("bash", "-c", commands, check=False, timeout=600)
    if done.returncode:
        states = node.kubectl("get", "pods,events", "--namespace", NAMESPACE, "--output", "wide")
        pytest.fail(f"{done.stdout}\n{done.stderr}\n{states}")
    return node, done.stdout


def test_the_commands_of_the_page_verify_rows(installed: tuple[Cluster, str]) -> None:
    assert "rows verified" in installed[1]


def wait_for_rollout(cluster: Cluster, name: str, namespace: str = NAMESPACE) -> None:
    rollout = ("rollout", "status", name, "--timeout=300s")
    cluster.kubectl("--namespace", namespace, *rollout, timeout=360)


def read_pods(cluster: Cluster) -> list[dict[str, Any]]:
    found = cluster.kubectl("get", "pods", "-l", "app.kubernetes.io/component", "--output", "yaml")
    return list(yaml.safe_load(found)["items"])


def kill_pod(cluster: Cluster, component: str) -> None:
    """Kill the processes of a component's pods at once."""
    selector = f"app.kubernetes.io/component={component}"
    cluster.kubectl("delete", "pod", "--selector", selector, "--grace-period=0", "--force")


def test_a_rolling_restart_and_kills_lose_no_row(installed: tuple[Cluster, str]) -> None:
    cluster, _ = installed
    before = {one["metadata"]["uid"] for one in read_pods(cluster)}
    start_writers(cluster, "writers-1")
    wait_for_line(cluster, "writers-1", "writers go")
    cluster.kubectl(
        *("rollout", "restart", "statefulset,deployment"),
        *("--selector", "app.kubernetes.io/name=firnline"),
    )
    for component in ("gateway", "planner"):
        wait_for_rollout(cluster, f"statefulset/firnline-{component}")
    for component in ("enricher", "committer", "console", "worker"):
        wait_for_rollout(cluster, f"deployment/firnline-{component}")
    wait_for_line(cluster, "writers-1", "Firnline is switched on")
    for component in ("worker", "planner", "committer", "enricher"):
        kill_pod(cluster, component)
        time.sleep(5)
    cluster.kubectl("delete", "pod", "firnline-gateway-0", "--grace-period=0", "--force")
    assert "rows verified" in wait_for_writers(cluster, "writers-1", 400)
    after = {one["metadata"]["uid"] for one in read_pods(cluster)}
    assert not before & after


def test_an_upgrade_and_a_rollback_lose_no_row(
    installed: tuple[Cluster, str], tmp_path: Path
) -> None:
    """To a neighbouring version and back. While pods are replaced, both versions run."""
    cluster, _ = installed
    build_neighbour(tmp_path / "neighbour")
    load_firnline(cluster, 1, "neighbour", "neighbour")
    start_writers(cluster, "upgraded", seconds="240")
    wait_for_line(cluster, "upgraded", "writers go")
    upgrade(cluster, "--set", "image.tag=neighbour")
    wait_for_tag(cluster, "neighbour")
    wait_for_line(cluster, "upgraded", "Firnline is switched on")
    cluster.helm("rollback", "firnline", "--wait", "--timeout", "300s", timeout=400)
    wait_for_tag(cluster, VERSION)
    assert "rows verified" in wait_for_writers(cluster, "upgraded", 500)


def build_neighbour(folder: Path) -> None:
    """Build the images of the commit NEIGHBOUR. Default: the last release, or a hundred commits
    before this one."""
    last = git("describe", "--tags", "--abbrev=0", "HEAD~1") or git("rev-parse", "HEAD~100")
    git("worktree", "add", "--detach", str(folder), os.environ.get("NEIGHBOUR", last))
    try:
        subprocess.run(["make", "images", "TAG=neighbour"], check=True, cwd=folder)
    finally:
        git("worktree", "remove", "--force", str(folder))


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True
    ).stdout.strip()


def wait_for_tag(cluster: Cluster, tag: str) -> None:
    """Wait until all pods have images of this tag."""
    deadline = time.monotonic() + 120
    while tags := {image.rpartition(":")[2] for one in read_pods(cluster)
                   for image in [one["spec"]["containers"][0]["image"]]} - {tag}:  # fmt: skip
        assert time.monotonic() < deadline, tags
        time.sleep(1)


def test_a_drained_node_loses_no_row(installed: tuple[Cluster, str]) -> None:
    """All pods move to the other node, one gateway after the other."""
    cluster, _ = installed
    load_firnline(cluster, 2)
    start_writers(cluster, "writers-2")
    wait_for_line(cluster, "writers-2", "Firnline is switched on")
    cluster.kubectl("uncordon", "node-2")
    try:
        options = ("--delete-emptydir-data", "--pod-selector", "app.kubernetes.io/component")
        cluster.kubectl("drain", "node-1", *options, "--timeout=240s", timeout=300)
        assert "node-1" not in {one["spec"].get("nodeName") for one in read_pods(cluster)}
        assert "rows verified" in wait_for_writers(cluster, "writers-2", 400)
    finally:
        cluster.kubectl("uncordon", "node-1")


def test_rewrites_run_in_pods_and_survive_the_loss_of_any(
    installed: tuple[Cluster, str],
) -> None:
    """By the settings of the page. An executor is killed, then the worker, which is the driver."""
    cluster, _ = installed
    [spark] = re.findall(r"```\n(\[spark\]\n.*?)```", PAGE, re.DOTALL)
    # Its processors are on this machine as well.
    spark += '"spark.kubernetes.executor.request.cores" = "100m"\n'
    secret = json.loads(cluster.kubectl("get", "secret", "firnline", "--output", "json"))
    local = secret["data"]["firnline.toml"]
    change = {"data": {"firnline.toml": b64encode(b64decode(local) + spark.encode()).decode()}}
    executors = ("pods", "--selector", "spark-role=executor")
    try:
        cluster.kubectl("patch", "secret", "firnline", "--patch", json.dumps(change))
        upgrade(cluster, "--set", "executors=true")
        start_writers(cluster, "executed", seconds="120")
        wait_for_line(cluster, "executed", "Firnline is switched on")
        cluster.kubectl("delete", *executors, "--grace-period=0", "--force")
        time.sleep(20)
        kill_pod(cluster, "worker")
        assert "rows verified" in wait_for_writers(cluster, "executed", 500)
        logs = cluster.kubectl("logs", "deployment/firnline-worker").splitlines()
        said = [json.loads(line) for line in logs if line.startswith("{")]  # not Spark's
        assert any("-exec-" in one["host"] for one in said if one["action"] == "executor")
    finally:
        change["data"]["firnline.toml"] = local
        cluster.kubectl("patch", "secret", "firnline", "--patch", json.dumps(change))
        upgrade(cluster, "--set", "executors=false")
    deadline = time.monotonic() + 120
    while left := cluster.kubectl("get", *executors, "--output", "name"):
        assert time.monotonic() < deadline, left
        time.sleep(1)


def upgrade(cluster: Cluster, *change: str) -> None:
    wait = ("--wait", "--timeout", "300s")
    cluster.helm("upgrade", "firnline", CHART, "--reuse-values", *change, *wait, timeout=400)


def test_the_scaler_sets_the_number_of_workers_without_keda(installed: tuple[Cluster, str]) -> None:
    cluster, _ = installed
    cluster.helm("upgrade", "firnline", CHART, "--reuse-values", "--values", "-", stdin=SCALER)
    wait_for_rollout(cluster, "deployment/firnline-scaler")
    run_burst(cluster, "scaled", 2)
    lines = cluster.kubectl("logs", "deployment/firnline-scaler").splitlines()
    said = [json.loads(line) for line in lines]
    assert {one["service"] for one in said} == {"scaler"}
    numbers = [one["detail"].rpartition("=")[2] for one in said if one["action"] == "scaled"]
    # A 1 between them keeps a worker for the last task.
    assert [one for one in numbers if one != "1"][-2:] == ["2", "0"]


@pytest.fixture(scope="module")
def scaled(installed: tuple[Cluster, str]) -> Cluster:
    """The cluster with KEDA, after an upgrade of the release that uses it."""
    cluster, _ = installed
    for program, node in product(("keda", "keda-adapter"), ("1", "2")):
        with (PROGRAMS / program).open("rb") as archive:
            cluster.call("load", node, stdin=archive)
    cluster.kubectl("apply", "--server-side", "--filename", PROGRAMS / "keda.yaml")
    for name in ("keda-operator", "keda-metrics-apiserver"):
        wait_for_rollout(cluster, f"deployment/{name}", "keda")
    cluster.helm("upgrade", "firnline", CHART, "--reuse-values", "--values", "-", stdin=SCALED)
    return cluster


def test_workers_come_with_a_burst_and_go_after_it(scaled: Cluster) -> None:
    run_burst(scaled, "parts", MOST_WORKERS)


def run_burst(cluster: Cluster, table: str, most: int) -> None:
    """Let workers go from none to the most and back to none, by the tasks that wait."""
    wait_for_workers(cluster, lambda number: number == 0)
    start_writers(cluster, f"burst-{table}", BURST.replace("TABLE", table))
    assert "written" in wait_for_writers(cluster, f"burst-{table}", 300)
    wait_for_workers(cluster, lambda number: number == most)
    wait_for_workers(cluster, lambda number: number == 0)
    start_writers(cluster, f"reader-{table}", READ.replace("TABLE", table))
    assert "rows verified" in wait_for_writers(cluster, f"reader-{table}", 120)


def test_every_scaler_reads_its_numbers(scaled: Cluster) -> None:
    """Open tasks for workers, consumer lag for enricher and committer."""
    found = scaled.kubectl("get", "scaledobjects", "--output", "name").split()
    names = ("committer", "enricher", "worker", "worker-heavy")
    assert found == [f"scaledobject.keda.sh/firnline-{name}" for name in names]
    timeout = "--timeout=180s"
    scaled.kubectl("wait", "--for=condition=Ready", "scaledobjects", "--all", timeout)
    lag = [f"hpa/keda-hpa-firnline-{name}" for name in names[:2]]
    scaled.kubectl("wait", "--for=condition=ScalingActive", *lag, timeout)


def test_a_table_that_runs_out_of_memory_moves_to_larger_workers(scaled: Cluster) -> None:
    """Without a person: another queue has its next attempt, and the first worker of that queue
    starts."""
    limits = ("--limits=memory=1Gi", "--requests=memory=512Mi,cpu=500m")
    scaled.kubectl("set", "resources", "deployment/firnline-worker", *limits)
    start_writers(scaled, "wide", WIDE)
    assert "written" in wait_for_writers(scaled, "wide", 300)
    deadline = time.monotonic() + 300
    console = f"/api/v1/namespaces/{NAMESPACE}/services/firnline-console:http/proxy"
    outcomes = list[str]()
    while "committed" not in outcomes:
        assert time.monotonic() < deadline, outcomes
        time.sleep(1)
        answer = scaled.run(
            *("kubectl", "get", "--raw", f"{console}/api/tasks?table=wide.texts"), check=False
        )
        if answer.returncode == 0:  # a console on a busy node is not ready for moments
            tasks = json.loads(answer.stdout)["tasks"]
            outcomes = [one["reason"] or one["status"] for task in tasks
                        for one in task["outcomes"]]  # fmt: skip
    assert "out_of_memory" in outcomes


def wait_for_workers(cluster: Cluster, is_enough: Callable[[int], bool]) -> None:
    """Wait for a number of workers that are there. On a busy node one is not ready for moments."""
    deadline = time.monotonic() + 600
    query = ("get", "deployment", "firnline-worker", "--output", "jsonpath={.status.replicas}")
    seen = list[int]()
    while time.monotonic() < deadline:
        seen.append(int(cluster.kubectl(*query) or 0))
        if is_enough(seen[-1]):
            return
        time.sleep(1)
    pytest.fail(f"{seen}\n{cluster.kubectl('describe', 'scaledobjects,hpa,pods')}")


def test_nothing_is_left_after_an_uninstall(installed: tuple[Cluster, str]) -> None:
    """But the volumes: an outbox may have events."""
    cluster, _ = installed
    cluster.helm("uninstall", "firnline", "--wait")
    kinds = "statefulset,deployment,service,job,serviceaccount,poddisruptionbudget"
    left = cluster.kubectl(
        "get", kinds, "--selector", "app.kubernetes.io/name=firnline", "--output", "name"
    )
    assert left == ""
    claims = cluster.kubectl("get", "persistentvolumeclaims", "--output", "name").split()
    assert len(claims) == 3
