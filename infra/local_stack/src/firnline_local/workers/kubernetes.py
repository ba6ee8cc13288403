"""The workers of a Kubernetes Deployment. Its number of pods and their memory are set through the
API server with the pod's service account; a change of memory replaces the pods, which complete
their tasks first.

Annotations of the Deployment, which the Helm chart writes, say what it was set up with."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from firnline_adapters.config.fleet_settings import HEAP_BYTES
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.policy.fleet.worker_memory import Steps, with_steps

from firnline_local.workers.keeper import read_limits

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
TIMEOUT_S = 10.0
CONTAINER = "worker"
LIMITS, CORES, HEAP, MEMORY, STEPS = (
    f"firnline/{name}"
    for name in ("workers", "cores", "heap-bytes", "memory-bytes", "memory-steps")
)
"""Annotations: the least and the most workers if their number is ours; cores of one; the sizes
without steps; the steps that we gave."""
QUANTITY = re.compile(r"(\d+)([kKMGT]i?)?")
MIB = 1 << 20


@dataclass(frozen=True)
class ApiServer:
    """The API server as a pod reaches it. `account` has its token, namespace and certificate."""

    uri: str
    account: Path = ACCOUNT

    @classmethod
    def of_pod(cls) -> ApiServer:
        """Return the API server of the pod that we are. Raises Misconfigured outside of one."""
        if HOST not in os.environ or not (ACCOUNT / "token").exists():
            raise Misconfigured(f"{HOST} or {ACCOUNT}/token is missing: run it in a pod")
        return cls(f"https://{os.environ[HOST]}:{os.environ[PORT]}")

    def call(self, path: str, change: Mapping[str, Any] | None = None, merge: str = "") -> Any:
        """Read an object of the namespace, or patch it. Return it. Raises RetryLater."""
        namespace = (self.account / "namespace").read_text().strip()
        headers = {
            "Authorization": f"Bearer {(self.account / 'token').read_text().strip()}",  # it rotates
            "Content-Type": f"application/{merge}+json",
        }
        uri = f"{self.uri}/apis/apps/v1/namespaces/{namespace}/{path}"
        body = json.dumps(change).encode() if change else None
        request = Request(uri, body, headers, method="PATCH" if body else "GET")
        handlers = [ProxyHandler({}), *self._tls()]
        try:
            with build_opener(*handlers).open(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except (OSError, HTTPException, ValueError) as error:
            raise RetryLater(f"Kubernetes does not answer for {path}: {error}") from None

    def _tls(self) -> list[HTTPSHandler]:
        if not self.uri.startswith("https:"):
            return []
        context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        return [HTTPSHandler(context=context)]


class WorkerDeployment:
    """`Workers` of the keeper: the pods of one Deployment. Its methods raise RetryLater."""

    def __init__(self, server: ApiServer, name: str) -> None:
        """Read what the Deployment was set up with. Raises Misconfigured if it does not say so."""
        self.name = name
        self._server = server
        self._path = f"deployments/{name}"
        found = server.call(self._path)
        try:
            given = found["metadata"]["annotations"]
            self.cores = int(given[CORES])
            self._heap, self._memory = int(given[HEAP]), int(given[MEMORY])
            env = _environment(found)
            self.lanes = [Lane(lane) for lane in env["FIRNLINE_WORKER_LANES"].split(",")]
            self.group = env.get("FIRNLINE_RESOURCE_GROUP", "")
            self.limits = read_limits(given[LIMITS]) if LIMITS in given else None
        except (KeyError, TypeError, ValueError) as error:
            raise Misconfigured(
                f"Deployment {name}: {error!r} is missing or wrong. Install it with the Helm chart "
                "and scaler.enabled=true"
            ) from None

    def count(self) -> int:
        return int(self._server.call(f"{self._path}/scale")["spec"].get("replicas", 0))

    def set_count(self, count: int) -> None:
        change = {"spec": {"replicas": count}}
        self._server.call(f"{self._path}/scale", change, "merge-patch")

    def set_memory(self, steps: Steps) -> str:
        heap = with_steps(self._heap, steps.heap)
        memory = with_steps(self._memory, steps.overhead) + heap - self._heap
        found = self._server.call(self._path)
        if _sizes(found) == (heap, memory):
            return ""
        size = {"memory": str(memory)}
        container = {
            "name": CONTAINER,
            "env": [{"name": HEAP_BYTES.variable, "value": str(heap)}],
            "resources": {"requests": size, "limits": size},
        }
        change = {
            "metadata": {"annotations": {STEPS: f"heap={steps.heap} overhead={steps.overhead}"}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        self._server.call(self._path, change, "strategic-merge-patch")
        return f"heap={heap // MIB}m memory={memory // MIB}m"


def _sizes(deployment: Any) -> tuple[int, int]:
    """Return heap and memory of a pod; 0 for a size that is not set."""
    limits = _container(deployment).get("resources", {}).get("limits", {})
    heap = _environment(deployment).get(HEAP_BYTES.variable, "")
    return parse_quantity(heap), parse_quantity(limits.get("memory", ""))


def parse_quantity(text: str) -> int:
    """Return the bytes of a quantity as the API server writes it; 0 for other text."""
    found = QUANTITY.fullmatch(text)
    if not found:
        return 0
    unit = found[2] or ""
    base = 1024 if unit.endswith("i") else 1000
    return int(int(found[1]) * base ** " kmgt".index(unit[:1].lower() or " "))


def _environment(deployment: Any) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in _container(deployment).get("env", [])}


def _container(deployment: Any) -> dict[str, Any]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    [found] = [one for one in containers if one["name"] == CONTAINER]
    return dict(found)
