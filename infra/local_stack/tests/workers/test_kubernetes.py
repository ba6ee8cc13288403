"""The workers of a Deployment, against a stand-in for Kubernetes' API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.policy.fleet.worker_count import WorkerLimits
from firnline_domain.policy.fleet.worker_memory import Steps
from firnline_local.workers.keeper import WorkerKeeper
from firnline_local.workers.kubernetes import ApiServer, WorkerDeployment, parse_quantity

GB = 1 << 30
PATH = "/apis/apps/v1/namespaces/lake/deployments/heavy"
ENV = {
    "FIRNLINE_WORKER_LANES": "heavy",
    "FIRNLINE_HEAP_BYTES": str(GB),
    "FIRNLINE_RESOURCE_GROUP": "etl",
}
DEPLOYMENT = {
    "metadata": {
        "annotations": {
            "firnline/heap-bytes": str(GB),
            "firnline/memory-bytes": str(6 * GB),
            "firnline/workers": "0..2",
        }
    },
    "spec": {"template": {"spec": {"containers": [
        {"name": "sidecar"},
        {
            "name": "worker",
            "env": [{"name": name, "value": value} for name, value in ENV.items()],
            "resources": {"requests": {"cpu": 2}, "limits": {"memory": "6Gi"}},
        },
    ]}}},
}  # fmt: skip


class Server(ThreadingHTTPServer):
    """One Deployment and its scale. `patches`: what was changed, with the kind of merge."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.deployment: dict[str, Any] = deepcopy(DEPLOYMENT)
        self.replicas = 0
        self.patches: list[tuple[str, Any]] = []

    def apply(self, path: str, change: Any) -> None:
        if path.endswith("/scale"):
            self.replicas = change["spec"]["replicas"]
            return
        self.deployment["metadata"]["annotations"] |= change["metadata"]["annotations"]
        [new] = change["spec"]["template"]["spec"]["containers"]
        [old] = [one for one in self.deployment["spec"]["template"]["spec"]["containers"]
                 if one["name"] == new["name"]]  # fmt: skip
        env = {one["name"]: one for one in (*old["env"], *new["env"])}
        old["env"] = list(env.values())
        for kind, size in new["resources"].items():
            old["resources"].setdefault(kind, {}).update(size)

    def read(self, path: str) -> Any:
        return {"spec": {"replicas": self.replicas}} if path.endswith("/scale") else self.deployment


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer secret" or not self.path.startswith(PATH):
            self.send_error(403)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.read(self.path)).encode())

    def do_PATCH(self) -> None:
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.patches.append((self.headers["Content-Type"], change))
        self.server.apply(self.path, change)
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def api(server: Server, tmp_path: Path) -> ApiServer:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("lake")
    return ApiServer(f"http://127.0.0.1:{server.server_port}", tmp_path)


def test_it_knows_what_the_chart_has_set_up(api: ApiServer) -> None:
    workers = WorkerDeployment(api, "heavy")
    assert (workers.lanes, workers.group) == ([Lane.HEAVY], "etl")
    assert workers.limits == WorkerLimits(0, 2, 60_000)


def test_steps_change_heap_and_limit_and_no_steps_bring_them_back(
    server: Server, api: ApiServer
) -> None:
    workers = WorkerDeployment(api, "heavy")
    assert workers.set_memory(Steps()) == ""
    assert workers.set_memory(Steps(heap=1, overhead=1)) == "heap=3072m memory=10240m"
    [(kind, change)] = server.patches
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
    again = WorkerDeployment(api, "heavy")  # started anew, it does not begin with what it gave
    assert again.set_memory(Steps(heap=1, overhead=1)) == ""
    assert again.set_memory(Steps()) == "heap=1024m memory=6144m"
    assert len(server.patches) == 2


def test_what_an_upgrade_of_the_chart_took_back_is_given_again(
    server: Server, api: ApiServer
) -> None:
    workers = WorkerDeployment(api, "heavy")
    workers.set_memory(Steps(overhead=1))
    server.deployment["spec"] = deepcopy(DEPLOYMENT["spec"])
    assert workers.set_memory(Steps(overhead=1)) == "heap=1024m memory=8192m"


def test_its_number_is_that_of_the_scale(server: Server, api: ApiServer) -> None:
    said, wanted = list[tuple[str, str]](), [5]
    workers = WorkerDeployment(api, "heavy")
    keeper = WorkerKeeper(
        workers, workers.limits, lambda: wanted[0], lambda: None,
        lambda what, detail: said.append((what, detail)),
    )  # fmt: skip
    keeper.run_due_actions()
    assert (server.replicas, said) == (2, [("scaled", "from=0 to=2")])
    keeper.run_due_actions()  # not due yet
    assert server.patches == [
        ("application/merge-patch+json", {"spec": {"replicas": 2}}),
    ]


@pytest.mark.parametrize("name", ["firnline/heap-bytes", "firnline/memory-bytes"])
def test_a_deployment_that_the_chart_did_not_set_up_is_refused(
    server: Server, api: ApiServer, name: str
) -> None:
    del server.deployment["metadata"]["annotations"][name]
    with pytest.raises(Misconfigured, match=r"Deployment heavy: .*scaler\.enabled=true"):
        WorkerDeployment(api, "heavy")


def test_the_number_belongs_to_another_program_where_the_chart_names_no_limits(
    server: Server, api: ApiServer
) -> None:
    del server.deployment["metadata"]["annotations"]["firnline/workers"]
    assert WorkerDeployment(api, "heavy").limits is None


def test_what_the_api_server_refuses_is_tried_later(api: ApiServer) -> None:
    (api.account / "token").write_text("stale")
    with pytest.raises(RetryLater, match=r"not answer for deployments/heavy: .*403"):
        WorkerDeployment(api, "heavy")


@pytest.mark.parametrize(
    ("text", "size"),
    [("6Gi", 6 * GB), ("6442450944", 6 * GB), ("512Mi", GB // 2), ("4G", 4 * 10**9), ("", 0),
     ("1k", 1000), ("2Ki", 2048), ("1500m", 0), ("1e3", 0)],
)  # fmt: skip
def test_quantities_are_those_of_kubernetes(text: str, size: int) -> None:
    assert parse_quantity(text) == size
