"""The chart, rendered by Helm and checked by Kubernetes' API server: `make test-chart`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from firnline_domain.policy.fleet.worker_count import WorkerLimits
from firnline_local.workers.keeper import read_limits

from tests.kubernetes.cluster import CHART, PROGRAMS, ROOT, Cluster, run_cluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        os.geteuid() != 0 or not (PROGRAMS / "kube-apiserver").exists(),
        reason="needs root and `tests/kubernetes/build.sh api`",
    ),
]
TRIAL = {
    "upstreamUri": "http://catalog:8181",
    "kafka": "kafka:9092",
    "redis": "redis://redis:6379/0",
}
SECRET = {"secret": "firnline", "kafka": "kafka:9094"}
WORKER = yaml.safe_load((CHART / "values.yaml").read_text())["workers"]["worker"]
CASES: dict[str, dict[str, Any]] = {
    "a trial": yaml.safe_load((CHART.parent / "trial/values.yaml").read_text()),
    "a catalog without credentials": {**TRIAL, "signing": False},
    "a secret": SECRET,
    "everything": {
        **SECRET,
        "groups": "etl=2.5",
        "env": {"FIRNLINE_LOG_LEVEL": "DEBUG"},
        "envFrom": [{"secretRef": {"name": "redis"}}],
        "imagePullSecrets": [{"name": "registry"}],
        "extraVolumes": [
            {"name": "warehouse", "persistentVolumeClaim": {"claimName": "warehouse"}}
        ],
        "extraVolumeMounts": [{"name": "warehouse", "mountPath": "/warehouse"}],
        "podSpec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "priorityClassName": "high"},
        "podAnnotations": {"team": "lake"},
        "serviceAccountAnnotations": {"role": "lake"},
        "gateway": {
            "tlsSecret": "tls",
            "secret": "gateway",
            "env": {"FIRNLINE_COMMIT_WAIT_SECONDS": "0.5"},
            "persistence": {"storageClass": "fast"},
            "service": {"type": "LoadBalancer", "annotations": {"internal": "true"}},
        },
        "listener": {"enabled": True},
        "console": {"tlsSecret": "tls"},
        "planner": {"persistence": {"enabled": False}},
        "workers": {"worker-etl": {**WORKER, "group": "etl", "lanes": ["ordinary", "heavy"]}},
        "networkPolicy": {
            "enabled": True,
            "sources": [{"namespaceSelector": {}}],
            "writers": [{"namespaceSelector": {"matchLabels": {"team": "lake"}}}],
            "console": [{"namespaceSelector": {}}],
            "monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
        "monitoring": {
            "podMonitor": True,
            "rules": True,
            "boards": True,
            "labels": {"release": "prometheus"},
        },
        "keda": {"enabled": True, "kafkaAuthentication": "kafka"},
        "scaler": {"enabled": True},
        "topics": {"replicas": 3},
        "executors": True,
    },
    "one worker for both queues": {
        **SECRET,
        "workers": {"worker": {"lanes": ["ordinary", "heavy"]}, "worker-heavy": None},
    },
}
NAMESPACE = "checked"


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with run_cluster(tmp_path_factory.mktemp("api"), "api") as cluster:
        cluster.kubectl("apply", "--server-side", "-f", PROGRAMS / "crds")
        cluster.kubectl("create", "namespace", NAMESPACE)
        # A controller does this on a node.
        cluster.kubectl("create", "serviceaccount", "default", "--namespace", NAMESPACE)
        cluster.kubectl("create", "priorityclass", "high", "--value=1")
        levels = ("enforce", "warn")
        cluster.kubectl(
            *("label", "namespace", NAMESPACE),
            *(f"pod-security.kubernetes.io/{level}=restricted" for level in levels),
        )
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield cluster


def render(cluster: Cluster, values: dict[str, Any], chart: Path = CHART) -> str:
    return cluster.helm(
        *("template", "lake", chart, "--namespace", NAMESPACE, "--values", "-"),
        stdin=json.dumps(values),
    )


def read_workloads(manifests: str) -> dict[str, Any]:
    found = [one for one in yaml.safe_load_all(manifests) if one]
    return {
        one["metadata"]["name"]: one
        for one in found
        if one["kind"] in ("Deployment", "StatefulSet")
    }


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_the_api_server_takes_the_manifests(api: Cluster, values: dict[str, Any]) -> None:
    """Without a warning, in a namespace with the strictest security level for pods."""
    api.helm("lint", "--strict", CHART, "--values", "-", stdin=json.dumps(values))
    taken = api.apply("--dry-run=server", manifests=render(api, values), namespace=NAMESPACE)
    assert "statefulset.apps/lake-firnline-gateway" in taken


def test_the_api_server_takes_the_servers_of_a_trial(api: Cluster) -> None:
    servers = (ROOT / "infra/helm/trial/servers.yaml").read_text()
    taken = api.apply("--dry-run=server", manifests=servers, namespace=NAMESPACE)
    assert taken.count("deployment.apps/") == 4


def test_a_wrong_field_is_refused(api: Cluster) -> None:
    manifests = render(api, SECRET).replace("periodSeconds: 2", "periodSecondz: 2")
    with pytest.raises(AssertionError, match="periodSecondz"):
        api.apply("--dry-run=server", manifests=manifests, namespace=NAMESPACE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**SECRET, "bukets": 8}, "bukets"),
        ({**SECRET, "env": {"FIRNLINE_BUCKETS": 8}}, "FIRNLINE_BUCKETS"),
        ({"kafka": "kafka:9092"}, "set `secret` .a Secret with firnline.toml., or `upstreamUri`"),
        ({"secret": "firnline", "keda": {"enabled": True}}, "set `keda.kafka`"),
        (TRIAL, "set `secret` .a Secret with signing-keys., or `signing=false`"),
    ],
)
def test_wrong_values_are_named(api: Cluster, values: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        render(api, values)


def test_workers_have_the_memory_of_their_settings(api: Cluster) -> None:
    worker = read_workloads(render(api, SECRET))["lake-firnline-worker-heavy"]
    [container] = worker["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one["value"] for one in container["env"]}
    needed = int(env["FIRNLINE_HEAP_BYTES"]) + int(env["FIRNLINE_DELETE_SET_BYTES"]) + 2**30
    assert int(container["resources"]["limits"]["memory"]) == needed


def test_scaled_services_have_no_number_of_replicas(api: Cluster) -> None:
    """An upgrade would set it, against the autoscaler."""
    workloads = read_workloads(render(api, {**SECRET, "keda": {"enabled": True}}))
    fixed = {name for name, one in workloads.items() if "replicas" in one["spec"]}
    servers = {f"lake-firnline-{name}" for name in ("gateway", "planner", "console")}
    assert fixed == servers
    workloads = read_workloads(render(api, {**SECRET, "scaler": {"enabled": True}}))
    fixed = {name for name, one in workloads.items() if "replicas" in one["spec"]}
    others = ("enricher", "committer", "scaler")
    assert fixed == servers | {f"lake-firnline-{name}" for name in others}


@pytest.mark.parametrize(
    ("case", "paths"),
    [
        ("everything", ["ordinary.wanted", "groups.etl.both.wanted", "heavy.wanted"]),
        ("one worker for both queues", ["both.wanted"]),
    ],
)
def test_autoscalers_of_workers_ask_for_one_number(
    api: Cluster, case: str, paths: list[str]
) -> None:
    found = yaml.safe_load_all(render(api, {**CASES[case], "keda": {"enabled": True}}))
    scaled = [one for one in found if one["kind"] == "ScaledObject"]
    workers = [one for one in scaled if "-worker" in one["metadata"]["name"]]
    triggers = [
        [trigger["metadata"]["valueLocation"] for trigger in one["spec"]["triggers"]]
        for one in workers
    ]
    assert triggers == [[path] for path in paths]


def test_the_scaler_has_its_times_from_the_values(api: Cluster) -> None:
    scaler = {"enabled": True, "drainSeconds": 5, "idleSeconds": 30}
    worker = read_workloads(render(api, {**SECRET, "scaler": scaler}))["lake-firnline-worker"]
    limits = read_limits(worker["metadata"]["annotations"]["firnline/workers"])
    assert limits == WorkerLimits(0, 8, idle_ms=30_000, drain_s=5)


# In a network namespace of the API server, with what a pod of the scaler has.
SCALE = """
import sys
from pathlib import Path
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.worker_memory import Steps
from firnline_local.workers.kubernetes import ApiServer, WorkerDeployment
server = ApiServer(sys.argv[1], Path(sys.argv[2]))
heavy = WorkerDeployment(server, "lake-firnline-worker-heavy")
heavy.set_count(2)
sizes = [heavy.set_memory(Steps(steps, steps)) for steps in (0, 1, 1, 0)]
print(heavy.count(), heavy.limits.maximum, *sizes, sep=",")
try:
    server.call("deployments/lake-firnline-committer")
except RetryLater as later:
    print(later)
"""


def test_the_scaler_may_set_number_and_memory_of_the_workers_only(
    api: Cluster, tmp_path: Path
) -> None:
    api.apply(manifests=render(api, {**SECRET, "scaler": {"enabled": True}}), namespace=NAMESPACE)
    token = api.kubectl("create", "token", "lake-firnline-scaler", "--namespace", NAMESPACE)
    server = api.kubectl("config", "view", "--output", "jsonpath={.clusters[0].cluster.server}")
    (tmp_path / "token").write_text(token)
    (tmp_path / "namespace").write_text(NAMESPACE)
    (tmp_path / "ca.crt").write_text((api.state / "certs/ca.crt").read_text())
    said = api.run(sys.executable, "-c", SCALE, server, tmp_path).stdout.splitlines()
    assert said[0] == "2,2,,heap=3072m memory=10240m,,heap=1024m memory=6144m"
    assert "403" in said[1]


def test_only_workers_with_executors_may_call_the_api_server(api: Cluster) -> None:
    for executors in (False, True):
        workloads = read_workloads(render(api, {**SECRET, "executors": executors}))
        callers = {name for name, one in workloads.items()
                   if one["spec"]["template"]["spec"]["automountServiceAccountToken"]}  # fmt: skip
        workers = {"lake-firnline-worker", "lake-firnline-worker-heavy"}
        assert callers == (workers if executors else set())


def test_a_package_contains_what_is_linked(api: Cluster, tmp_path: Path) -> None:
    api.helm("package", CHART, "--destination", tmp_path)
    [package] = tmp_path.glob("firnline-*.tgz")
    values = {**SECRET, "monitoring": {"rules": True, "boards": True}}
    found = {one["kind"]: one for one in yaml.safe_load_all(render(api, values, package))}
    observability = ROOT / "infra/observability"
    rules = yaml.safe_load((observability / "alerts.yaml").read_text())
    boards = {path.name: path.read_text() for path in observability.glob("boards/*.json")}
    assert found["PrometheusRule"]["spec"] == rules
    assert found["ConfigMap"]["data"] == boards
