"""Tables, catalogs and committers of the commit tests, on real Iceberg metadata and Parquet."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import open_catalog
from firnline_committer.handlers import CommitterHandlers
from firnline_domain.identity import TableName
from firnline_gateway.bootstrap import run_gateways as gateway_running
from firnline_gateway.settings import GatewaySettings
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.processes.ports import free_port
from firnline_standalone.bootstrap import keep_apart
from py4j import java_gateway, protocol
from pyspark.errors.exceptions.captured import capture_sql_exception

from tests.kit.lake.scenario import CommitScenario
from tests.kit.lake.table import create_table
from tests.kit.run_committer import RunCommitter
from tests.meddling import Meddler


@pytest.fixture
def gateway(meddler: Meddler, tmp_path: Path) -> Iterator[str]:
    """URI of a gateway of this process, between writers and the meddler."""
    port, loop = free_port(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    state = str(tmp_path / "gateway")
    settings = GatewaySettings(
        upstream_uri=meddler.uri,
        kafka="-",
        listen_address=ListenAddress("127.0.0.1", port),
        state_dir=state,
        commit_wait_s=60.0,
    )
    up = gateway_running(settings, MemoryPublisher(MemoryBroker()), Log("gateway"))
    asyncio.run_coroutine_threadsafe(up.__aenter__(), loop).result(30)
    yield f"http://127.0.0.1:{port}"
    asyncio.run_coroutine_threadsafe(up.__aexit__(None, None, None), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="session")
def iceberg(iceberg_jar: Path) -> Iterator[IcebergJvm]:
    with IcebergJvm(iceberg_jar) as running:
        yield running


@pytest.fixture(scope="session")
def java_catalog(iceberg: IcebergJvm, catalog_uri: str) -> Any:
    return rest_catalog(iceberg.jvm, catalog_uri)


Make = Callable[..., CommitScenario]


@pytest.fixture
def make_table(iceberg: IcebergJvm, java_catalog: Any, catalog_uri: str, namespace: str) -> Make:
    """Makes an empty v2 table, `partitioned` by identity(p) or not."""

    def make(partitioned: bool = False, **properties: str) -> CommitScenario:
        jvm = iceberg.jvm
        name = TableName("", (namespace,), f"t{uuid.uuid4().hex[:8]}")
        table = create_table(jvm, java_catalog, name, partitioned, **properties)
        return CommitScenario(jvm, java_catalog, Tables(catalog_uri), table, partitioned)

    return make


@pytest.fixture
def table(make_table: Make) -> CommitScenario:
    """An unpartitioned v2 table."""
    return make_table()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `way`. `firnline run` in every module takes as long again: the short run has it
    in that of the hazards."""
    if "way" not in metafunc.fixturenames:
        return
    only = metafunc.definition.get_closest_marker("way")
    ways = only.args if only else ("service", "run")
    long = () if "hazards" in metafunc.module.__name__ else (pytest.mark.long,)
    marks = {"service": (), "run": (pytest.mark.spark, *long)}
    metafunc.parametrize(
        "way", [pytest.param(way, marks=marks[way]) for way in ways], indirect=True
    )


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    """Who commits: the service's handlers alone, or `firnline run`, in a process with Spark's JVM
    and topics in memory."""
    return str(request.param)


@pytest.fixture
def as_run(
    way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[IcebergJvm, CommitterHandlers], Any]:
    """What stands for the handlers: they themselves, or an engine around them."""
    if way == "service":
        return lambda iceberg, handlers: handlers
    request.getfixturevalue("spark")
    sparks = capture_sql_exception(protocol.get_return_value)  # as a session of Spark leaves it
    monkeypatch.setattr(java_gateway, "get_return_value", sparks)

    def run(iceberg: IcebergJvm, handlers: CommitterHandlers) -> Any:
        keep_apart(iceberg)
        return RunCommitter(handlers)

    return run


@pytest.fixture
def committer_of(as_run: Callable[..., Any]) -> Callable[..., Any]:
    def made(iceberg: IcebergJvm, uri: str, **how: Any) -> Any:
        return as_run(iceberg, committer_at(iceberg, uri, **how))

    return made


def committer_at(
    iceberg: IcebergJvm,
    uri: str,
    patience_s: int = 60,
    sleep: Callable[[float], object] = lambda _: None,
) -> CommitterHandlers:
    """The committer's handlers over a catalog URI."""
    lake, log = open_catalog(uri), Log("test")
    java = JavaCommits(iceberg, uri, patience_s=patience_s)
    return CommitterHandlers(Committer(lake, java, log, lambda: 5, sleep), lake.tables, lambda: 5)


@pytest.fixture
def committer(iceberg: IcebergJvm, catalog_uri: str, committer_of: Callable[..., Any]) -> Any:
    return committer_of(iceberg, catalog_uri)


@pytest.fixture
def meddled(iceberg: IcebergJvm, meddler: Meddler, committer_of: Callable[..., Any]) -> Any:
    """A committer whose catalog is the meddler."""
    return committer_of(iceberg, meddler.uri)
