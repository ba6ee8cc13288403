"""Small manifests become few, by partition, and no row changes."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.table_action.rewrite_manifests import ManifestRewrite
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.metadata.manifest_reader import ManifestFile
from firnline_standalone.previews import preview
from firnline_worker.table_actions import rewrite_manifests
from firnline_worker.table_actions.rewrite_manifests import ManifestRewriter

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]
UNMERGED = {"commit.manifest-merge.enabled": "false"}


@pytest.fixture
def rewriter(tables: Any, java: Any) -> ManifestRewriter:
    return ManifestRewriter(tables, java, "w1", now_ms)


def order(table: TableName) -> TableOrder:
    at = now_ms()
    return TableOrder(
        "manifests-1", table, ManifestRewrite.name, "many_manifests", 1, 1, at, at + 3_600_000
    )


def listed(lab: Lab) -> tuple[ManifestFile, ...]:
    table = lab.table()
    return tuple(table.manifests_of(table.head(MAIN)))


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_data_and_delete_manifests_become_one_each(lab, rewriter, in_thread, version):
    """In v3 row ids and their sequence numbers stay (`seen`)."""
    lab.create("id BIGINT, p INT", "PARTITIONED BY (p)", **UNMERGED, **{"format-version": version})
    for number in range(4):
        lab.insert(f"({number}, 1), ({number + 10}, 2)")
    if version == "2":
        lab.equality_delete(["id"], "(1)", partition=[1])
        lab.equality_delete(["id"], "(12)", partition=[2])
    rows, before = lab.seen(), listed(lab)
    result = in_thread(rewriter.rewrite, order(lab.name))
    after = listed(lab)
    assert [one.holds_deletes for one in after] == ([False, True] if version == "2" else [False])
    assert lab.seen() == rows
    assert result.numbers["manifests_before"] == len(before)
    assert result.numbers["manifests_after"] == len(after)
    assert result.numbers["manifests_rewritten"] == len(before)
    head = lab.table().head(MAIN)
    assert head.summary.additional_properties["firnline.task-id"] == "manifests-1"
    rewriter.rewrite(order(lab.name))
    assert lab.table().head(MAIN) == head  # nothing to do makes no commit


def test_what_is_nearly_full_is_left_alone_and_what_came_is_added(lab, rewriter):
    lab.create("id BIGINT, p INT", "PARTITIONED BY (p)", **UNMERGED)
    for start in (0, 150):  # a manifest's head is as large as 50 entries
        lab.sql(f"INSERT INTO {{t}} SELECT id, CAST(id AS INT) FROM range({start}, {start + 150})")
    rewriter.rewrite(order(lab.name))
    [full] = listed(lab)
    size = f"'commit.manifest.target-size-bytes' = '{full.length}'"
    lab.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({size})")
    for number in range(3):
        lab.insert(f"({number}, 999)")
    assert rewriter.rewrite(order(lab.name)).numbers["manifests_rewritten"] == 3
    assert len(listed(lab)) == 2
    assert full.path in {one.path for one in listed(lab)}


def test_manifests_of_an_older_spec_stay_apart(lab, rewriter):
    lab.create("id BIGINT, p INT", **UNMERGED)
    for number in range(3):
        lab.insert(f"({number}, 1)")
    lab.sql("ALTER TABLE {t} ADD PARTITION FIELD p")
    for number in range(3):
        lab.insert(f"({number}, 2)")
    rows = lab.rows()
    rewriter.rewrite(order(lab.name))
    assert sorted(one.spec_id for one in listed(lab)) == [0, 1]
    assert lab.rows() == rows


def test_a_writer_that_takes_a_manifest_away_makes_it_look_again(lab, rewriter, monkeypatch):
    lab.create("id BIGINT", **UNMERGED)
    for number in range(4):
        lab.insert(f"({number})")
    chosen, seen = rewrite_manifests.small_manifests, []

    def choose(table: Any) -> Any:
        found = list(chosen(table))
        seen.append(found)
        if len(seen) == 1:  # another's rewrite of the same, after we have looked
            lab.sql(f"CALL lake.system.rewrite_manifests('{lab.namespace}.t')")
            lab.insert("(9)")
        return iter(found)

    monkeypatch.setattr(rewrite_manifests, "small_manifests", choose)
    rewriter.rewrite(order(lab.name))
    assert len(listed(lab)) == 1
    assert lab.rows() == [(0,), (1,), (2,), (3,), (9,)]


def test_manifests_that_come_behind_a_commit_are_the_next_tasks(lab, rewriter, monkeypatch):
    lab.create("id BIGINT", **UNMERGED)
    for number in range(4):
        lab.insert(f"({number})")
    rewrite = ManifestRewriter._rewrite_small

    def rewrite_before_a_writer(*arguments: Any) -> bool:
        rewritten = rewrite(*arguments)
        lab.insert("(8)")
        lab.insert("(9)")
        return rewritten

    monkeypatch.setattr(ManifestRewriter, "_rewrite_small", rewrite_before_a_writer)
    rewriter.rewrite(order(lab.name))
    commits = [one.summary.additional_properties for one in lab.table().metadata.snapshots]
    assert sum("firnline.task-id" in one for one in commits) == 1
    assert len(listed(lab)) == 3


def test_a_preview_says_which_manifests_would_go(lab, rewriter, tables):
    lab.create("id BIGINT", **UNMERGED)
    for number in range(4):
        lab.insert(f"({number})")
    shown, before = preview(tables, order(lab.name), now_ms()), listed(lab)
    assert (shown.files, shown.bytes) == (4, sum(one.length for one in before))
    assert listed(lab) == before
