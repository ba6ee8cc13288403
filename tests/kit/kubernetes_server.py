"""A stand-in for Kubernetes' API server that has one Deployment of workers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from firnline_local.workers.kubernetes import ApiServer

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
            "firnline/cores": "8",
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


class KubernetesServer(ThreadingHTTPServer):
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
    server: KubernetesServer

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
def kubernetes() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def kubernetes_api(kubernetes: KubernetesServer, tmp_path: Path) -> ApiServer:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("lake")
    return ApiServer(f"http://127.0.0.1:{kubernetes.server_port}", tmp_path)
