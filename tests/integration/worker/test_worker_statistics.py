"""Distinct values and partition statistics are those of the rows that a reader sees, of a snapshot
that is still there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.table_action.compute_statistics import Statistics
from firnline_domain.records.orders import ExpireSnapshots, TableOrder
from firnline_iceberg.table.statistics import described_partitions
from firnline_standalone.previews import preview
from firnline_worker.table_actions import compute_statistics
from firnline_worker.table_actions.compute_statistics import StatisticsComputer
from firnline_worker.table_actions.expire_snapshots import Expirer
from firnline_worker.table_actions.remove_orphans import OrphanRemover

from tests.integration.worker.lab import Lab, now_ms
from tests.integration.worker.test_worker_orphans import age, root
from tests.integration.worker.test_worker_orphans import order as orphan_order

pytestmark = [pytest.mark.spark, pytest.mark.stack]
STALE, REQUESTED = "stale_statistics", "requested"
BOTH = {"firnline.statistics": "all", "firnline.partition-statistics": "true"}


@pytest.fixture
def computer(tables: Any, java: Any) -> StatisticsComputer:
    return StatisticsComputer(tables, java, "w1", now_ms)


def order(table: TableName, reason: str = STALE, **numbers: float) -> TableOrder:
    at = now_ms()
    asked = {"columns": 1.0, "all_columns": 0.0, "partitions": 1.0, "min_change": 0.1, **numbers}
    return TableOrder("s1", table, Statistics.name, reason, 1, 1, at, at + 3_600_000, asked)


def distinct(lab: Lab) -> dict[str, int]:
    """By column, of the head: as Iceberg's reader has them from the Puffin file."""
    table = lab.table()
    head = table.head(MAIN).snapshot_id
    [entry] = [one for one in table.metadata.statistics if one.snapshot_id == head]
    java = lab.java.load(lab.name).java
    io, puffin = java.io(), lab.java.iceberg.puffin.Puffin
    reader = puffin.read(io.newInputFile(entry.statistics_path)).build()
    blobs = reader.fileMetadata().blobs()
    assert {blob.type() for blob in blobs} == {"apache-datasketches-theta-v1"}
    assert {blob.snapshotId() for blob in blobs} == {head}
    names = {field.field_id: field.name for field in table.schema.fields}
    return {names[blob.inputFields()[0]]: int(blob.properties()["ndv"]) for blob in blobs}


def stored(lab: Lab, end: str) -> set[str]:
    return {Path(one).name for one in lab.stored() if one.endswith(end)}


@pytest.mark.parametrize("version", ["2", "3"])
def test_distinct_values_are_those_of_the_rows_that_deletes_leave(
    lab, computer, in_thread, version
):
    lab.create(
        "id BIGINT, p INT, name STRING, price DECIMAL(9,2), at TIMESTAMP, tags ARRAY<INT>",
        "PARTITIONED BY (p)",
        **{"format-version": version, "write.delete.mode": "merge-on-read", **BOTH},
    )
    lab.sql(
        "INSERT INTO {t} SELECT id, CAST(id % 2 AS INT), CONCAT('n', id % 700), id % 300, "
        "TIMESTAMP_SECONDS(id % 11), ARRAY(1) FROM range(2000)"
    )
    lab.sql("DELETE FROM {t} WHERE id % 700 >= 500 OR id = 3")
    if version == "2":
        lab.equality_delete(["id"], "(5), (7)", partition=[1])
    head = lab.table().head(MAIN)
    result = in_thread(computer.compute, order(lab.name))
    columns = ("id", "p", "name", "price", "at")
    counts = ", ".join(f"COUNT(DISTINCT {one})" for one in columns)
    exact = dict(zip(columns, lab.sql(f"SELECT {counts} FROM {{t}}").collect()[0], strict=True))
    assert exact["id"] < 2000
    assert distinct(lab) == exact  # a sketch is exact up to 4,096 values
    assert result.numbers["columns_described"] == 5
    assert lab.table().head(MAIN) == head  # no snapshot
    assert planned_values(lab, "name") == exact["name"]
    lab.insert("(1, 1, 'a', 1.0, TIMESTAMP_SECONDS(1), ARRAY(1))")
    assert planned_values(lab, "name") is None  # of this very head, or Spark takes none


def planned_values(lab: Lab, column: str) -> int | None:
    """Distinct ones, as Spark's planner has them from Iceberg's scan; None = it knows none."""
    lab.spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        plan = lab.sql(f"SELECT {column} FROM {{t}}")._jdf.queryExecution().optimizedPlan()
        known = plan.stats().attributeStats().values()
        return None if known.isEmpty() else int(str(known.head().distinctCount().get()))
    finally:
        lab.spark.conf.unset("spark.sql.cbo.enabled")


def test_sparks_planner_takes_a_value_of_a_described_column_for_one_that_is_nowhere(lab, computer):
    """Iceberg gives Spark no bounds beside the distinct values, and Spark takes that for a column
    of NULLs. Where this turns red the documentation has to change (docs/actions.md)."""
    filled(lab, 900)
    assert planned_rows(lab, "id = 1") > 0
    computer.compute(order(lab.name))
    assert planned_rows(lab, "id = 1") == 0
    assert planned_rows(lab, "id IN (1, 2)") == 0
    assert planned_rows(lab, "id >= 1") > 0
    lab.spark.conf.set("spark.sql.iceberg.report-column-stats", "false")
    try:
        assert planned_rows(lab, "id = 1") > 0
    finally:
        lab.spark.conf.unset("spark.sql.iceberg.report-column-stats")


def planned_rows(lab: Lab, condition: str) -> int:
    """That the query has, as Spark's planner thinks. The column is none of the partitions', or
    Iceberg answers the condition by itself."""
    lab.spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        frame = lab.sql(f"SELECT * FROM {{t}} WHERE {condition}")
        return int(str(frame._jdf.queryExecution().optimizedPlan().stats().rowCount().get()))
    finally:
        lab.spark.conf.unset("spark.sql.cbo.enabled")


def test_partition_statistics_are_of_the_files_of_the_head(lab, computer):
    lab.create("id BIGINT, p INT", "PARTITIONED BY (p)", **BOTH)
    lab.insert("(1, 1), (2, 1), (3, 2)")
    computer.compute(order(lab.name))
    lab.insert("(4, 2), (5, 3)")
    computer.compute(order(lab.name))
    table = lab.table()
    head = table.head(MAIN).snapshot_id
    [entry] = [one for one in table.metadata.partition_statistics if one.snapshot_id == head]
    frame = lab.spark.read.parquet(entry.statistics_path)
    rows = frame.selectExpr("partition.p", "data_record_count", "data_file_count").collect()
    assert sorted(map(tuple, rows)) == [(1, 2, 1), (2, 2, 2), (3, 1, 1)]
    assert len(described_partitions(lab.table())) == 2


@pytest.mark.parametrize("evolved", [False, True])
def test_partition_statistics_are_made_from_the_last_ones_where_that_is_right(
    lab, computer, monkeypatch, evolved
):
    """Of a table of several specs Iceberg 1.12 loses partitions that way (docs/decisions/0042)."""
    whole = []
    undescribed = StatisticsComputer._without_partition_statistics
    monkeypatch.setattr(
        StatisticsComputer,
        "_without_partition_statistics",
        lambda self, java: whole.append(java) or undescribed(self, java),
    )
    lab.create("id BIGINT, p INT", "PARTITIONED BY (p)", **BOTH)
    lab.insert("(1, 1), (2, 2), (3, 3)")
    if evolved:
        lab.sql("ALTER TABLE {t} REPLACE PARTITION FIELD p WITH bucket(4, id)")
        lab.insert("(1, 1), (2, 2), (3, 3), (4, 1), (5, 2)")
    computer.compute(order(lab.name))
    lab.insert("(6, 1)")
    computer.compute(order(lab.name))
    assert len(whole) == (2 if evolved else 0)
    table = lab.table()
    head = table.head(MAIN).snapshot_id
    [entry] = [one for one in table.metadata.partition_statistics if one.snapshot_id == head]
    told = "SUM(data_file_count), SUM(data_record_count)"
    frame = lab.spark.read.parquet(entry.statistics_path).selectExpr(*told.split(", "))
    exact = lab.sql("SELECT COUNT(*), SUM(record_count) FROM {t}.files").collect()
    assert frame.collect() == exact


def test_nothing_is_done_where_they_are_fresh(lab, computer):
    lab.create("id BIGINT", **{"firnline.statistics": "id"})
    lab.sql("INSERT INTO {t} SELECT id FROM range(100)")
    computer.compute(order(lab.name, REQUESTED))
    location = lab.table().metadata_location
    assert computer.compute(order(lab.name, REQUESTED)).numbers == {}
    lab.insert("(1), (2)")
    assert computer.compute(order(lab.name)).numbers == {}  # two of a hundred
    assert stored(lab, ".stats") == {Path(lab.table().metadata.statistics[0].statistics_path).name}
    assert location != lab.table().metadata_location
    lab.sql("INSERT INTO {t} SELECT id FROM range(20)")
    assert computer.compute(order(lab.name)).numbers["columns_described"] == 1
    assert computer.compute(order(lab.name, REQUESTED)).numbers == {}


def test_another_engines_file_of_the_same_snapshot_is_not_replaced(lab, computer, monkeypatch):
    """It comes while we read: Iceberg's own procedure, as `ANALYZE` of another engine would."""
    filled(lab, 50)
    sketched = StatisticsComputer._compute_sketches

    def and_another(self: Any, *given: Any) -> Any:
        made = sketched(self, *given)
        lab.sql(f"CALL lake.system.compute_table_stats('{lab.namespace}.t', NULL, array('p'))")
        return made

    monkeypatch.setattr(StatisticsComputer, "_compute_sketches", and_another)
    with pytest.raises(RetryLater, match="another engine has described"):
        computer.compute(order(lab.name))
    [theirs] = lab.table().metadata.statistics
    assert [blob.fields for blob in theirs.blob_metadata] == [[2]]
    assert stored(lab, ".stats") == {Path(theirs.statistics_path).name}
    assert lab.table().metadata.partition_statistics == []


def test_what_another_engine_has_described_a_moment_ago_is_not_computed_again(lab, computer):
    filled(lab, 50)
    lab.sql(f"CALL lake.system.compute_table_stats('{lab.namespace}.t')")
    lab.insert("(99, 1)")  # of fifty rows
    numbers = computer.compute(order(lab.name)).numbers
    assert "columns_described" not in numbers
    assert numbers["partition_statistics_bytes"] > 0


@pytest.mark.parametrize("when", ["before the commit", "within the commit"])
def test_a_snapshot_that_expires_meanwhile_gets_no_entry(lab, computer, monkeypatch, when):
    filled(lab, 50)
    stored_before = stored(lab, "")
    committed = compute_statistics._commit_statistics

    def expire() -> None:
        lab.insert("(100, 1)")
        newer = lab.table().head(MAIN).timestamp_ms
        java = lab.java.load(lab.name).java
        java.expireSnapshots().expireOlderThan(newer).cleanExpiredFiles(False).commit()

    def commit(java: Any, made: Any, stale: Any) -> None:
        if made.of_columns is not None and when == "within the commit":
            expire()
        committed(java, made, stale)

    sketched = StatisticsComputer._compute_sketches

    def sketch(self: Any, *given: Any) -> Any:
        made = sketched(self, *given)
        if when == "before the commit":
            expire()
        return made

    monkeypatch.setattr(compute_statistics, "_commit_statistics", commit)
    monkeypatch.setattr(StatisticsComputer, "_compute_sketches", sketch)
    with pytest.raises(RetryLater, match="was expired while"):
        computer.compute(order(lab.name))
    metadata = lab.table().metadata
    assert (metadata.statistics, metadata.partition_statistics) == ([], [])
    assert not {one for one in stored(lab, "") - stored_before if "stat" in one}


def test_entries_of_snapshots_that_are_gone_leave_with_their_files(lab, computer):
    filled(lab, 50)
    named = lab.table()
    beside = f"{named.metadata.location}/metadata/gone.stats"
    data = next(one for one in lab.stored() if one.endswith(".parquet"))
    Path(beside.removeprefix("file:")).write_bytes(b"old")
    java = lab.java.load(lab.name).java
    iceberg, none = lab.java.iceberg, lab.java.jvm.java.util.ArrayList()
    for number, path in ((2**60, beside), (2**60 + 1, f"file:{data}")):
        entry = iceberg.GenericStatisticsFile(number, path, 3, 1, none)
        java.updateStatistics().setStatistics(entry).commit()
    numbers = computer.compute(order(lab.name)).numbers
    assert numbers["stale_statistics_removed"] == 2
    head = lab.table().head(MAIN).snapshot_id
    assert [one.snapshot_id for one in lab.table().metadata.statistics] == [head]
    assert not Path(beside.removeprefix("file:")).exists()
    assert Path(data).exists()  # an entry may name whatever it likes


def test_expiry_removes_what_described_expired_snapshots_and_keeps_the_rest(lab, computer, java):
    filled(lab, 50)
    computer.compute(order(lab.name))
    old = statistics_of(lab)
    lab.sql("INSERT INTO {t} SELECT id, CAST(id % 3 AS INT) FROM range(50, 100)")
    computer.compute(order(lab.name))
    new = statistics_of(lab) - old
    assert (len(old), len(new)) == (2, 2)
    expirer = Expirer(computer.tables, java, lambda key: (), "w1", now_ms)
    at = now_ms()
    expirer.expire(
        ExpireSnapshots(
            "e1", lab.name, "expire", "test", 1, 1, at, at + 3_600_000, {},
            older_than_ms=at, retain_last=1, protected_snapshot_ids=(), agreed=True,
        )
    )  # fmt: skip
    assert len(lab.table().snapshots) == 1
    assert statistics_of(lab) == new
    there = {Path(one).name for one in lab.stored()}
    assert new <= there
    assert not old & there


def test_orphan_removal_keeps_both_kinds_and_takes_what_a_killed_worker_has_left(lab, computer):
    filled(lab, 50)
    computer.compute(order(lab.name))
    left = root(lab) / "metadata" / "7-3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab.stats"
    left.write_bytes(b"12345")
    age(root(lab))
    numbers = OrphanRemover(computer.tables, "w1", now_ms).remove(orphan_order(lab.name)).numbers
    assert numbers["files_quarantined"] == 1
    assert not left.exists()
    assert statistics_of(lab) <= {Path(one).name for one in lab.stored()}
    assert len(statistics_of(lab)) == 2


def test_a_column_that_is_not_there_is_refused_and_a_preview_says_so(lab, computer, tables):
    lab.create("id BIGINT, s STRUCT<a: INT>", **{"firnline.statistics": "id, nmae"})
    lab.sql("INSERT INTO {t} SELECT id, NULL FROM range(3)")
    for ask in (computer.compute, lambda one: preview(tables, one, now_ms())):
        with pytest.raises(TaskRefused, match="names 'nmae', and the table has no such column"):
            ask(order(lab.name))
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.statistics' = 's.a, id')")
    shown = preview(tables, order(lab.name), now_ms())
    assert (shown.columns, shown.files) == (("s.a", "id"), 2)
    assert stored(lab, ".stats") == set()
    assert computer.compute(order(lab.name)).numbers["columns_described"] == 2
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.statistics' = 's')")
    with pytest.raises(TaskRefused, match="of type struct"):
        computer.compute(order(lab.name))


def test_a_column_with_a_dot_in_its_name_is_left_out_and_refused_alone(lab, computer):
    columns = "id BIGINT, `a.b` INT, `c.d` STRUCT<e: INT>"
    lab.create(columns, **{"firnline.statistics": "all"})
    lab.sql("INSERT INTO {t} SELECT id, 1, NULL FROM range(3)")
    assert computer.compute(order(lab.name)).numbers["columns_described"] == 1
    assert distinct(lab) == {"id": 3}
    for name in ("a.b", "c.d.e"):
        lab.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('firnline.statistics' = '{name}')")
        with pytest.raises(TaskRefused, match="with a dot in the name") as why:
            computer.compute(order(lab.name))
        assert why.value.reason == "dotted_column"
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.statistics' = 'a.b, id')")
    lab.sql("INSERT INTO {t} SELECT id, 1, NULL FROM range(9)")
    numbers = computer.compute(order(lab.name)).numbers
    assert (numbers["columns_described"], numbers["columns_left_out"]) == (1, 1)


def filled(lab: Lab, rows: int) -> None:
    lab.create("id BIGINT, p INT", "PARTITIONED BY (p)", **BOTH, **{"gc.enabled": "true"})
    lab.sql(f"INSERT INTO {{t}} SELECT id, CAST(id % 3 AS INT) FROM range({rows})")


def statistics_of(lab: Lab) -> set[str]:
    metadata = lab.table().metadata
    named = (*metadata.statistics, *metadata.partition_statistics)
    return {Path(one.statistics_path).name for one in named}
