"""Branches of a Nessie repository have each table with one uuid, name and location. Here `dev` is
counted as `dev`, and who is to open it there does."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_domain.identity import TableName, bucket_of
from firnline_iceberg.catalogs import CatalogTables
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.connection.prefix import at_prefix
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.kit.gateway_thread import GatewayThread, gateway_before
from tests.kit.nessie import Nessie

pytestmark = [pytest.mark.stack, pytest.mark.long]
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def gateway(nessie: Nessie, tmp_path: Path) -> Iterator[GatewayThread]:
    with gateway_before({"lake": nessie.uri}, tmp_path) as served:
        yield served


@pytest.fixture
def reached(nessie: Nessie, gateway: GatewayThread) -> CatalogConnection:
    return nessie.connection.at_uri(f"{gateway.uri}/lake")


def client(reached: CatalogConnection, branch: str = "") -> RestCatalog:
    uri = f"{reached.uri}/{branch}".rstrip("/")
    return RestCatalog(branch or "main", **{**reached.pyiceberg_properties(), "uri": uri})


def head(table: Table) -> int:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def test_a_branch_is_counted_and_opened_as_itself(
    nessie: Nessie, gateway: GatewayThread, reached: CatalogConnection, lake_jvm: IcebergJvm
) -> None:
    namespace, branch = f"n{uuid.uuid4().hex[:8]}", f"dev-{uuid.uuid4().hex[:8]}"
    on_main = client(reached)
    on_main.create_namespace(namespace)
    table = on_main.create_table(f"{namespace}.t", ROWS.schema)
    table.append(ROWS)
    nessie.branch(branch)
    other = client(reached, branch).load_table(f"{namespace}.t")
    other.append(ROWS)
    table.append(ROWS)
    events = gateway.events(4)
    by_prefix: dict[str, TableName] = {one.table.prefix: one.table for one in events}
    assert set(by_prefix) == {"main", branch}
    assert len({one.table.uuid for one in events}) == 1
    assert len({one.event_id for one in events}) == 4
    main, dev = by_prefix["main"], by_prefix[branch]
    assert (main.key, dev.key) == (f"{main.uuid}@lake+main", f"{main.uuid}@lake+{branch}")
    assert bucket_of(main.key, 10**6) != bucket_of(dev.key, 10**6)

    tables = CatalogTables(reached)
    java = {one: rest_catalog(lake_jvm.jvm, at_prefix(reached, one)) for one in by_prefix}
    for name, written in ((main, table), (dev, other)):
        snapshot = head(written)
        assert tables.load(name).head_id("main") == snapshot
        assert tables.load(name).identity == name
        loaded = load_table(lake_jvm.jvm, java[name.prefix], name)
        assert loaded.currentSnapshot().snapshotId() == snapshot
    assert head(table) != head(other)


def test_nessie_lets_a_client_have_the_prefix_that_it_asks_for(
    nessie: Nessie, reached: CatalogConnection
) -> None:
    """Without a gateway, too: it says a prefix as a default. `test_prefixes` has one that does
    not."""
    namespace, branch = f"n{uuid.uuid4().hex[:8]}", f"dev-{uuid.uuid4().hex[:8]}"
    client(reached).create_namespace(namespace)
    made = client(reached).create_table(f"{namespace}.t", ROWS.schema)
    made.append(ROWS)
    nessie.branch(branch)
    made.append(ROWS)
    direct = CatalogTables(nessie.connection)
    main = direct.load_named((namespace,), "t").identity
    assert main.catalog_path == "lake/main"
    assert main == CatalogTables(reached).load_named((namespace,), "t").identity
    dev = TableName(main.uuid, main.namespace, main.name, main.catalog, branch)
    heads = {direct.load(one).head_id("main") for one in (main, dev)}
    assert len(heads) == 2
    assert head(made) in heads
