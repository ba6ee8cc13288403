"""Where an archive may lie, by a catalog that answers over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from firnline_domain.errors import TaskRefused
from firnline_iceberg.archive.archive_table import create_archive
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED
from firnline_iceberg.table.catalog_client import Tables

from libs.iceberg.tests.rest_catalog import RestCatalog, serving


@pytest.fixture
def catalog() -> Iterator[RestCatalog]:
    yield from serving()


def refused(catalog: RestCatalog, location: str) -> str:
    """The reason, and that nothing was asked to be made."""
    properties = {"uri": catalog.uri, "firnline.archives": "s3://cold/arch, s3://lake/shop/"}
    tables = Tables(CatalogConnection("lake", properties))
    table = tables.load_named(("shop",), "orders")
    with pytest.raises(TaskRefused) as why:
        create_archive(tables, table, "", location, UNSIGNED, 0)
    return why.value.reason


@pytest.mark.parametrize("place", ["s3://cold/arch/theirs", "s3a://cold/arch/theirs/data/x"])
def test_no_archive_is_made_in_a_place_of_another_table(catalog: RestCatalog, place: str) -> None:
    """Both would be refused every removal from then on."""
    catalog.put(("dev", "theirs"), "s3://cold/arch/theirs")
    assert refused(catalog, place) == "shared_location"


@pytest.mark.parametrize(
    "location",
    [
        "s3://cold/arch",
        "s3://cold/archive2/x",
        "s3://cold/arch/../payroll",
        "s3://cold2/arch/x",
        "gs://cold/arch/x",
        "s3://lake/shop/orders/data/x",
        "s3://lake/shop/orders",
    ],
)
def test_an_archive_lies_below_what_the_operator_names(catalog: RestCatalog, location: str) -> None:
    assert refused(catalog, location) == "archive_location"
