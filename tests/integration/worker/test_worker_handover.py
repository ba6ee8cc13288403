"""What the kernel does not serve goes to Iceberg's own action, guarded, with its reason."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest
from firnline_committer.commit import events as reports
from firnline_domain.errors import TaskRefused
from firnline_domain.records.results import Mode
from firnline_iceberg.commit.revert import undo_of
from firnline_iceberg.commit.rewrite import task_ids
from firnline_iceberg.scan.planning import live_files
from firnline_worker.rewrite.iceberg_fallback import OPTIONS, Handover
from firnline_worker.spark.java_api import JavaTable, JavaTables
from firnline_worker.table_actions.expire_snapshots import Expirer
from py4j.protocol import Py4JJavaError

from tests.kit.expiries import expire

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


@pytest.fixture
def meddled(spark, tables, meddler):
    """A handover whose catalog lets writers commit between its plan and its commit."""
    name = f"m{meddler.server_address[1]}"
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": meddler.uri}
    for key, value in {**settings, ".cache-enabled": "false"}.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return Handover(JavaTables(spark, name), tables, lambda uuid: nullcontext())


@pytest.mark.parametrize("guarded", [True, False])
def test_h15_a_row_that_is_deleted_during_a_handover_stays_deleted(
    lab, meddled, meddler, guarded, monkeypatch
):
    """By default the action gives its files the number that it started at: the delete, with a
    number above it, is dropped with that very commit (issue 10312)."""
    lab.create("id BIGINT, v INT")
    lab.insert("(1, 1), (2, 1)")
    lab.insert("(3, 1)")

    def meanwhile():
        lab.equality_delete(["id"], "(1)")
        lab.insert("(4, 1)")

    meddler.before = [meanwhile]
    if guarded:
        with pytest.raises(Py4JJavaError, match="found new delete"):
            meddled.rewrite_data_files(lab.order(), lab.table(), "float_key")
        assert lab.rows() == [(2, 1), (3, 1), (4, 1)]
        assert meddled.rewrite_data_files(lab.order(), lab.table(), "float_key") is not None
        assert lab.rows() == [(2, 1), (3, 1), (4, 1)]
    else:
        monkeypatch.setitem(OPTIONS, "use-starting-sequence-number", "true")
        meddled.rewrite_data_files(lab.order(), lab.table(), "float_key")
        assert lab.rows() == [(1, 1), (2, 1), (3, 1), (4, 1)]


@pytest.mark.parametrize("guarded", [True, False])
def test_h15_all_commits_of_a_handover_are_known_for_ours(
    lab, rewriter, in_thread, guarded, monkeypatch
):
    """The delete files that are left over go in a commit of their own. By the action's own option
    it has no task id: the table would be left to that maintainer, and an undo stop at it."""
    lab.create("x DOUBLE, v INT")
    lab.insert("(1.5, 1), (2.5, 2)")
    lab.insert("(3.5, 1)")
    lab.equality_delete(["x"], "(1.5)", rows="(4.5, 3)")
    if not guarded:
        monkeypatch.setitem(OPTIONS, "remove-dangling-deletes", "true")
        monkeypatch.setattr(Handover, "_remove_dangling_deletes", lambda *_: None)
    before, head = lab.rows(), lab.table().head_id("main")
    order = lab.order()
    result = in_thread(rewriter.rewrite, order, lambda _: None)
    table = lab.table()
    made = [one for one in table.snapshots if one.summary.operation.value == "replace"]
    assert len(made) == 2
    assert live_files(table, table.head_id("main")).deletes == ()
    others = [one for one in made if not task_ids(one.summary, table.identity.uuid)]
    undo = undo_of(table, "main", order.task_id)
    if guarded:
        assert others == []
        assert (undo.restored, len(undo.snapshot_ids)) == (head, 2)
        told = reports.handed_over_event(result, table, 1)
        assert told.snapshot_ids == tuple(one.snapshot_id for one in made)
        assert (told.files_removed, told.equality_deletes_removed) == (3, 1)
    else:
        assert len(others) == 1
        assert undo.reason == "later_commits"
    assert lab.rows() == before


def again(lab):
    """The table's one data file is appended a second time."""
    file = lab.java.load(lab.name).java.newScan().planFiles().iterator().next().file()
    lab.writer.append(file)
    lab.sql(f"CALL lake.system.rewrite_manifests('{lab.namespace}.t')")  # both entries in one
    return file.fileSizeInBytes()


def test_a_file_that_is_there_twice_is_not_handed_over(lab, rewriter, tables, java, in_thread):
    """Only the older entry has deletes; where both are in one manifest the action removes both.
    What comes while it runs is told of afterwards, by its own count."""
    lab.create("x DOUBLE, v INT")
    lab.insert("(1.5, 1), (2.5, 2)")
    lab.equality_delete(["x"], "(1.5)")
    size = again(lab)
    lab.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.target-file-size-bytes'='{size}')")
    assert lab.rows() == [(1.5, 1), (2.5, 2), (2.5, 2)]
    with pytest.raises(TaskRefused, match="more than once"):
        in_thread(rewriter.rewrite, lab.order(), lambda _: None)
    assert lab.rows() == [(1.5, 1), (2.5, 2), (2.5, 2)]
    handover = Handover(java, tables, lambda uuid: nullcontext())
    with pytest.raises(TaskRefused, match="firnline undo") as refused:
        handover.rewrite_data_files(lab.order(), lab.table(), "float_key")
    assert refused.value.reason == "duplicate_files"
    assert lab.rows() == [(2.5, 2)]


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
        expirer.expire(expire("e1", lab.name, now, now, agreed=True))
    assert lab.table().head_id("main") == head
    assert len(lab.table().snapshots) == 2


def test_a_property_at_which_java_throws_is_said_before_any_work(lab, rewriter):
    unsafe(lab, {"commit.retry.num-retries": "many"})
    head = lab.table().head_id("main")
    with pytest.raises(TaskRefused, match=r"commit\.retry\.num-retries") as refused:
        rewriter.rewrite(lab.order(), lambda _: None)
    assert refused.value.reason == "unusable_property"
    assert lab.table().head_id("main") == head


def test_what_a_provider_puts_outside_the_tables_own_locations_is_left_to_java(
    lab, rewriter, in_thread, monkeypatch
):
    lab.create("id BIGINT, v INT")
    lab.insert("(1, 1), (2, 1)")
    lab.equality_delete(["id"], "(1)")
    elsewhere = "file:///somewhere/else"
    monkeypatch.setattr(
        JavaTable, "locations", lambda _, scope, names: [f"{elsewhere}/{one}" for one in names]
    )
    assert handed_over(lab, rewriter, in_thread).handover_reason == "outside_locations"


def test_a_location_provider_that_the_operator_allows_is_left_to_java(lab, spark):
    unsafe(lab, {"write.location-provider.impl": "our.Provider"})
    assert JavaTables(spark, "lake", frozenset(["our.Provider"])).load(lab.name).java.schema()
    with pytest.raises(TaskRefused):
        JavaTables(spark, "lake", frozenset(["our.Other"])).load(lab.name)
