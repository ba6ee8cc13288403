"""A run works in one catalog, and asks all of them whose files it may remove."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from firnline_cli.running.local_run import Here
from firnline_cli.shared.fleet import FleetClient
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.policy.operator_requests import RequestedAction
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.table.shared_locations import neighbours_in, refuse_shared

from libs.iceberg.tests.rest_catalog import OURS, RestCatalog, serving


@pytest.fixture
def catalog() -> Iterator[RestCatalog]:
    yield from serving()


@pytest.fixture
def other_catalog() -> Iterator[RestCatalog]:
    yield from serving()


def test_a_clone_in_another_catalog_is_found(
    catalog: RestCatalog, other_catalog: RestCatalog
) -> None:
    places = {"lake": catalog, "other": other_catalog}
    fleet = FleetClient(
        {name: CatalogConnection(name, {"uri": one.uri}) for name, one in places.items()}, None
    )
    uuid = str(catalog.tables[OURS]["table-uuid"])
    name = TableName(uuid, ("shop",), "orders")
    run = Here(fleet, name, RequestedAction("expire"), Thresholds(), json_wanted=True)
    table = run._tables.load(name)
    with pytest.raises(TaskRefused, match=r"other:shop\.orders") as refused:
        refuse_shared(run._tables, table)
    assert refused.value.reason == "shared_identity"
    del other_catalog.tables[OURS]
    assert neighbours_in(run._tables).neighbours_of(table) == []
