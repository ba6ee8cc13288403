from __future__ import annotations

import pytest
from firnline_domain.identity import TableName
from firnline_domain.records.parts.tallies import DEFAULT_TARGET_BYTES
from firnline_domain.settings.policies import TablePolicies
from firnline_domain.settings.table_rules import TableRule
from firnline_enricher import facts
from firnline_enricher.facts import FactsCache, TableFacts
from firnline_iceberg.table.external_files import OwnLocations
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables


def names(catalog: MemoryCatalog, count: int) -> list[TableName]:
    for number in range(count):
        catalog.make(f"db.t{number}", Schema(NestedField(1, "id", LongType())))
    tables = MemoryTables(catalog)
    return [tables.load_named(("db",), f"t{number}").identity for number in range(count)]


def test_the_least_recently_used_facts_are_forgotten(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(facts, "_MAX_TABLES", 2)
    catalog = MemoryCatalog(str(tmp_path))
    one, two, three = names(catalog, 3)
    cache = FactsCache(MemoryTables(catalog), lambda: 0)
    for name in (one, two, one, three):
        cache.get_facts(name)
    assert [cache.peek_facts(name) is not None for name in (one, two, three)] == [True, False, True]


def test_what_was_loaded_before_all_facts_are_dropped_is_not_kept(tmp_path) -> None:
    """Another thread drops them when commits were missed; the load may be older than these."""
    catalog = MemoryCatalog(str(tmp_path))
    (one,) = names(catalog, 1)

    class Slow(MemoryTables):
        def load(self, table: TableName) -> LoadedTable:
            found = super().load(table)
            cache.clear()
            return found

    cache = FactsCache(Slow(catalog), lambda: 0)
    assert cache.get_facts(one).format_version == 2
    assert cache.peek_facts(one) is None


def test_two_tables_of_one_uuid_have_facts_of_their_own(tmp_path) -> None:
    """The spec of one is not read into the other, nor its settings told as the other's."""
    catalog = MemoryCatalog(str(tmp_path))
    (one,) = names(catalog, 1)
    catalog.clone("dev.copy", "db.t0")
    copy = TableName(one.uuid, ("dev",), "copy")
    table = catalog.load_table("dev.copy")
    with table.transaction() as change:
        change.set_properties({"firnline.enabled": "false"})
    cache = FactsCache(MemoryTables(catalog), lambda: 0)
    assert cache.get_facts(copy).settings == {"firnline.enabled": "false"}
    assert cache.get_facts(one).settings == {}


def test_values_that_rules_ask_for_are_read_again_when_the_rules_change(tmp_path) -> None:
    catalog = MemoryCatalog(str(tmp_path))
    (one,) = names(catalog, 1)
    with catalog.load_table("db.t0").transaction() as change:
        change.set_properties({"owner": "finance", "region": "eu"})
    rules = [TableRule("lake.db.*", (("owner", "*"),), ())]
    cache = FactsCache(MemoryTables(catalog), lambda: 0, lambda: TablePolicies((), rules))
    assert cache.get_facts(one).asked == {"owner": ("finance",)}
    rules.append(TableRule("**", (), (("region", "us"),)))
    assert cache.get_facts(one).asked == {"owner": ("finance",), "region": ("eu",)}
    rules[:] = [TableRule("lake.other.*", (("owner", "*"),), ())]
    assert cache.get_facts(one).asked == {}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, DEFAULT_TARGET_BYTES),
        ({"write.target-file-size-bytes": "1024"}, 1024),
        ({"write.target-file-size-bytes": "128m"}, DEFAULT_TARGET_BYTES),
        ({"write.target-file-size-bytes": "9" * 5_000}, DEFAULT_TARGET_BYTES),
    ],
)
def test_the_target_is_the_tables_or_icebergs(settings: dict[str, str], expected: int) -> None:
    assert TableFacts(2, settings, {}, PyArrowFileIO(), OwnLocations(())).target_bytes == expected
