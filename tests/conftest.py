"""Real servers for tests, one of each per session.

An address from the environment wins (FIRNLINE_TEST_KAFKA, FIRNLINE_TEST_REDIS,
FIRNLINE_TEST_CATALOG), else a container if FIRNLINE_TEST_CONTAINERS asks for it, else the embedded
server.
Tests cannot tell which. Ask for `namespace` (fresh per test) and for topics of your own name:
the servers are shared by the whole session.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from firnline_local.processes.command import Command
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import artifacts, catalog, kafka, redis
from firnline_local.topics.topics import DEFAULT_BUCKETS, make_topics
from py4j import java_gateway, protocol

from tests.kit import containers
from tests.kit.spark_session import spark_builder
from tests.meddling import Meddler

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog
    from pyspark.sql import SparkSession

# No test's JVM lives long enough to earn back what the second compiler takes, a third of the CPU.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# Of `make test`: its JVMs start from archives of their classes.
if (archives := Path(sys.prefix, "java")).exists():
    os.environ.setdefault("JAVA_HOME", str(archives))

# A fleet's key for all that tests start and send.
os.environ.setdefault("FIRNLINE_SIGNING_KEYS", f"tests:{'5e' * 32}")

containers_wanted = lru_cache(maxsize=1)(containers.containers_wanted)


@pytest.fixture(autouse=True)
def java_errors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark session in this process makes py4j look every Java error up in Spark's JVM, those of
    the small JVM too, where the same number is another object."""
    if "spark" not in request.fixturenames and not request.node.get_closest_marker("spark"):
        monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)


@contextmanager
def server(
    variable: str, container: Callable[[], containers.Container], embedded: Command, address: str
) -> Iterator[str]:
    if given := os.environ.get(variable):
        yield given
    elif containers_wanted():
        with containers.serving(container()) as inside:
            yield inside
    else:
        with run_process(embedded, embedded.cwd.with_suffix(".log")):
            yield address


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that holds every server's state."""
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def kafka_address(servers: Path) -> Iterator[str]:
    port = free_port()
    embedded = kafka.command(servers / "kafka", port, free_port(frozenset({port})))
    address = kafka.bootstrap_servers(port)
    with server("FIRNLINE_TEST_KAFKA", containers.kafka_container, embedded, address) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session", name="kafka")
def kafka_fixture(kafka_address: str) -> str:
    """Bootstrap address of a broker that has all of our topics, with 8 buckets."""
    make_topics(kafka_address, DEFAULT_BUCKETS)
    return kafka_address


@pytest.fixture(scope="session")
def redis_url(servers: Path) -> Iterator[str]:
    """URL of a Redis; take keys of your own prefix."""
    port = free_port()
    embedded = redis.command(servers / "redis", port)
    with server(
        "FIRNLINE_TEST_REDIS", containers.redis_container, embedded, redis.url(port)
    ) as url:
        yield url


@pytest.fixture(scope="session")
def catalog_uri(servers: Path) -> Iterator[str]:
    """URI of an Iceberg REST catalog over a local warehouse."""
    port = free_port()
    embedded = catalog.command(servers / "catalog", port)
    shared = servers / "container-warehouse"
    shared.mkdir()
    with server(
        "FIRNLINE_TEST_CATALOG",
        lambda: containers.catalog_container(shared),
        embedded,
        catalog.uri(port),
    ) as uri:
        yield uri


@pytest.fixture
def meddler(catalog_uri: str) -> Iterator[Meddler]:
    """The catalog, by way of somebody who may fail, and lets others in first."""
    with Meddler(catalog_uri) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def lake(catalog_uri: str) -> RestCatalog:
    """The catalog as a PyIceberg client."""
    from pyiceberg.catalog.rest import RestCatalog

    return RestCatalog("lake", uri=catalog_uri)


@pytest.fixture
def namespace(lake: RestCatalog) -> str:
    """A namespace of this test alone, created."""
    name = f"t{uuid.uuid4().hex[:10]}"
    lake.create_namespace(name)
    return name


@pytest.fixture(scope="session")
def iceberg_jar() -> Path:
    """The Iceberg runtime; also left in FIRNLINE_ICEBERG_JAR for code that reads settings."""
    jar = artifacts.iceberg_jar()
    os.environ["FIRNLINE_ICEBERG_JAR"] = str(jar)
    return jar


@pytest.fixture(scope="session")
def spark(catalog_uri: str, iceberg_jar: Path, servers: Path) -> Iterator[SparkSession]:
    """A local[2] session whose catalog `lake` is the one of `catalog_uri`."""
    session = spark_builder(catalog_uri, iceberg_jar, servers).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
