"""Real catalogs on a real object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers.artifacts import aws_bundle

from tests.kit.lake_pair import Pair, pair
from tests.kit.nessie import Nessie
from tests.kit.s3_server import Calls, S3Server, s3_server


@pytest.fixture(scope="session")
def store(servers: Path) -> Iterator[S3Server]:
    with s3_server(servers / "store") as server:
        yield server


@pytest.fixture(scope="module")
def calls(servers: Path, request: pytest.FixtureRequest) -> Calls:
    """Of `counted`."""
    return Calls(servers / f"{request.module.__name__}.log")


@pytest.fixture(scope="module")
def counted(servers: Path, request: pytest.FixtureRequest, calls: Calls) -> Iterator[S3Server]:
    """A server of this module's own that writes down what it is asked."""
    more = ("--access-log", str(calls.log))
    with s3_server(servers / request.module.__name__, more=more) as server:
        yield server


@pytest.fixture(scope="session")
def nessie(servers: Path, store: S3Server) -> Iterator[Nessie]:
    port = free_port()
    server = Nessie(port, free_port(frozenset({port})), store)
    with run_process(server.command(servers / "nessie"), servers / "nessie.log"):
        yield server


@pytest.fixture(scope="session")
def lake_jvm(iceberg_jar: Path) -> Iterator[IcebergJvm]:
    """A JVM that knows S3."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_DIST_CLASSPATH", str(aws_bundle()))
        running = IcebergJvm(iceberg_jar)
    with running:
        yield running


@pytest.fixture
def lake(nessie: Nessie, lake_jvm: IcebergJvm, tmp_path: Path) -> Pair:
    return pair(lake_jvm, tmp_path, nessie.connection)
