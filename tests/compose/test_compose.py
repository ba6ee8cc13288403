"""docker-compose.yml as a user runs it: up, three writers whose rows are verified while services
are killed, down and up again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
COMPOSE = shlex.split(os.environ.get("COMPOSE", "docker compose"))
CONSOLE = "http://127.0.0.1:8080"
PROMETHEUS = "http://127.0.0.1:9090"
READY_S = 40.0  # on a machine that does nothing else
PATIENCE = float(os.environ.get("PATIENCE", "2"))  # times as long on a busy one
KILLED = ("worker", "planner", "kafka", "committer")


def compose(
    *arguments: str, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Compose with these variables besides those of `.env`."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [*COMPOSE, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=500,
    )
    assert not check or done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done


def up() -> float:
    """Start everything; the seconds until all of it was healthy."""
    start = time.monotonic()
    # Without a second look: an engine that says another id of its network would make all anew.
    compose("up", "--detach", "--wait", "--no-build", "--no-recreate")
    return time.monotonic() - start


def containers() -> dict[str, dict[str, Any]]:
    """Service -> what the engine says of its container."""
    import docker

    client = docker.from_env()
    found = client.containers.list(
        all=True, filters={"label": "com.docker.compose.project=firnline"}
    )
    return {one.labels["com.docker.compose.service"]: one.attrs for one in found}


def kill(service: str) -> None:
    """As the kernel does: an engine's own kill would be a wish that it stays away."""
    os.kill(containers()[service]["State"]["Pid"], signal.SIGKILL)


def api(path: str, address: str = CONSOLE) -> Any:
    with urllib.request.urlopen(f"{address}{path}", timeout=10) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def ready_s() -> Iterator[float]:
    compose("down", "--volumes", "--timeout", "5", check=False)
    try:
        yield up()
    finally:
        (ROOT / ".firnline").mkdir(exist_ok=True)
        logs = compose("logs", "--no-color", check=False).stdout
        (ROOT / ".firnline" / "compose.log").write_text(logs)
        compose("--profile", "*", "down", "--volumes", "--timeout", "5", check=False)


def test_everything_is_ready_soon(ready_s: float) -> None:
    print(f"ready in {ready_s:.1f} s")
    assert ready_s <= READY_S * PATIENCE
    said = {
        name: one["State"].get("Health", {}).get("Status") for name, one in containers().items()
    }
    assert said.pop("topics") in (None, "", "none")
    assert set(said.values()) == {"healthy"}, said


def test_rows_are_verified_while_services_are_killed(ready_s: float) -> None:
    lives = {name: one["State"]["Pid"] for name, one in containers().items()}
    told: list[subprocess.CompletedProcess[str]] = []
    thread = threading.Thread(
        target=lambda: told.append(
            compose("run", "--rm", "--no-deps", "--env", "COLUMNS=120", "demo", check=False)
        )
    )
    thread.start()
    time.sleep(25)
    for service in KILLED:
        kill(service)
        time.sleep(3)
    thread.join()
    (done,) = told
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "rows verified" in done.stdout
    now = {name: one["State"] for name, one in containers().items()}
    for service in KILLED:
        assert now[service]["Status"] == "running"
        assert now[service]["Pid"] != lives[service]


def test_every_container_comes_back_after_a_kill(ready_s: float) -> None:
    lives = {name: one["State"]["Pid"] for name, one in containers().items() if name != "topics"}
    for service in lives:
        kill(service)
    deadline = time.monotonic() + 60 * PATIENCE
    while waited := [
        name
        for name, one in containers().items()
        if name != "topics"
        and (one["State"]["Health"]["Status"], one["State"]["Pid"] != lives[name])
        != ("healthy", True)
    ]:
        assert time.monotonic() < deadline, waited
        time.sleep(1)


def test_the_fleet_knows_its_tables_after_down_and_up(ready_s: float) -> None:
    import pyarrow as pa
    from pyiceberg.catalog.rest import RestCatalog

    catalog = RestCatalog(
        "lake",
        uri="http://127.0.0.1:8181",
        **{
            "s3.endpoint": "http://127.0.0.1:7070",
            "s3.access-key-id": "key-on-loopback",
            "s3.secret-access-key": "firnline-on-loopback",
            "s3.region": "us-east-1",
        },
    )
    catalog.create_namespace_if_not_exists("shop")
    rows = pa.table({"id": list(range(10))})
    table = catalog.create_table("shop.orders", rows.schema)
    for _ in range(12):
        table.append(rows)
    wait_for_files("shop.orders", catalog, 3)
    compose("down", "--timeout", "30")
    up()
    deadline = time.monotonic() + 60
    while not api("/api/tables")["total"] and time.monotonic() < deadline:
        time.sleep(1)
    assert api("/api/tables")["total"] >= 1
    assert catalog.load_table("shop.orders").scan().to_arrow().num_rows == 120


def wait_for_files(name: str, catalog: Any, at_most: int) -> None:
    deadline = time.monotonic() + 90
    while (found := len(list(catalog.load_table(name).scan().plan_files()))) > at_most:
        assert time.monotonic() < deadline, f"{found} files"
        time.sleep(1)


def test_the_profiles_do_what_the_page_says(ready_s: float) -> None:
    """All but Grafana, whose image no package registry has."""
    given = {
        "FIRNLINE_CATALOG_DATABASE": "jdbc:postgresql://postgres/catalog",
        "FIRNLINE_WORKER_LANES": "ordinary",
        "FIRNLINE_DEMO_SECONDS": "20",
    }
    profiles = ("--profile", "postgres", "--profile", "heavy")
    compose(*profiles, "up", "--detach", "--wait", "--no-build", **given)
    compose("up", "--detach", "--no-build", "--no-recreate", "--no-deps", "prometheus", **given)
    done = compose("run", "--rm", "--no-deps", "demo", **given)
    assert "rows verified" in done.stdout
    # The demo drops its tables in the end.
    tables = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'iceberg_tables'"
    told = compose(
        *("exec", "--no-TTY", "postgres", "psql", "-U", "firnline", "-d", "catalog"),
        *("--tuples-only", "--command", tables),
        **given,
    )
    assert int(told.stdout) > 0
    for worker, lanes in (("worker", "ordinary"), ("worker-heavy", "heavy")):
        assert f"lanes={lanes}" in compose("logs", "--no-color", worker, **given).stdout
    deadline = time.monotonic() + 60
    while unwell := [one for one in read_targets() if one["health"] != "up"]:
        assert time.monotonic() < deadline, unwell
        time.sleep(1)
    assert len(read_targets()) == 7  # the six services, and the second worker
    assert api("/api/v1/rules", PROMETHEUS)["data"]["groups"]


def read_targets() -> list[dict[str, Any]]:
    return list(api("/api/v1/targets", PROMETHEUS)["data"]["activeTargets"])
