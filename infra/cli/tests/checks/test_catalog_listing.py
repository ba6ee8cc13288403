"""What the doctor lists of a catalog that others change, or that is very large."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import requests
from firnline_cli.checks import catalog
from firnline_cli.checks.catalog import CatalogChecks
from firnline_cli.checks.findings import Failed
from firnline_cli.checks.settings import Given, Told
from firnline_iceberg.catalog_probe import clock_of
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.processes.ports import free_port
from pyiceberg.exceptions import NoSuchNamespaceError


@dataclass
class Client:
    """Namespaces and their tables; None: dropped since it was listed."""

    tables: dict[str, list[str] | None]
    asked: list[str] = field(default_factory=list)

    def list_namespaces(self) -> list[tuple[str, ...]]:
        return [(one,) for one in self.tables]

    def list_tables(self, space: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        self.asked.append(space[0])
        if (found := self.tables[space[0]]) is None:
            raise NoSuchNamespaceError(space[0])
        return iter([(*space, one) for one in found])


def listing(client: Client, monkeypatch: pytest.MonkeyPatch) -> CatalogChecks:
    monkeypatch.setattr(Tables, "client", property(lambda self: client))
    return CatalogChecks(
        CatalogConnection("lake", {"uri": "http://127.0.0.1:1"}), Given(Told(), {})
    )


def test_a_namespace_that_somebody_dropped_meanwhile_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = listing(Client({"gone": None, "shop": ["orders"]}), monkeypatch)
    assert checks.list_tables() == "2 namespaces, 1 tables"
    assert checks.listed == [("shop", "orders")]


def test_our_own_namespace_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = listing(Client({"firnline_doctor": ["t1"], "shop": ["orders"]}), monkeypatch)
    assert checks.list_tables() == "1 namespaces, 1 tables"


def test_ten_thousand_namespaces_do_not_outlast_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({f"n{one}": ["t"] for one in range(10_000)})
    checks = listing(client, monkeypatch)
    assert checks.list_tables() == "10000 namespaces, 200 tables in the first 200"
    assert len(client.asked) == 200
    monkeypatch.setattr(catalog, "LISTING_S", -1.0)
    client.asked.clear()
    listing(client, monkeypatch).list_tables()
    assert client.asked == []


def test_a_catalog_that_does_not_run_is_said_at_once() -> None:
    connection = CatalogConnection("lake", {"uri": f"http://127.0.0.1:{free_port()}"})
    began = time.monotonic()
    with pytest.raises(Failed, match="Connection refused") as refused:
        CatalogChecks(connection, Given(Told(), {})).check_config()
    assert time.monotonic() - began < 5.0
    assert "is it running" in refused.value.remedy


def test_a_catalog_that_asks_for_a_certificate_is_shown_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: dict[str, object] = {}

    def get(uri: str, **options: object) -> requests.Response:
        shown.update(options)
        return requests.Response()

    monkeypatch.setattr(requests, "get", get)
    files = {"ssl.cabundle": "ca.pem", "ssl.client.cert": "our.pem", "ssl.client.key": "our.key"}
    clock_of(CatalogConnection("lake", {"uri": "https://catalog:8181", **files}))
    assert (shown["verify"], shown["cert"]) == ("ca.pem", ("our.pem", "our.key"))
