"""Clients at a catalog that leads them to a prefix, with no gateway before it to know the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_domain.identity import TableName
from firnline_iceberg.catalogs import CatalogCommits, CatalogTables
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.connection.prefix import OtherPrefix, at_prefix
from firnline_iceberg.java.api import prefix_of, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.prefixed_catalog import prefixed_catalog

pytestmark = pytest.mark.stack
SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def reached(catalog_uri: str) -> Iterator[CatalogConnection]:
    backends = {"main": catalog_uri, "dev": catalog_uri}
    with prefixed_catalog(backends, {"": "main", "branch": "dev"}) as uri:
        yield CatalogConnection("lake", {"uri": uri})


def test_pyiceberg_at_another_prefix_does_nothing(
    reached: CatalogConnection, lake: RestCatalog, namespace: str
) -> None:
    uuid = str(lake.create_table(f"{namespace}.t", SCHEMA).metadata.table_uuid)
    tables = CatalogTables(reached)
    known = tables.load_named((namespace,), "t").identity
    assert (known.catalog_path, known.key) == ("lake/main", f"{uuid}@lake+main")
    assert tables.load(known).identity == known
    for prefix in ("", "dev", "main/x"):
        with pytest.raises(OtherPrefix, match="leads to the prefix main") as refused:
            tables.load(TableName(uuid, (namespace,), "t", "lake", prefix))
        assert refused.value.reason == "unknown_prefix"
    branch = reached.with_properties(warehouse="branch")
    assert CatalogTables(branch).load_named((namespace,), "t").identity.prefix == "dev"


def test_java_at_another_prefix_does_nothing(
    reached: CatalogConnection, iceberg_jar: Path, lake: RestCatalog, namespace: str
) -> None:
    uuid = str(lake.create_table(f"{namespace}.t", SCHEMA).metadata.table_uuid)
    with IcebergJvm(iceberg_jar) as iceberg:
        assert prefix_of(rest_catalog(iceberg.jvm, reached)) == "main"
        assert prefix_of(rest_catalog(iceberg.jvm, at_prefix(reached, "main"))) == "main"
        with pytest.raises(OtherPrefix, match="leads to the prefix main"):
            rest_catalog(iceberg.jvm, at_prefix(reached, "dev"))
        table = TableName(uuid, (namespace,), "t", "lake", "dev")
        with pytest.raises(OtherPrefix):
            CatalogCommits(iceberg, reached).for_table(table).undo(table, "main", 1, 2)
