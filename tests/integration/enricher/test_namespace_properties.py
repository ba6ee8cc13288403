"""Properties of namespaces, as Iceberg's reference catalog tells them."""

from __future__ import annotations

import pytest
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from firnline_iceberg.table.catalog_client import Tables

pytestmark = pytest.mark.stack


def test_they_are_read_and_a_namespace_that_is_not_there_has_none(
    lake, namespace, catalog_uri
) -> None:
    lake.update_namespace_properties(namespace, updates={"firnline.rewrite.min-fragments": "3"})
    tables = Tables(catalog_uri)
    assert (
        tables.namespace_properties(TableName("", (namespace,), ""))[
            "firnline.rewrite.min-fragments"
        ]
        == "3"
    )
    assert tables.namespace_properties(TableName("", ("nowhere",), "")) == {}


def test_a_catalog_that_is_away_is_told_from_one_without_properties() -> None:
    with pytest.raises(RetryLater):
        Tables("http://127.0.0.1:9").namespace_properties(TableName("", ("shop",), ""))
