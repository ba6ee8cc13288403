"""What one table's answer says of the table, and what of the catalog."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_cli.adoption.catalog_tables import CatalogLake, Outage, Unreadable
from firnline_domain.errors import AccessDenied, CatalogRefused, LoginRefused, TaskRefused
from firnline_domain.settings.thresholds import Thresholds


@pytest.mark.parametrize(
    ("error", "wanted"), [(CatalogRefused("t"), Unreadable), (LoginRefused("t"), Outage)]
)
def test_a_right_may_lack_for_one_table_and_a_login_for_all(
    error: AccessDenied, wanted: type[Exception]
) -> None:
    class Refusing:
        def load_named(self, namespace: Any, name: str) -> Any:
            raise error

    tables: Any = Refusing()
    lake = CatalogLake(tables, tables, Thresholds(), lambda _: None, lambda: 0.0)
    with pytest.raises(Unreadable) as raised:
        lake.weigh_by_summary(("db", "t"))
    assert type(raised.value) is wanted


def test_a_table_that_is_refused_is_unreadable() -> None:
    class Odd:
        def load_named(self, namespace: Any, name: str) -> Any:
            raise TaskRefused("format_version_4", "of format version 4")

    tables: Any = Odd()
    with pytest.raises(Unreadable, match="version 4"):
        CatalogLake(tables, tables, Thresholds(), lambda _: None, lambda: 0.0).weigh_by_summary(
            ("db", "t")
        )
