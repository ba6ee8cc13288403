"""Who we are, said to a catalog that asks: by PyIceberg, by Java, by the gateway's own reads."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from firnline_domain.errors import CatalogRefused
from firnline_domain.identity import TableName
from firnline_gateway.proxy.upstream import Upstream
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java import errors as java_errors
from firnline_iceberg.java.api import load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.servers.artifacts import aws_bundle
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.lake_catalog import SIGV4_KEYS, LakeCatalog, Rules, lake_front

ROWS = Schema(NestedField(1, "id", LongType()))
Front = Callable[..., LakeCatalog]


@pytest.fixture
def table(lake: RestCatalog, namespace: str) -> TableName:
    """Made by somebody who is asked for nothing."""
    made = lake.create_table(f"{namespace}.t", ROWS)
    return TableName(str(made.metadata.table_uuid), (namespace,), "t")


@pytest.fixture
def front(catalog_uri: str) -> Iterator[Front]:
    """The catalog, by way of a server with these rules."""
    with ExitStack() as stack:

        def made(tls: ssl.SSLContext | None = None, **rules: Any) -> LakeCatalog:
            return stack.enter_context(lake_front(catalog_uri, Rules(**rules), tls=tls))

        yield made


@pytest.fixture(scope="module")
def machine(iceberg_jar: Path) -> Iterator[IcebergJvm]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_DIST_CLASSPATH", str(aws_bundle()))  # it signs
        with IcebergJvm(iceberg_jar) as running:
            yield running


SIGV4 = {
    "rest.sigv4-enabled": "true",
    "rest.signing-region": "eu-west-1",
    "rest.signing-name": "glue",
    "rest.access-key-id": SIGV4_KEYS.access,
    "rest.secret-access-key": SIGV4_KEYS.secret,
}


@pytest.mark.parametrize("auth", ["none", "oauth2", "basic", "header", "sigv4"])
def test_each_way_opens_the_catalog(
    auth: str, front: Front, table: TableName, machine: IcebergJvm
) -> None:
    server = front(auth=auth)
    ours = server.connection(**(SIGV4 if auth == "sigv4" else {}))
    assert Tables(ours).load(table).format_version == 2
    assert load_table(machine.jvm, rest_catalog(machine.jvm, ours), table).name()
    told = {name: one for _, _, headers in server.seen for name, one in headers.items()}
    assert told["Firnline-Maintenance"] == "true"
    if auth == "none":
        assert "Authorization" not in told  # not PyIceberg's `Bearer None`
        return
    nobody = CatalogConnection("lake", {"uri": server.uri})
    with pytest.raises(CatalogRefused, match=r"catalog lake does not take who we are \(401\)"):
        Tables(nobody).load(table)
    with pytest.raises(Py4JJavaError) as caught:
        rest_catalog(machine.jvm, nobody).listNamespaces()
    assert isinstance(java_errors.catalog_unreachable(caught.value, "lake"), CatalogRefused)


def test_a_token_is_renewed_before_it_ends(
    front: Front, table: TableName, machine: IcebergJvm
) -> None:
    server = front(token_s=4.0)
    tables = Tables(server.connection())
    java = rest_catalog(machine.jvm, server.connection())
    until = time.monotonic() + 9
    with ThreadPoolExecutor(4) as pool:  # each with a client of its own
        while time.monotonic() < until:
            list(pool.map(tables.load, [table] * 4))
            load_table(machine.jvm, java, table)
            time.sleep(0.2)
    # 9 s of tokens of 4 s: at 2 s each, of all threads together; and Java's at 3.6 s
    assert len(server.asked_for_tokens) <= 10
    assert {one["grant_type"] for one in server.asked_for_tokens} == {"client_credentials"}


def test_a_token_that_was_taken_back_is_replaced_at_once(
    front: Front, table: TableName, machine: IcebergJvm
) -> None:
    server = front()
    tables, java = Tables(server.connection()), JavaCommits(machine, server.connection())
    tables.load(table)
    java._read_table(table)
    asked = len(server.asked_for_tokens)
    server.revoke_all()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tables.load, [table] * 8))
    assert len(server.asked_for_tokens) == asked + 1
    java._read_table(table)
    assert len(server.asked_for_tokens) == asked + 2


def test_a_token_is_exchanged_for_the_next(front: Front, table: TableName) -> None:
    server = front(exchange=True, token_s=4.0)
    server.rules.tokens["given"] = time.time() + 4
    given = {"uri": server.uri, "token": "given", "token-expires-in-ms": "4000"}
    tables = Tables(CatalogConnection("lake", given))
    for _ in range(16):
        tables.load(table)
        time.sleep(0.5)
    grants = {one["grant_type"].rpartition(":")[2] for one in server.asked_for_tokens}
    assert grants == {"token-exchange"}
    assert server.asked_for_tokens[0]["subject_token"] == "given"
    assert server.asked_for_tokens[1]["subject_token"] != "given"


def test_a_wrong_secret_is_told_with_the_server_and_without_the_secret(
    front: Front, table: TableName
) -> None:
    server = front()
    wrong = CatalogConnection("lake", {"uri": server.uri, "credential": "firnline:cAnAry-wrong"})
    with pytest.raises(CatalogRefused) as caught:
        Tables(wrong).load(table)
    assert f"token server {server.uri}/v1/oauth/tokens refuses us: 401" in str(caught.value)
    assert "no such client" in str(caught.value)
    assert "cAnAry" not in str(caught.value)


def test_one_table_that_is_refused(
    front: Front, table: TableName, lake: RestCatalog, machine: IcebergJvm
) -> None:
    server = front()
    lake.create_table((*table.namespace, "other"), ROWS)
    server.rules.forbidden.add("t")
    tables, java = Tables(server.connection()), JavaCommits(machine, server.connection())
    with pytest.raises(
        CatalogRefused, match=rf"does not let us have {table.dotted_name} \(403\)"
    ) as one:
        tables.load(table)
    assert one.value.of == table.dotted_name
    with pytest.raises(CatalogRefused, match="403"):
        java._read_table(table)
    assert tables.load_named(table.namespace, "other").format_version == 2


def test_a_warehouse_is_named_where_the_catalog_asks(front: Front, table: TableName) -> None:
    server = front(warehouse="prod wh")
    assert Tables(server.connection()).load(table)

    async def config() -> bytes:
        upstream = Upstream(server.connection(), 10)
        try:
            return (await upstream.read_config())[1]
        finally:
            await upstream.close()

    assert b"overrides" in asyncio.run(config())


def test_the_gateway_reads_as_itself_and_renews(front: Front, table: TableName) -> None:
    server = front()
    path = f"/v1/namespaces/{table.namespace[0]}/tables/t"

    async def reads() -> list[Any]:
        upstream = Upstream(server.connection(), 10)
        try:
            first = await upstream.read_metadata(path)
            server.revoke_all()
            return [first, await upstream.read_metadata(path)]
        finally:
            await upstream.close()

    assert [one["table-uuid"] for one in asyncio.run(reads())] == [table.uuid] * 2
    assert not any("X-Iceberg-Access-Delegation" in headers for _, _, headers in server.seen)


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, str]:
    """Of a client, and what it trusts, in the words of a connection."""
    authority = trustme.CA()
    client = authority.issue_cert("firnline")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    client.private_key_pem.write_to_path(tmp_path / "key.pem")
    client.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    server = authority.issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    CONTEXTS["server"] = context
    return {
        "ssl.cabundle": str(tmp_path / "ca.pem"),
        "ssl.client.cert": str(tmp_path / "cert.pem"),
        "ssl.client.key": str(tmp_path / "key.pem"),
    }


CONTEXTS: dict[str, ssl.SSLContext] = {}


def test_certificates_of_both_sides(
    front: Front, table: TableName, certificates: dict[str, str], iceberg_jar: Path
) -> None:
    server = front(tls=CONTEXTS["server"], auth="oauth2")
    ours = server.connection(**certificates)
    assert ours.uri.startswith("https://")
    assert Tables(ours).load(table)
    with IcebergJvm(iceberg_jar) as machine:  # what it trusts is its own for good
        assert load_table(machine.jvm, rest_catalog(machine.jvm, ours), table).name()

    async def read() -> Any:
        upstream = Upstream(ours, 10)
        try:
            return await upstream.read_metadata(f"/v1/namespaces/{table.namespace[0]}/tables/t")
        finally:
            await upstream.close()

    assert asyncio.run(read())["table-uuid"] == table.uuid
