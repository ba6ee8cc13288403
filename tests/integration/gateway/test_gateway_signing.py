"""Clients with a token, a gateway that signs, and a catalog that checks each signature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_domain.errors import CatalogRefused
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.gateway_thread import GatewayThread, gateway_before
from tests.kit.lake_catalog import SIGV4_KEYS, LakeCatalog, Rules, lake_front

pytestmark = pytest.mark.stack

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
FLINK, FIRNLINE = "cAnAry-flink-0123456789abcdef", "cAnAry-firnline-0123456789abcdef"
GATEWAYS_OWN = {
    "firnline.upstream.rest.sigv4-enabled": "true",
    "firnline.upstream.rest.signing-name": "glue",
    "firnline.upstream.rest.signing-region": "eu-west-1",
    "firnline.upstream.rest.access-key-id": SIGV4_KEYS.access,
    "firnline.upstream.rest.secret-access-key": SIGV4_KEYS.secret,
    "firnline.callers": f"flink {FLINK}\nfirnline {FIRNLINE}",
}


@pytest.fixture
def glue(catalog_uri: str) -> Iterator[LakeCatalog]:
    """A catalog that takes signatures alone."""
    with lake_front(catalog_uri, Rules(auth="sigv4")) as server:
        yield server


@pytest.fixture
def gateway(glue: LakeCatalog, tmp_path: Path) -> Iterator[GatewayThread]:
    with gateway_before({"glue": glue.uri}, tmp_path, GATEWAYS_OWN) as served:
        yield served


def test_writers_and_services_go_through(
    gateway: GatewayThread, glue: LakeCatalog, namespace: str, iceberg_jar: Path
) -> None:
    """The name has a blank and letters beyond ASCII, for a signature is of the path as well."""
    writer = RestCatalog("glue", uri=f"{gateway.uri}/glue", token=FLINK)
    made = writer.create_table(f"{namespace}.größe 1+1", ROWS.schema)
    made.append(ROWS)
    created, appended = gateway.events(2)
    assert (created.principal, appended.principal) == ("flink", "flink")

    services = CatalogConnection(
        "glue", {"uri": f"{gateway.uri}/glue", "header.Authorization": f"Bearer {FIRNLINE}"}
    )
    assert Tables(services).load(appended.table).format_version == 2
    with IcebergJvm(iceberg_jar) as machine:
        java = load_table(machine.jvm, rest_catalog(machine.jvm, services), appended.table)
        java.updateProperties().set("a", "b").commit()
    assert gateway.events(3)[2].principal == "firnline"
    assert made.refresh().properties["a"] == "b"
    assert made.scan().to_arrow().num_rows == 3

    told = "".join(f"{path} {headers}" for _, path, headers in glue.seen)
    assert "cAnAry-flink" not in told
    assert "cAnAry-firnline" not in told
    assert not glue.refused


def test_who_has_no_token_is_told_what_to_send(gateway: GatewayThread, glue: LakeCatalog) -> None:
    nobody = CatalogConnection("glue", {"uri": f"{gateway.uri}/glue"})
    with pytest.raises(CatalogRefused, match="does not take who we are"):
        Tables(nobody).load_named(("db",), "t")
    signs = CatalogConnection(
        "glue",
        {
            "uri": f"{gateway.uri}/glue",
            "rest.sigv4-enabled": "true",
            "rest.access-key-id": SIGV4_KEYS.access,
            "rest.secret-access-key": SIGV4_KEYS.secret,
        },
    )
    with pytest.raises(CatalogRefused, match="does not take who we are"):
        Tables(signs).load_named(("db",), "t")
    assert {path for _, path, _ in glue.seen} <= {"/v1/config"}  # the gateway's own question
