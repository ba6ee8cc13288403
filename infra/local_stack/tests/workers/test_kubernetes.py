"""The workers of a Deployment, against a stand-in for Kubernetes' API server."""

from __future__ import annotations

from copy import deepcopy

import pytest
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.policy.fleet.worker_count import WorkerLimits
from firnline_domain.policy.fleet.worker_memory import Steps
from firnline_local.workers.__main__ import run_keepers
from firnline_local.workers.keeper import WorkerKeeper
from firnline_local.workers.kubernetes import ApiServer, WorkerDeployment, parse_quantity

from tests.kit.kubernetes_server import DEPLOYMENT, GB, KubernetesServer


def test_it_knows_what_the_chart_has_set_up(kubernetes_api: ApiServer) -> None:
    workers = WorkerDeployment(kubernetes_api, "heavy")
    assert (workers.lanes, workers.group, workers.cores) == ([Lane.HEAVY], "etl", 8)
    assert workers.limits == WorkerLimits(0, 2, 60_000)


def test_steps_change_heap_and_limit_and_no_steps_bring_them_back(
    kubernetes: KubernetesServer, kubernetes_api: ApiServer
) -> None:
    workers = WorkerDeployment(kubernetes_api, "heavy")
    assert workers.set_memory(Steps()) == ""
    assert workers.set_memory(Steps(heap=1, overhead=1)) == "heap=3072m memory=10240m"
    [(kind, change)] = kubernetes.patches
    assert kind == "application/strategic-merge-patch+json"
    assert change["metadata"] == {"annotations": {"firnline/memory-steps": "heap=1 overhead=1"}}
    assert change["spec"]["template"]["spec"]["containers"] == [
        {
            "name": "worker",
            "env": [{"name": "FIRNLINE_HEAP_BYTES", "value": str(3 * GB)}],
            "resources": {
                "requests": {"memory": str(10 * GB)},
                "limits": {"memory": str(10 * GB)},
            },
        }
    ]
    assert workers.set_memory(Steps(heap=1, overhead=1)) == ""
    again = WorkerDeployment(
        kubernetes_api, "heavy"
    )  # started anew, it does not begin with what it gave
    assert again.set_memory(Steps(heap=1, overhead=1)) == ""
    assert again.set_memory(Steps()) == "heap=1024m memory=6144m"
    assert len(kubernetes.patches) == 2


def test_what_an_upgrade_of_the_chart_took_back_is_given_again(
    kubernetes: KubernetesServer, kubernetes_api: ApiServer
) -> None:
    workers = WorkerDeployment(kubernetes_api, "heavy")
    workers.set_memory(Steps(overhead=1))
    kubernetes.deployment["spec"] = deepcopy(DEPLOYMENT["spec"])
    assert workers.set_memory(Steps(overhead=1)) == "heap=1024m memory=8192m"


def test_its_number_is_that_of_the_scale(
    kubernetes: KubernetesServer, kubernetes_api: ApiServer
) -> None:
    said, wanted = list[tuple[str, str]](), [5]
    workers = WorkerDeployment(kubernetes_api, "heavy")
    keeper = WorkerKeeper(
        workers, workers.limits, lambda: wanted[0], lambda: None,
        lambda what, detail: said.append((what, detail)),
    )  # fmt: skip
    keeper.run_due_actions()
    assert (kubernetes.replicas, said) == (2, [("scaled", "from=0 to=2")])
    keeper.run_due_actions()  # not due yet
    assert kubernetes.patches == [
        ("application/merge-patch+json", {"spec": {"replicas": 2}}),
    ]


@pytest.mark.parametrize("name", ["firnline/cores", "firnline/heap-bytes", "firnline/memory-bytes"])
def test_a_deployment_that_the_chart_did_not_set_up_is_refused(
    kubernetes: KubernetesServer, kubernetes_api: ApiServer, name: str
) -> None:
    del kubernetes.deployment["metadata"]["annotations"][name]
    with pytest.raises(Misconfigured, match=r"Deployment heavy: .*scaler\.enabled=true"):
        WorkerDeployment(kubernetes_api, "heavy")


def test_the_number_belongs_to_another_program_where_the_chart_names_no_limits(
    kubernetes: KubernetesServer, kubernetes_api: ApiServer
) -> None:
    del kubernetes.deployment["metadata"]["annotations"]["firnline/workers"]
    assert WorkerDeployment(kubernetes_api, "heavy").limits is None


def test_what_the_api_server_refuses_is_tried_later(kubernetes_api: ApiServer) -> None:
    (kubernetes_api.account / "token").write_text("stale")
    with pytest.raises(RetryLater, match=r"not answer for deployments/heavy: .*403"):
        WorkerDeployment(kubernetes_api, "heavy")


def test_an_api_server_that_refuses_one_deployment_at_the_start_ends_nothing(
    kubernetes: KubernetesServer, kubernetes_api: ApiServer
) -> None:
    keepers: dict[str, WorkerKeeper] = {}

    def make(name: str) -> WorkerKeeper:
        workers = WorkerDeployment(kubernetes_api, name)
        return WorkerKeeper(workers, workers.limits, lambda: 1, lambda: None, lambda *_: None)

    names, token = ["other", "heavy"], kubernetes_api.account / "token"
    valid = token.read_text()
    token.write_text("stale")
    run_keepers(names, keepers, make, Log("scaler"))
    assert (keepers, kubernetes.replicas) == ({}, 0)
    token.write_text(valid)
    run_keepers(names, keepers, make, Log("scaler"))
    assert (list(keepers), kubernetes.replicas) == (["heavy"], 1)


@pytest.mark.parametrize(
    ("text", "size"),
    [("6Gi", 6 * GB), ("6442450944", 6 * GB), ("512Mi", GB // 2), ("4G", 4 * 10**9), ("", 0),
     ("1k", 1000), ("2Ki", 2048), ("1500m", 0), ("1e3", 0)],
)  # fmt: skip
def test_quantities_are_those_of_kubernetes(text: str, size: int) -> None:
    assert parse_quantity(text) == size
