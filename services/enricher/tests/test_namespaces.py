"""What a namespace says reaches the planner beside what the table says."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from firnline_enricher.namespaces import AGAIN_MS, FRESH_MS, PATIENCE_MS, Namespaces

LAKE = TableName("u", ("lake", "shop"), "t")
THREE = {"firnline.rewrite.min-fragments": "3"}


class Catalog:
    """A catalog of one namespace, which can be away; `now_ms` is the clock beside it."""

    def __init__(self) -> None:
        self.properties = {**THREE, "owner": "ops"}
        self.away = False
        self.reads = 0
        self.now_ms = 1_000_000

    def namespace_properties(self, table: TableName) -> dict[str, str]:
        self.reads += 1
        if self.away:
            raise RetryLater("catalog: away")
        return self.properties if table.namespace == LAKE.namespace else {}


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
def namespaces(catalog: Catalog) -> Namespaces:
    return Namespaces(catalog, lambda: catalog.now_ms)


def test_only_what_matters_is_kept_and_it_is_read_once(catalog, namespaces) -> None:
    assert [namespaces.read_settings(LAKE) for _ in range(3)] == [THREE] * 3
    assert namespaces.read_settings(TableName("v", ("other",), "t")) == {}
    assert catalog.reads == 2


def test_a_change_is_seen_after_a_while(catalog, namespaces) -> None:
    namespaces.read_settings(LAKE)
    catalog.properties = {}
    catalog.now_ms += FRESH_MS - 1
    assert namespaces.read_settings(LAKE) == THREE
    catalog.now_ms += 1
    assert namespaces.read_settings(LAKE) == {}


def test_a_clock_that_was_set_back_does_not_keep_it_for_ever(catalog, namespaces) -> None:
    namespaces.read_settings(LAKE)
    catalog.properties, catalog.now_ms = {}, 1
    assert namespaces.read_settings(LAKE) == {}


def test_a_catalog_that_is_away_takes_nothing_back(catalog, namespaces) -> None:
    namespaces.read_settings(LAKE)
    catalog.away = True
    catalog.now_ms += FRESH_MS
    assert [namespaces.read_settings(LAKE) for _ in range(2)] == [THREE] * 2
    assert catalog.reads == 2, "not asked again at once"
    catalog.away, catalog.properties = False, {}
    catalog.now_ms += AGAIN_MS
    assert namespaces.read_settings(LAKE) == {}


def test_what_was_never_read_is_waited_for_but_not_for_ever(catalog, namespaces) -> None:
    catalog.away = True
    for _ in range(2):
        with pytest.raises(RetryLater):
            namespaces.read_settings(LAKE)
        catalog.now_ms += PATIENCE_MS - 1
    catalog.now_ms += 1 - (PATIENCE_MS - 1)
    assert namespaces.read_settings(LAKE) == {}
    catalog.away = False
    assert namespaces.read_settings(LAKE) == {}
    catalog.now_ms += AGAIN_MS
    assert namespaces.read_settings(LAKE) == THREE


def test_a_catalog_that_tells_no_namespace_keeps_no_commit_for_ever(
    lake, rows, monkeypatch
) -> None:
    """What cannot be handled must be told without its files, whatever else is broken."""

    def silent(table: TableName) -> dict[str, str]:
        raise RetryLater("catalog: 500")

    lake.table.append(rows((1, 1)))
    lake.follow()
    lake.table.append(rows((1, 2)))
    [event] = lake.commits()
    monkeypatch.setattr(lake.tables, "namespace_properties", silent)
    lake.handlers._facts.clear()  # and nothing of it is remembered
    lake.handlers._facts._namespaces._kept.clear()
    [told] = lake.handlers.unread_changes(event)
    assert (told.format_version, told.settings) == (0, {})
    with pytest.raises(RetryLater):
        lake.handle(event)


def test_they_travel_apart_from_the_tables_own(lake, rows) -> None:
    lake.catalog.namespaces[("db",)] = THREE
    lake.table.append(rows((1, 1)))
    lake.table.append(rows((1, 2)))
    changes = lake.follow()
    assert len(changes) == 2
    for change in changes:
        assert change.settings["namespace:firnline.rewrite.min-fragments"] == "3"
        assert change.settings["write.target-file-size-bytes"] == "4096"
    assert lake.tables.namespace_loads == 1


def test_namespaces_of_one_name_in_two_catalogs_are_two(catalog, namespaces) -> None:
    assert namespaces.read_settings(LAKE) == THREE
    catalog.properties = {}
    for elsewhere in ({"catalog": "archive"}, {"prefix": "dev"}):
        assert namespaces.read_settings(replace(LAKE, **elsewhere)) == {}
    assert namespaces.read_settings(LAKE) == THREE
