"""A role that is assumed: our own key opens nothing but STS, whose keys open the bucket and end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.servers.artifacts import aws_bundle

from tests.kit.identity_server import IdentityServer, Rules, identity_server
from tests.kit.lake.table import Table
from tests.kit.lake_catalog import LakeCatalog, lake_catalog
from tests.kit.lake_catalog import Rules as CatalogRules
from tests.kit.lake_pair import Pair, pair
from tests.kit.s3_server import S3Server

pytestmark = [pytest.mark.stack, pytest.mark.long]
ROLE = "arn:aws:iam::000000000000:role/maintenance"
OURS = "AKFIRNLINE"  # which the store does not know


@pytest.fixture(scope="module")
def sts(store: S3Server) -> Iterator[IdentityServer]:
    """And the environment of an instance that may assume the role."""
    with (
        identity_server(store, Rules(keys_s=900.0)) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AWS_ENDPOINT_URL_STS", server.uri)
        patch.setenv("AWS_ACCESS_KEY_ID", OURS)
        patch.setenv("AWS_SECRET_ACCESS_KEY", "cAnAry-of-the-instance")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield server


@pytest.fixture(scope="module")
def server(servers: Path, store: S3Server) -> Iterator[LakeCatalog]:
    """It hands out no keys."""
    with lake_catalog(servers / "of-a-role", CatalogRules(auth="none"), store) as found:
        yield found


@pytest.fixture(scope="module")
def jvm(sts: IdentityServer, iceberg_jar: Path) -> Iterator[IcebergJvm]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_DIST_CLASSPATH", str(aws_bundle()))
        running = IcebergJvm(iceberg_jar)
    with running:
        yield running


@pytest.fixture
def lake(server: LakeCatalog, store: S3Server, jvm: IcebergJvm, tmp_path: Path) -> Pair:
    return pair(jvm, tmp_path, server.connection(**store.properties, **{"s3.role-arn": ROLE}))


@pytest.fixture
def table(lake: Pair) -> Table:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    lake.namespace(namespace)
    made = lake.table(namespace)
    made.fill(4)
    made.upsert((1, 10), (2, 20))
    return made


def test_a_rewrite_is_committed_by_python_and_java(
    lake: Pair, table: Table, sts: IdentityServer
) -> None:
    rows = table.rows()
    (event,) = lake.commit(lake.rewrite(table.order()))
    assert type(event).__name__ == "RewriteCommitted"
    assert table.rows() == rows == [(0, 0), (1, 10), (2, 20), (3, 3)]
    assert set(sts.rules.assumed) == {(OURS, ROLE)}


@pytest.fixture
def short(sts: IdentityServer) -> Iterator[float]:
    """Sessions of eight seconds, where those of AWS last fifteen minutes at the least."""
    sts.rules.keys_s = 8.0
    yield 12.0  # whatever was handed out before has ended then, and the store knows it no more
    sts.rules.keys_s = 900.0


def test_a_session_that_ends_is_followed_by_another(
    short: float, lake: Pair, table: Table, sts: IdentityServer
) -> None:
    rows, before = table.rows(), len(sts.rules.assumed)
    time.sleep(short)
    result = lake.rewrite(table.order())
    after_rewrite = len(sts.rules.assumed)
    assert after_rewrite > before
    time.sleep(short)
    (event,) = lake.commit(result)
    assert type(event).__name__ == "RewriteCommitted"
    assert len(sts.rules.assumed) > after_rewrite
    assert table.rows() == rows
