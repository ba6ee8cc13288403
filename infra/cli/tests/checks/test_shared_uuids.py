"""What the doctor says of tables that several catalogs have with one uuid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from firnline_cli.checks.catalog import CatalogChecks
from firnline_cli.checks.findings import CheckAnswer, CheckStatus, NotTried
from firnline_cli.checks.shared_uuids import MAX_LOADED, compare_uuids, shared_uuid_checks
from firnline_domain.identity import TableName
from firnline_iceberg.connection.connection import CatalogConnection

NAME = ("shop", "orders")


@dataclass
class Table:
    identity: TableName
    properties: dict[str, str] = field(default_factory=dict)


@dataclass
class Catalog:
    """As `CatalogChecks` has listed it."""

    connection: CatalogConnection
    tables: dict[tuple[str, ...], Table]
    loaded: int = 0

    @property
    def name(self) -> str:
        return f"catalog.{self.connection.name}"

    @property
    def listed(self) -> list[tuple[str, ...]]:
        return list(self.tables)

    def load_listed(self, name: tuple[str, ...]) -> Table | None:
        self.loaded += 1
        return self.tables[name]


def catalogs(*uuids: str, **properties: str) -> list[Any]:
    """Each with `shop.orders`; the last one has the properties."""
    found = []
    for number, uuid in enumerate(uuids):
        last = properties if number == len(uuids) - 1 else {}
        table = Table(TableName(uuid, NAME[:-1], NAME[-1]), dict(last))
        found.append(Catalog(CatalogConnection(f"c{number}", {"uri": "http://x"}), {NAME: table}))
    return found


def said(found: list[Any]) -> CheckAnswer | str:
    return compare_uuids(cast("list[CatalogChecks]", found))


def test_one_uuid_in_two_catalogs_is_remarked() -> None:
    answer = said(catalogs("u", "v", "u"))
    assert isinstance(answer, CheckAnswer)
    assert answer.status is CheckStatus.REMARK
    assert "c0:shop.orders and c2:shop.orders" in answer.found
    assert "gc.enabled=false" in answer.remedy


def test_uuids_of_their_own_are_fine_and_so_is_a_copy_that_keeps_its_files() -> None:
    assert isinstance(said(catalogs("u", "v")), str)
    assert isinstance(said(catalogs("u", "u", **{"gc.enabled": "false"})), str)


def test_no_name_in_common_is_nothing_to_try() -> None:
    one, other = catalogs("u", "u")
    other.tables = {("b",): other.tables[NAME]}
    with pytest.raises(NotTried):
        said([one, other])


def test_loads_are_bounded() -> None:
    one, other = catalogs("u", "v")
    for number in range(MAX_LOADED * 3):
        for catalog in (one, other):
            catalog.tables["shop", f"t{number}"] = catalog.tables[NAME]
    said([one, other])
    assert one.loaded == MAX_LOADED


def test_of_one_catalog_nothing_is_asked() -> None:
    assert list(shared_uuid_checks(cast("list[CatalogChecks]", catalogs("u")))) == []
