"""What starts the services gives each of them every setting it needs: the embedded stack and
docker-compose.yml. (The containers themselves need an engine; compose is only read here.)"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from firnline_adapters.config.settings import all_settings, from_environment
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

ROOT = Path(__file__).parents[2]
IMAGE_CACHE = "/opt/firnline/artifacts"  # below XDG_CACHE_HOME of infra/docker/Dockerfile
ONE_SHOT = {"topics", "warehouse"}
IN_COMPOSE = tuple(one for one in parts_with(CAPTURE) if one in SERVICES)


def settings_of(service: str) -> type[Any]:
    module = importlib.import_module(f"firnline_{service}.settings")
    settings: type[Any] = getattr(module, f"{service.capitalize()}Settings")
    return settings


@cache
def compose() -> dict[str, Any]:
    """The services of docker-compose.yml with ${NAME:-default} filled by the defaults."""
    text = (ROOT / "docker-compose.yml").read_text()
    content = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    services: dict[str, Any] = content["services"]
    return services


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
    settings = from_environment(settings_of(service), compose()[service]["environment"])
    assert settings.kafka == "kafka:9092"
    assert compose()[service]["command"] == [f"firnline_{service}"]


def test_compose_gives_no_variable_that_nobody_reads() -> None:
    known = {one.variable for one in all_settings()}
    given: set[str] = set()
    for service in IN_COMPOSE:
        environment: Mapping[str, str] = compose()[service]["environment"]
        given |= environment.keys()
    assert given <= known


def test_compose_has_every_part_and_nothing_else() -> None:
    assert set(compose()) == {*parts_with(CAPTURE), *ONE_SHOT}


def test_compose_publishes_on_loopback_only() -> None:
    published = [port for service in compose().values() for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_compose_runs_the_versions_that_the_locks_pin() -> None:
    assert compose()["kafka"]["image"] == f"apache/kafka:{version_in('kafka', 'kafka_2.13')}"
    iceberg = version_in("catalog", "iceberg-core")
    assert compose()["catalog"]["image"] == f"apache/iceberg-rest-fixture:{iceberg}"


def test_compose_names_the_jar_that_the_image_holds() -> None:
    assert "XDG_CACHE_HOME=/opt " in (ROOT / "infra/docker/Dockerfile").read_text()
    (pin,) = read_pins("iceberg")
    assert compose()["worker"]["environment"]["FIRNLINE_ICEBERG_JAR"] == f"{IMAGE_CACHE}/{pin.path}"
