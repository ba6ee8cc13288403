"""A v2 table becomes v3: its rows are the same at every snapshot, and all of them have row ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.upgrade_format import FormatReason, FormatUpgrade
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.scan.planning import live_files
from firnline_standalone.previews import preview
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.table_actions.upgrade_format import FormatUpgrader

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]
WANTED = {"firnline.format-version": "3"}
ANY_WRITER = {"firnline.format-version.writer-hours": "0"}


@pytest.fixture
def upgrader(tables: Any, java: JavaTables) -> FormatUpgrader:
    return FormatUpgrader(tables, java, "w1", now_ms)


def order(lab: Lab, reason: str = Reason.REQUESTED, **numbers: float) -> TableOrder:
    at, given = now_ms(), {"format_version": 2.0, "wanted_version": 3.0, **numbers}
    name, task = FormatUpgrade.name, f"{lab.namespace}-{at}"
    return TableOrder(task, lab.name, name, reason, 1, 1, at, at + 3_600_000, given)


def at_each_snapshot(lab: Lab) -> dict[int, list[Any]]:
    """What Spark reads of each retained snapshot."""
    return {
        one.snapshot_id: sorted(
            tuple(row)
            for row in lab.sql(f"SELECT * FROM {{t}} VERSION AS OF {one.snapshot_id}").collect()
        )
        for one in lab.table().snapshots
    }


def fill(lab: Lab, **properties: str) -> None:
    """Two partitions of several files, with rows deleted by position and by key."""
    more = {"write.delete.mode": "merge-on-read", **properties}
    lab.create("id INT, p STRING", "PARTITIONED BY (p)", **more)
    for begin in (0, 10, 20):
        rows = ", ".join(f"({n}, '{'ab'[n % 2]}')" for n in range(begin, begin + 10))
        lab.insert(rows)
    lab.sql("DELETE FROM {t} WHERE id IN (3, 14)")
    lab.equality_delete(["id"], "(5), (7)", partition=["b"])


def test_rows_are_the_same_at_each_snapshot_and_all_have_ids(
    lab: Lab, upgrader: FormatUpgrader, in_thread: Any
) -> None:
    fill(lab)
    before, head = at_each_snapshot(lab), lab.table().head("main")
    result = in_thread(upgrader.upgrade, order(lab))
    assert result.numbers == {"from_version": 2, "to_version": 3, "files_with_new_row_ids": 6}
    after = lab.table()
    assert after.format_version == 3
    assert after.head("main").parent_snapshot_id == head.snapshot_id
    seen = at_each_snapshot(lab)
    assert {number: seen[number] for number in before} == before
    assert sorted(row for row in seen[after.head("main").snapshot_id]) == before[head.snapshot_id]
    ids = [row[0] for row in lab.rows("_row_id")]
    assert None not in ids
    assert len(set(ids)) == len(ids) == 26
    head = after.head("main")
    assert upgrader.upgrade(order(lab)).numbers["files_with_new_row_ids"] == 0
    assert lab.table().head("main") == head


def test_a_writer_who_may_not_know_v3_is_named_and_keeps_the_table_v2(
    lab: Lab, upgrader: FormatUpgrader
) -> None:
    fill(lab)
    row = pa.table({"id": pa.array([99], pa.int32()), "p": ["a"]})
    lab.tables.client.load_table((lab.namespace, "t")).append(row)  # PyIceberg cannot write v3
    with pytest.raises(TaskRefused, match=r"does not say what it is.*writer-hours=0") as refused:
        upgrader.upgrade(order(lab))
    assert refused.value.reason == "writer_not_ready"
    assert "does not say" in (preview(upgrader.tables, order(lab), now_ms()).refused or "")
    assert lab.table().format_version == 2
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.format-version.writer-hours' = '0')")
    assert "cannot be undone" in preview(upgrader.tables, order(lab), now_ms()).says
    upgrader.upgrade(order(lab))
    assert lab.table().format_version == 3


def test_nothing_is_done_before_it_was_announced_or_when_nobody_asks_for_it(
    lab: Lab, upgrader: FormatUpgrader
) -> None:
    fill(lab, **WANTED)
    told = upgrader.upgrade(order(lab, FormatReason.FORMAT_ANNOUNCED, announces=1.0))
    assert told.numbers == {
        "announced": 1, "writers_not_ready": 0, "partitions_with_v2_deletes": 2,
        "equality_delete_files": 1, "position_delete_files": 2,
    }  # fmt: skip
    for announced_ms in (0, now_ms(), now_ms() - 23 * 3_600_000):
        with pytest.raises(TaskRefused) as refused:
            upgrader.upgrade(order(lab, FormatReason.FORMAT_VERSION, announced_ms=announced_ms))
        assert refused.value.reason == "format_grace_period"
    then = now_ms() - 24 * 3_600_000
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.format-version' = '2')")
    with pytest.raises(TaskRefused) as refused:
        upgrader.upgrade(order(lab, FormatReason.FORMAT_VERSION, announced_ms=then))
    assert refused.value.reason == "not_wanted"
    assert lab.table().format_version == 2
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.format-version' = '3')")
    upgrader.upgrade(order(lab, FormatReason.FORMAT_VERSION, announced_ms=then))
    assert lab.table().format_version == 3


def kinds(lab: Lab) -> list[str]:
    table = lab.table()
    deletes = live_files(table, table.head_id("main")).deletes
    return sorted(f"{one.kind.value} {one.scope.partition}" for one in deletes)


def large(lab: Lab) -> None:
    """Files of the target size, so that nothing is rewritten."""
    fill(lab, **{"write.target-file-size-bytes": "1000"})
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.granularity' = 'partition')")
    lab.sql("DELETE FROM {t} WHERE id IN (1, 13, 25, 2, 22)")  # one file for each partition


def test_delete_files_of_v2_become_vectors_a_partition_at_a_time(
    lab: Lab, upgrader: FormatUpgrader, rewritten: Callable[..., Any], in_thread: Any
) -> None:
    large(lab)
    assert len(kinds(lab)) == 5
    before, rows = at_each_snapshot(lab), lab.rows()
    in_thread(upgrader.upgrade, order(lab))
    for scope in lab.scopes():
        rewritten(scope, action="convert", min_dead_ratio=1.0)
    assert {one.split()[0] for one in kinds(lab)} == {"deletion_vector"}
    assert lab.rows() == rows
    seen = at_each_snapshot(lab)
    assert {number: seen[number] for number in before} == before
    table = lab.table()
    live = live_files(table, table.head_id("main"))
    assert len({one.referenced_data_file for one in live.deletes}) == len(live.deletes)
    lab.sql("DELETE FROM {t} WHERE id = 11")  # Spark joins its vector with ours
    assert lab.rows() == [row for row in rows if row[0] != 11]
