"""Nessie that asks for a token of an OpenID provider, and alone hands out keys to the storage, both
of which end while the work is done."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process

from tests.kit.identity_server import SECRET, IdentityServer, Rules, identity_server
from tests.kit.lake.table import Table
from tests.kit.lake_pair import Pair, pair
from tests.kit.nessie import Nessie
from tests.kit.s3_server import S3Server

pytestmark = [pytest.mark.stack, pytest.mark.long]
KEYS_S = 60


@pytest.fixture(scope="module")
def identity(store: S3Server) -> Iterator[IdentityServer]:
    with identity_server(store, Rules(keys_s=KEYS_S)) as server:
        yield server


@pytest.fixture(scope="module")
def secured(servers: Path, store: S3Server, identity: IdentityServer) -> Iterator[Nessie]:
    port = free_port()
    server = Nessie(port, free_port(frozenset({port})), store, identity.settings())
    folder = servers / "nessie-secured"
    with run_process(server.command(folder), folder.with_suffix(".log")):
        yield server


@pytest.fixture
def connection(secured: Nessie, identity: IdentityServer) -> CatalogConnection:
    """Not a key to the storage in it."""
    return CatalogConnection("lake", {"uri": secured.uri, **identity.credentials()})


@pytest.fixture
def lake(lake_jvm: IcebergJvm, tmp_path: Path, connection: CatalogConnection) -> Pair:
    return pair(lake_jvm, tmp_path, connection)


def new_table(lake: Pair) -> Table:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    lake.namespace(namespace)
    return lake.table(namespace)


def test_tokens_are_renewed_and_keys_come_from_the_catalog(
    lake: Pair, identity: IdentityServer
) -> None:
    identity.rules.token_s = 4.0
    try:
        table = new_table(lake)
        table.fill()
        table.upsert((1, 7))
        result = lake.rewrite(table.order())
        asked = len(identity.rules.given)
        time.sleep(6)  # whatever token there was has ended
        (event,) = lake.commit(result)
    finally:
        identity.rules.token_s = 60.0
    assert type(event).__name__ == "RewriteCommitted", event
    assert len(identity.rules.given) > asked
    assert identity.rules.roles > 0
    assert table.rows() == [(0, 0), (1, 7), (2, 2), (3, 3)]


def test_keys_that_have_ended_are_asked_for_anew(
    lake: Pair, store: S3Server, identity: IdentityServer
) -> None:
    table = new_table(lake)
    table.fill()
    result = lake.rewrite(table.order())
    roles = identity.rules.roles
    store.drop_all()
    (event,) = lake.commit(result)
    assert type(event).__name__ == "RewriteCommitted", event
    assert identity.rules.roles > roles


def test_without_a_token_nessie_answers_nobody(secured: Nessie) -> None:
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{secured.uri}/v1/config", timeout=10)


def test_the_secret_is_in_no_text(lake: Pair, connection: CatalogConnection) -> None:
    assert SECRET not in f"{connection} {connection!r} {lake!r}"
