"""What rules ask of a table's metadata."""

from __future__ import annotations

from firnline_domain.settings.table_rules import PARTITION_FIELDS, SORT_ORDER
from firnline_iceberg.table.rule_facts import rule_facts
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, VoidTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestampType

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "place", StructType(NestedField(4, "region", StringType()))),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, DayTransform(), "day"),
    PartitionField(1, 1001, BucketTransform(16), "bucket"),
    PartitionField(4, 1002, IdentityTransform(), "region"),
    PartitionField(1, 1003, VoidTransform(), "gone"),
)


def test_properties_and_layout_are_texts_that_rules_can_match() -> None:
    catalog = MemoryCatalog("memory://")
    catalog.make("db.t", SCHEMA, SPEC, owner="finance", note="x" * 5_000)
    names = ["owner", "note", "region", PARTITION_FIELDS, SORT_ORDER]
    found = rule_facts(MemoryTables(catalog).load_named(("db",), "t"), names)
    assert found == {
        "owner": ("finance",),
        "note": ("x" * 1_000,),
        "region": (),
        PARTITION_FIELDS: ("day(at)", "bucket(16, id)", "place.region"),
        SORT_ORDER: (),
    }


def test_a_sort_order_is_named_with_its_directions() -> None:
    catalog = MemoryCatalog("memory://")
    table = catalog.make("db.t", SCHEMA)
    with table.update_sort_order() as order:
        order.desc("at", DayTransform())
        order.asc("id", IdentityTransform())
    found = rule_facts(MemoryTables(catalog).load_named(("db",), "t"), [SORT_ORDER])
    assert found == {SORT_ORDER: ("day(at) desc", "id asc")}
