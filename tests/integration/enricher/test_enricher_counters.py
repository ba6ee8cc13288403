"""Counters summed from deltas equal a recount, over commits of Iceberg's own writers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from firnline_demo.upserts import commit_upsert
from firnline_domain.identity import Scope
from firnline_domain.records.events import ChangeKind
from firnline_domain.records.parts.tallies import FileTally
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.long_run import mark_long

pytestmark = [pytest.mark.spark, pytest.mark.stack]
COMMITS = 16
TARGET = 4096


def recount(table: LoadedTable) -> dict[Scope, FileTally]:
    head = table.head_id("main")
    entries = [] if head is None else live_entries(table, head, Detail.COUNTS)
    return {part.scope: part.added for part in partition_changes(entries, TARGET)}


@pytest.mark.parametrize("seed", mark_long(range(4), but=[0]))
def test_random_histories(seed: int, make_history: Callable, follower: Callable) -> None:
    history = make_history("followed", seed)
    behind = follower("followed")
    for number in range(COMMITS):
        if number == COMMITS // 2 and seed % 3 == 0:
            history.upgrade_to_v3()
        history.step()
        table = behind.follow()
        assert behind.head == table.head_id("main")
        assert behind.holds == recount(table)
    assert ChangeKind.DELTA in behind.kinds


def files_by_spark(spark, table: str) -> dict[int, tuple[int, int]]:
    """Content (0 data, 1 positions, 2 equality) -> files and records, by Iceberg's own table."""
    query = f"SELECT content, count(*), sum(record_count) FROM {table}.files GROUP BY content"
    return {content: (files, records) for content, files, records in spark.sql(query).collect()}


def files_by_us(holds: dict[Scope, FileTally]) -> dict[int, tuple[int, int]]:
    total = sum(holds.values(), FileTally())
    kinds = {0: total.all_data, 1: total.position_deletes, 2: total.equality_deletes}
    return {key: (one.files, one.records) for key, one in kinds.items() if one.files}


def test_appends_merge_on_read_upserts_and_a_rewrite(spark, namespace, follower) -> None:
    table = f"lake.{namespace}.written"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, v STRING) USING iceberg TBLPROPERTIES "
        "('format-version'='2','write.delete.mode'='merge-on-read',"
        " 'write.target-file-size-bytes'='4096')"
    )
    behind = follower("written")

    def agrees() -> None:
        loaded = behind.follow()
        assert behind.holds == recount(loaded)
        assert files_by_us(behind.holds) == files_by_spark(spark, table)

    spark.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range(100)")
    agrees()
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    agrees()
    assert 1 in files_by_us(behind.holds)
    for number in range(3):
        commit_upsert(spark, table, ["id"], [(number, "b"), (number + 50, "b")], {})
        agrees()
    assert files_by_us(behind.holds)[2] == (3, 6)
    spark.sql(f"CALL lake.system.rewrite_manifests('{namespace}.written', false)")
    agrees()
    assert not behind.others  # it changes no file
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{namespace}.written')")
    agrees()
    (other,) = behind.others
    assert (other.operation, other.maker["engine-name"]) == ("replace", "spark")
    assert other.maker["app-id"] == spark.sparkContext.applicationId
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode'='copy-on-write')")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    agrees()
    spark.sql(f"TRUNCATE TABLE {table}")
    agrees()
    assert 0 not in files_by_us(behind.holds)
