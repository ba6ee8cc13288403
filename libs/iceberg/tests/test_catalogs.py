"""Who opens what a record names."""

from __future__ import annotations

import inspect
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from firnline_domain.errors import CatalogUnreachable, Misconfigured
from firnline_domain.identity import PREFIX_HEADER, TableName
from firnline_iceberg import catalogs as catalogs_module
from firnline_iceberg.catalogs import (
    MAX_OPEN,
    CatalogClients,
    CatalogCommits,
    CatalogTables,
    UnknownCatalog,
    connections_of,
)
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.connection.prefix import at_prefix
from firnline_iceberg.connection.settings import watch_catalogs
from firnline_iceberg.table.catalog_client import Tables
from py4j.protocol import Py4JJavaError

LAKE = CatalogConnection("lake", {"uri": "http://lake"})
ARCHIVE = CatalogConnection("archive", {"uri": "http://archive"})
BOTH = {"lake": LAKE, "archive": ARCHIVE}


def table(catalog: str = "lake", prefix: str = "", uuid: str = "u") -> TableName:
    return TableName(uuid, ("shop",), "t", catalog, prefix)


def test_each_catalog_and_prefix_has_one_client() -> None:
    made: list[CatalogConnection] = []

    def make(connection: CatalogConnection) -> int:
        made.append(connection)
        return len(made)

    catalogs = CatalogClients(BOTH, make)
    places = [("lake", ""), ("archive", ""), ("lake", "dev"), ("archive", "dev")]
    for _ in range(2):
        assert [catalogs.client_of(table(*one)) for one in places] == [1, 2, 3, 4]
    assert [one.properties.get("prefix") for one in made] == [None, None, "dev", "dev"]
    assert [one.name for one in made] == ["lake", "archive", "lake", "archive"]
    assert made[2].properties[f"header.{PREFIX_HEADER}"] == "dev"


def test_a_catalog_that_nobody_knows_is_named_and_so_are_those_that_there_are() -> None:
    with pytest.raises(UnknownCatalog, match=r"stranger.*lake, archive") as refused:
        CatalogClients(BOTH, lambda _: 0).client_of(table("stranger"))
    assert (refused.value.reason, refused.value.retryable) == ("unknown_catalog", False)


def test_one_that_takes_long_to_open_holds_up_no_other() -> None:
    opening, go_on = threading.Event(), threading.Event()

    def make(connection: CatalogConnection) -> str:
        if connection.name == "archive":
            opening.set()
            assert go_on.wait(20)
        return connection.name

    catalogs = CatalogClients(BOTH, make)
    slow = threading.Thread(target=lambda: catalogs.client_of(table("archive")))
    slow.start()
    assert opening.wait(20)
    assert catalogs.client_of(table("lake")) == "lake"
    go_on.set()
    slow.join()


def test_clients_of_prefixes_are_few() -> None:
    made: list[str] = []
    catalogs = CatalogClients(BOTH, lambda one: made.append(one.properties["prefix"]))
    for number in range(MAX_OPEN + 1):
        catalogs.client_of(table(prefix=f"p{number}"))
    catalogs.client_of(table(prefix="p0"))
    assert made.count("p0") == 2


def test_what_is_asked_of_a_table_goes_to_its_own_catalog() -> None:
    """`Tables` itself is of the first catalog."""
    asked = {
        name
        for name, method in vars(Tables).items()
        if not name.startswith("_") and callable(method)
        if "table" in inspect.signature(method).parameters
    }
    assert {"load", "commit_changes", "namespace_properties"} <= asked
    assert asked - vars(CatalogTables).keys() == set()


def test_a_commit_goes_to_the_catalog_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, sent = CatalogTables(BOTH), list[tuple[object, ...]]()
    archive = SimpleNamespace(commit_changes=lambda *given: sent.append(given))
    monkeypatch.setattr(tables._each, "client_of", {table("archive"): archive}.__getitem__)
    tables.commit_changes(table("archive"), (), {"main": 7})
    assert sent == [(table("archive"), (), {"main": 7})]


def test_a_commit_through_java_goes_to_the_catalog_of_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them does not answer at the start, nor later."""

    def open_client(iceberg: object, connection: CatalogConnection) -> str:
        if connection.name == "archive":
            raise Py4JJavaError("closed", SimpleNamespace(_target_id="o1", _gateway_client=None))
        return connection.name

    monkeypatch.setattr(catalogs_module, "JavaCommits", open_client)
    commits = CatalogCommits(cast(Any, None), BOTH)
    assert commits.for_table(table("lake")) == "lake"
    with pytest.raises(CatalogUnreachable, match="archive"):
        commits.for_table(table("archive"))
    with pytest.raises(UnknownCatalog):
        commits.for_table(table("other"))


def test_names_that_no_key_could_hold_are_refused() -> None:
    for name in ("my lake", "a/b", "a@b", "a.b"):
        with pytest.raises(Misconfigured, match="letters"):
            connections_of({name: LAKE})
    assert list(connections_of("http://x")) == ["lake"]


class Noted:
    def __init__(self) -> None:
        self.needed: list[str] = []
        self.used: list[str] = []

    def add_requirement(self, name: str, check: object) -> None:
        self.needed.append(name)

    def add_optional(self, name: str, check: object) -> None:
        self.used.append(name)


def test_a_service_is_ready_without_one_of_several() -> None:
    one, several = Noted(), Noted()
    watch_catalogs(one, {"lake": LAKE}, lambda _: lambda: None)
    watch_catalogs(several, BOTH, lambda _: lambda: None)
    assert (one.needed, one.used) == (["catalog"], [])
    assert (several.needed, several.used) == ([], ["catalog lake", "catalog archive"])


def test_a_header_says_which_prefix_and_none_says_nothing() -> None:
    assert at_prefix(LAKE, "") is LAKE
    assert at_prefix(LAKE, "a/b").place == ("lake", "http://lake", "a/b")
    assert at_prefix(LAKE, "a/b").place != LAKE.place
