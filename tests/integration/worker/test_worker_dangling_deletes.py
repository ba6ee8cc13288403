"""Delete files that apply to nothing leave a table by one commit, and no row changes."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.table_action.remove_dangling_deletes import DanglingDeletes
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.scan.planning import live_files
from firnline_standalone.previews import preview
from firnline_worker.spark.java_api import SparkJvm
from firnline_worker.table_actions import remove_dangling_deletes
from firnline_worker.table_actions.remove_dangling_deletes import DanglingDeleteRemover

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.fixture
def remover(tables: Any, spark: Any, catalog_uri: str) -> DanglingDeleteRemover:
    commits = JavaCommits(SparkJvm(spark), catalog_uri)
    return DanglingDeleteRemover(tables, commits, "w1", now_ms)


def order(table: TableName, task_id: str = "dangling-1") -> TableOrder:
    at = now_ms()
    name = DanglingDeletes.name
    return TableOrder(task_id, table, name, "dangling_deletes", 1, 1, at, at + 3_600_000)


def deletes(lab: Lab) -> int:
    table = lab.table()
    return len(live_files(table, table.head_id(MAIN)).deletes)


def files(lab: Lab) -> Any:
    table = lab.table()
    return live_files(table, table.head_id(MAIN)).data


def removed(result: TableResult) -> int:
    return int(result.numbers["removed_delete_files"])


def test_deletes_of_a_partition_that_was_overwritten_go(lab, remover, in_thread):
    """A dynamic overwrite of p=1 leaves its equality and position deletes behind, those of p=2
    still apply."""
    lab.create("id BIGINT, p INT", "PARTITIONED BY (p)", **{"write.delete.mode": "merge-on-read"})
    lab.insert("(1, 1), (2, 1), (3, 2), (4, 2)")
    lab.equality_delete(["id"], "(1)", partition=[1])
    lab.equality_delete(["id"], "(3)", partition=[2])
    lab.sql("DELETE FROM {t} WHERE id = 2")
    lab.writer.delete(*[f for f in files(lab) if f.partition == "[1]"])
    lab.insert("(9, 1)")
    before, rows = lab.table().head(MAIN), lab.rows()
    assert (rows, deletes(lab)) == ([(4, 2), (9, 1)], 3)
    result = in_thread(remover.remove, order(lab.name))
    assert removed(result) == 2
    assert (lab.rows(), deletes(lab)) == (rows, 1)
    after = lab.table().head(MAIN)
    assert after.parent_snapshot_id == before.snapshot_id
    summary = after.summary.additional_properties
    assert (summary["firnline.task-id"], summary["removed-delete-files"]) == ("dangling-1", "2")
    assert removed(remover.remove(order(lab.name, "dangling-2"))) == 0
    assert lab.table().head(MAIN) == after  # nothing to do makes no commit


def test_a_delete_whose_keys_no_file_can_hold_goes_too(lab, remover):
    lab.create("id BIGINT NOT NULL")
    lab.insert("(1), (2)")
    lab.equality_delete(["id"], "(70)", rows="(70)")
    lab.equality_delete(["id"], "(2)")
    rows = lab.rows()
    assert removed(remover.remove(order(lab.name))) == 1
    assert (lab.rows(), deletes(lab)) == (rows, 1)


def test_a_deletion_vector_stays_with_its_data_file(lab, remover):
    lab.create("id BIGINT", **{"format-version": "3", "write.delete.mode": "merge-on-read"})
    lab.insert("(1), (2), (3)")
    lab.sql("DELETE FROM {t} WHERE id = 2")
    assert deletes(lab) == 1
    rows = lab.rows()
    assert removed(remover.remove(order(lab.name))) == 0
    assert (lab.rows(), deletes(lab)) == (rows, 1)


def test_a_rollback_meanwhile_keeps_what_applies_again(lab, remover, monkeypatch):
    """The head that was examined lacks the data file; the one that is there at the commit has it,
    and the delete with it."""
    lab.create("id BIGINT NOT NULL")
    lab.insert("(1), (2)")
    lab.equality_delete(["id"], "(2)")
    older = lab.table().head(MAIN).snapshot_id
    lab.writer.delete(*files(lab))
    lab.insert("(5)")
    looked = remove_dangling_deletes.dangling_deletes
    rolled_back = []

    def look(table: Any, head: int) -> Any:
        found = looked(table, head)
        if not rolled_back:
            rolled_back.append(found)
            name = f"{lab.namespace}.t"
            lab.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {older})")
        return found

    monkeypatch.setattr(remove_dangling_deletes, "dangling_deletes", look)
    assert removed(remover.remove(order(lab.name))) == 0
    assert len(rolled_back[0]) == 1
    assert (lab.rows(), deletes(lab)) == ([(1,)], 1)


def test_a_writer_beside_it_makes_it_look_again(lab, remover, monkeypatch):
    lab.create("id BIGINT NOT NULL")
    lab.insert("(1)")
    lab.equality_delete(["id"], "(70)")
    looked = remove_dangling_deletes.dangling_deletes
    heads = []

    def look(table: Any, head: int) -> Any:
        found = looked(table, head)
        heads.append(head)
        if len(heads) == 1:
            lab.equality_delete(["id"], "(80)")
        return found

    monkeypatch.setattr(remove_dangling_deletes, "dangling_deletes", look)
    assert removed(remover.remove(order(lab.name))) == 2
    assert len(set(heads)) == 2
    assert (lab.rows(), deletes(lab)) == ([(1,)], 0)


def test_an_order_that_comes_again_after_its_commit_makes_no_other(lab, remover):
    lab.create("id BIGINT NOT NULL")
    lab.insert("(1)")
    lab.equality_delete(["id"], "(70)")
    remover.remove(order(lab.name))
    head = lab.table().head(MAIN)
    lab.equality_delete(["id"], "(80)")
    remover.remove(order(lab.name))
    assert deletes(lab) == 1
    assert lab.table().snapshot(head.snapshot_id) == head


def test_a_preview_says_what_would_go_and_takes_nothing(lab, remover, tables):
    lab.create("id BIGINT NOT NULL")
    lab.insert("(1)")
    lab.equality_delete(["id"], "(70)")
    asked = order(lab.name)
    shown = preview(tables, asked, now_ms())
    assert (shown.equality_deletes, shown.position_deletes, deletes(lab)) == (1, 0, 1)
    assert shown.bytes == remover.remove(asked).numbers["removed_bytes"] > 0
