"""Kubernetes on this machine, by `node.sh`: an API server, or two nodes as well."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHART = ROOT / "infra/helm/firnline"
API = "10.84.0.1"  # of node.sh
DOCKER = shlex.split(os.environ.get("DOCKER", "docker"))
PROGRAMS = (
    Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "firnline/kubernetes/bin"
)


@dataclass(frozen=True)
class Cluster:
    """A running cluster; its commands run in its namespaces."""

    state: Path

    def call(self, *command: str | Path, stdin: IO[bytes] | None = None) -> None:
        """Call `node.sh` with a command of its own."""
        subprocess.run([HERE / "node.sh", *command], env=self._environment, check=True, stdin=stdin)

    def run(
        self, *command: str | Path, stdin: str = "", check: bool = True, timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in there. Fail with its output."""
        done = subprocess.run(
            [HERE / "node.sh", "run", *command],
            env=self._environment,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=timeout,
        )
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "STATE": str(self.state)}

    def kubectl(self, *arguments: str | Path, **options: Any) -> str:
        return self.run("kubectl", *arguments, **options).stdout

    def apply(self, *arguments: str, manifests: str, namespace: str) -> str:
        """Apply manifests. Fail if the API server refuses one or warns."""
        return self.kubectl(
            *("apply", "--namespace", namespace, "--warnings-as-errors", *arguments, "-f", "-"),
            stdin=manifests,
        )

    def helm(self, *arguments: str | Path, **options: Any) -> str:
        return self.run("helm", *arguments, **options).stdout


@contextmanager
def run_cluster(state: Path, kind: str) -> Iterator[Cluster]:
    """Start the API server (`api`) or nodes as well (`nodes`). Stop them at the end."""
    cluster = Cluster(state)
    try:
        cluster.call(kind)
        yield cluster
    finally:
        cluster.call("stop")


def load_image(cluster: Cluster, node: int, image: str, name: str) -> None:
    """Bring an image of the engine into a node under the name that manifests have."""
    subprocess.run([*DOCKER, "tag", image, name], check=True)
    with subprocess.Popen([*DOCKER, "save", name], stdout=subprocess.PIPE) as saved:
        cluster.call("load", str(node), stdin=saved.stdout)
    assert saved.returncode == 0, name
