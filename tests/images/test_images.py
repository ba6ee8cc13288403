"""The three images as a platform runs them: any user, a read-only root, no network."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
DOCKER = shlex.split(os.environ.get("DOCKER", "docker"))
MB = 1_000_000
PUBLIC_BASE = 125 * MB  # of python:3.11-slim-bookworm, where the base here is a stand-in
LIMITS = {"edge": 300 * MB, "enricher": 500 * MB, "jvm": 1_100 * MB}
SERVICES = {
    "gateway": "edge",
    "planner": "edge",
    "console": "edge",
    "enricher": "enricher",
    "listener": "enricher",
    "committer": "jvm",
    "worker": "jvm",
}
HARDENED = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges")
ANY_USER = ("--user", "54321:0", "--tmpfs", "/state", "--tmpfs", "/tmp", "--network", "none")


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DOCKER, *arguments], check=check, capture_output=True, text=True)


def run(image: str, *arguments: str, entrypoint: str = "python") -> str:
    name = f"firnline-{image}:local"
    options = ("run", "--rm", *HARDENED, *ANY_USER, "--entrypoint", entrypoint, name)
    done = docker(*options, *arguments, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@cache
def image(name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(docker("image", "inspect", name).stdout)
    return found[0]


@pytest.mark.parametrize("name", LIMITS)
def test_an_image_is_as_small_as_promised(name: str) -> None:
    base = os.environ.get("BASE_IMAGE", "python:3.11-slim-bookworm")
    ours = image(f"firnline-{name}:local")["Size"] - image(base)["Size"]
    assert ours + PUBLIC_BASE <= LIMITS[name], f"{ours / MB:.0f} MB on its base"


@pytest.mark.parametrize("name", LIMITS)
def test_an_image_has_the_packages_of_its_lock_and_ours(name: str) -> None:
    code = (
        "from importlib.metadata import distributions as all; print(*{one.name for one in all()})"
    )
    lines = (ROOT / f"infra/docker/{name}.lock").read_text().splitlines()
    wanted = {line.partition("==")[0] for line in lines if "==" in line}
    found = {
        one.lower().replace("_", "-").replace(".", "-") for one in run(name, "-c", code).split()
    }
    assert found == {*wanted, "firnline"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_what_it_imports(service: str) -> None:
    code = f"import firnline_{service}.bootstrap, firnline_{service}.__main__"
    run(SERVICES[service], "-c", code)


def test_the_edge_has_neither_java_nor_arrow() -> None:
    code = "import importlib.util as i, shutil; print(i.find_spec('pyarrow'), shutil.which('java'))"
    assert run("edge", "-c", code).split() == ["None", "None"]


def test_nothing_is_compiled_at_a_start() -> None:
    """A root that is read-only keeps no compiled module: each start would compile all again."""
    code = (
        "import sys, firnline_planner.bootstrap; from pathlib import Path; print(*(one.__name__ "
        "for one in list(sys.modules.values()) if (getattr(one, '__file__', '') or '').startswith("
        "'/opt/firnline') and one.__file__.endswith('.py') and not Path(one.__cached__).exists()))"
    )
    assert run("edge", "-c", code).split() == []


def test_spark_and_iceberg_start_for_a_user_without_an_entry() -> None:
    code = (
        "from firnline_iceberg.java.jvm import require_user; require_user();"
        "from pyspark.sql import SparkSession; import os;"
        "s = SparkSession.builder.master('local[1]').config('spark.driver.extraClassPath',"
        "os.environ['FIRNLINE_ICEBERG_JAR']).config('spark.local.dir', '/tmp')"
        ".config('spark.driver.bindAddress', '127.0.0.1').config('spark.driver.host', '127.0.0.1')"
        ".config('spark.ui.enabled', 'false').getOrCreate();"
        "print(s.range(7).count(), s._jvm.org.apache.iceberg.IcebergBuild.version(),"
        "s._jvm.software.amazon.awssdk.regions.Region.US_EAST_1.id(),"
        "'SparkSubmit.jsa' in open(f'/proc/{s.sparkContext._gateway.proc.pid}/maps').read())"
    )
    assert run("jvm", "-c", code).split() == ["7", "1.12.0", "us-east-1", "True"]


def test_the_jvm_of_a_commit_starts_from_its_archive() -> None:
    code = (
        "import os; from firnline_iceberg.java.jvm import IcebergJvm;"
        "one = IcebergJvm(os.environ['FIRNLINE_ICEBERG_JAR']);"
        "print('GatewayServer.jsa' in open(f'/proc/{one.pid}/maps').read()); one.close()"
    )
    assert run("jvm", "-c", code).split() == ["True"]


SERVE = """
import http.server, subprocess, threading
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({status} if self.path == "/readyz" else 404)
        self.end_headers()
    log_message = lambda *_: None
if {status}:
    server = http.server.HTTPServer(("127.0.0.1", 9100), Ready)
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(subprocess.run({check}, stderr=subprocess.DEVNULL).returncode)
"""


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (None, False)])
def test_the_health_check_asks_readiness(status: int | None, healthy: bool) -> None:
    found = image("firnline-edge:local")
    check = (found.get("Healthcheck") or found["Config"]["Healthcheck"])["Test"]  # podman, Docker
    assert check[:2] == ["CMD", "bash"]
    code = SERVE.format(status=status, check=check[1:])
    assert (run("edge", "-c", code).strip() == "0") == healthy


def test_labels_say_what_it_is() -> None:
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()
    for name in LIMITS:
        labels = image(f"firnline-{name}:local")["Config"]["Labels"]
        assert labels["org.opencontainers.image.title"] == f"firnline-{name}"
        assert labels["org.opencontainers.image.revision"] == revision


def test_the_sbom_names_packages_of_every_kind() -> None:
    program = (ROOT / "infra/docker/sbom.py").read_text()
    bom = json.loads(run("jvm", "-c", program))
    versions = {one["name"]: one["version"] for one in bom["components"]}
    lines = (ROOT / "infra/docker/jvm.lock").read_text().splitlines()
    locked = dict(line.split()[0].split("==") for line in lines if "==" in line)
    assert {name: versions.get(name) for name in locked} == locked
    assert {"openjdk-17-jre-headless", "iceberg-aws-bundle", "hadoop-client-api"} <= versions.keys()
