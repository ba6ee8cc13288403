"""What the kernel does not serve goes to Iceberg's own action, guarded, with its reason."""

from __future__ import annotations

import time

import pytest
from firnline_domain.commands import ExpireSnapshots
from firnline_domain.errors import TaskRefused
from firnline_domain.results import Mode
from firnline_worker.expiry import Expirer
from firnline_worker.handover import OPTIONS
from firnline_worker.java import JavaTables

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def handed_over(lab, rewriter, in_thread, scope=None):
    before = lab.rows()
    order = lab.order(scope)
    result = in_thread(rewriter.rewrite, order, lambda _: None)
    assert result.mode is Mode.HANDED_OVER
    assert result.groups == ()
    assert repr(lab.rows()) == repr(before)
    snapshot = lab.table().snapshot(result.committed_snapshot_id)
    assert snapshot.summary.additional_properties["firnline.task-id"] == order.task_id
    return result


def test_the_guards_of_h15_are_on():
    assert OPTIONS["use-starting-sequence-number"] == "false"
    assert OPTIONS["partial-progress.enabled"] == "false"
    assert OPTIONS["remove-dangling-deletes"] == "true"
    assert OPTIONS["delete-file-threshold"] == "1"


def test_a_table_upgraded_to_v3_whose_rows_have_no_ids_yet(lab, rewriter, in_thread):
    lab.create("id BIGINT")
    lab.insert("(1), (2)")
    lab.insert("(3)")
    lab.insert("(4)")
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    assert handed_over(lab, rewriter, in_thread).handover_reason == "row_ids_unknown"
    assert len(lab.rows("_row_id")) == len(
        set(lab.rows("_row_id"))
    )  # the action's commit gave them


def test_a_float_key_and_an_orc_file(lab, rewriter, in_thread):
    lab.create("x DOUBLE, v INT")
    lab.insert("(1.5, 1), (-0.0, 2)")
    lab.equality_delete(["x"], "(1.5)", rows="(2.5, 3)")
    assert handed_over(lab, rewriter, in_thread).handover_reason == "float_key"
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='orc')")
    lab.insert("(4.5, 1)")
    lab.insert("(5.5, 1)")
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='parquet')")
    assert handed_over(lab, rewriter, in_thread).handover_reason == "orc_file"


def test_only_the_partition_of_the_order_where_identity_says_which(lab, rewriter, in_thread):
    lab.create("id BIGINT, p STRING", "PARTITIONED BY (p)", **{"format-version": "1"})
    lab.insert("(1, 'a'), (2, 'b')")
    lab.insert("(3, 'a'), (4, 'b')")
    scopes = {scope.partition: scope for scope in lab.scopes()}
    assert (
        handed_over(lab, rewriter, in_thread, scopes['["a"]']).handover_reason == "format_version_1"
    )
    left = lab.sql("SELECT partition.p, count(*) FROM {t}.data_files GROUP BY 1").collect()
    assert sorted(map(tuple, left)) == [("a", 1), ("b", 2)]


def test_a_partition_of_bytes_is_no_filter(foreign, lab, rewriter, in_thread):
    lab.create("x DOUBLE, b BINARY, p STRING", "PARTITIONED BY (b, p)")
    lab.insert("(1.5, X'00FF', 'a'), (2.5, X'00FF', 'a')")
    lab.insert("(1.5, X'00', 'a'), (2.5, X'00', 'a')")
    scope = lab.scopes()[0]
    foreign.delete([1], {"x": 1.5}, scope=scope)
    assert handed_over(lab, rewriter, in_thread, scope).handover_reason == "float_key"


def unsafe(lab, properties):
    """A table that is handed over, whose owner then chooses what Java loads."""
    lab.create("x DOUBLE, v INT")
    lab.insert("(1.5, 1), (-0.0, 2)")
    lab.equality_delete(["x"], "(1.5)", rows="(2.5, 3)")
    text = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
    lab.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({text})")


@pytest.mark.parametrize(
    "properties",
    [
        {"write.location-provider.impl": "java.util.Random"},  # any class that can be made
        {"fs.file.impl": "java.util.Random", "fs.file.impl.disable.cache": "true"},
    ],
    ids=["location provider", "file system"],
)
def test_no_class_of_a_table_owners_choice_is_loaded(lab, tables, java, rewriter, properties):
    unsafe(lab, properties)
    head = lab.table().head_id("main")
    with pytest.raises(TaskRefused) as refused:
        rewriter.rewrite(lab.order(), lambda _: None)
    assert refused.value.reason == "unsafe_property"
    assert all(name in str(refused.value) for name in properties)
    now = int(time.time() * 1000)
    expirer = Expirer(tables, java, lambda uuid: (), "w1", lambda: now)
    with pytest.raises(TaskRefused):
        expirer.expire(ExpireSnapshots("e1", lab.name, now, 1, (), "r", 1, 1, now))
    assert lab.table().head_id("main") == head
    assert len(lab.table().snapshots) == 2


def test_a_location_provider_that_the_operator_allows_is_left_to_java(lab, spark):
    unsafe(lab, {"write.location-provider.impl": "our.Provider"})
    assert JavaTables(spark, "lake", frozenset(["our.Provider"])).load(lab.name).java.schema()
    with pytest.raises(TaskRefused):
        JavaTables(spark, "lake", frozenset(["our.Other"])).load(lab.name)
