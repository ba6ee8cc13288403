"""Files whose keys overlap are sorted together, deletes applied; rows and their ids stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from firnline_committer.commit.committer import Committer
from firnline_domain.base.values import replace
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.scan.planning import live_files
from firnline_standalone.previews import preview
from firnline_worker.rewrite.rewriter import Rewriter

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]
Rewritten = Callable[..., RewriteFinished]


def files(lab: Lab) -> list[DataFileEntry]:
    table = lab.table()
    return list(live_files(table, table.head_id(MAIN)).data)


def fill(lab: Lab, commits: int = 7, rows: int = 2_000) -> None:
    """Each commit brings rows of all keys."""
    for number in range(commits):
        lab.sql(
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ "
            f"CAST(pmod(hash(id, {number}), 100000) AS BIGINT), concat('row ', {number}, '-', id) "
            f"FROM range({rows})"
        )


def keys(file: DataFileEntry) -> list[Any]:
    return pq.read_table(file.path.removeprefix("file:"))["k"].to_pylist()


def sort(lab: Lab, reason: str = "unsorted") -> Any:
    return replace(lab.order(), action="sort", reason=reason, min_dead_ratio=1.0)


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_are_sorted_with_deletes_applied_and_a_reader_of_one_key_opens_one_file(
    lab: Lab, rewritten: Rewritten, version: str
) -> None:
    given = {"format-version": version, "write.target-file-size-bytes": "90000"}
    given |= {"firnline.sort": "k desc, v", "write.delete.mode": "merge-on-read"}
    lab.create("k BIGINT, v STRING", **given)
    fill(lab)
    [first, *_] = sorted(keys(files(lab)[0]))
    lab.equality_delete(["k"], f"({first})")
    lab.sql("DELETE FROM {t} WHERE v LIKE '%-7'")
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.target-file-size-bytes' = '15000')")
    before = lab.sql("SELECT DISTINCT _file FROM {t} WHERE k BETWEEN 50000 AND 50100").count()
    result = rewritten(action="sort", min_dead_ratio=1.0)
    assert result.measures["overlap_depth"] == 7
    assert result.row_map is None
    assert sum(group.rows_masked for group in result.groups) >= 7
    found = sorted(files(lab), key=lambda one: one.path)
    assert len(found) > 3
    in_turn = [key for file in found for key in keys(file)]
    assert in_turn == sorted(in_turn, reverse=True)
    after = lab.sql("SELECT DISTINCT _file FROM {t} WHERE k BETWEEN 50000 AND 50100").count()
    assert before >= 5
    assert after == 1
    assert {one.sort_order_id for one in found} == {0}  # the table itself has no order


def test_along_a_curve_readers_of_either_column_open_fewer_files(
    lab: Lab, rewritten: Rewritten, rewriter: Rewriter
) -> None:
    given = {"format-version": "2", "write.target-file-size-bytes": "400000"}
    given |= {"firnline.sort": "zorder(k, v)", "write.delete.mode": "merge-on-read"}
    lab.create("k BIGINT, v STRING", **given)
    for number in range(9):  # of all keys, which say nothing about the texts
        lab.sql(
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ "
            f"CAST(pmod(hash(id, {number}), 100000) AS BIGINT), "
            f"concat('customer-', lpad(pmod(xxhash64(id, {number}), 100000), 6, '0')) "
            "FROM range(3000)"
        )
    lab.sql("DELETE FROM {t} WHERE k = (SELECT min(k) FROM {t})")
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.target-file-size-bytes' = '8000')")
    rows = lab.sql("SELECT k, v FROM {t} ORDER BY k, v").collect()
    asked = [("k", 1_000 + 12_000 * n) for n in range(9)]
    asked += [("v", f"customer-{1_000 + 12_000 * n:06}") for n in range(9)]
    assert {opened(lab, *one) for one in asked} == {9}
    result = rewritten(action="sort", min_dead_ratio=1.0)
    assert (result.measures["overlap_depth"], result.row_map) == (9, None)
    assert sum(group.rows_masked for group in result.groups) >= 1
    assert lab.sql("SELECT k, v FROM {t} ORDER BY k, v").collect() == rows
    found = files(lab)
    assert len(found) >= 16
    shares = [opened(lab, *one) / len(found) for one in asked]
    assert max(sum(shares[:9]), sum(shares[9:])) / 9 < 0.4, shares
    assert {one.sort_order_id for one in found} == {0}  # no order that Iceberg has a name for
    assert rewriter.rewrite(sort(lab), lambda _: None).groups == ()


def opened(lab: Lab, column: str, value: Any) -> int:
    """Files that Iceberg plans for a reader of one value."""
    equal = lab.java.iceberg.expressions.Expressions.equal(column, value)
    found = lab.java.load(lab.name).java.newScan().filter(equal).planFiles()
    return int(lab.java.iceberg.relocated.com.google.common.collect.Iterables.size(found))


@pytest.mark.parametrize("setter", ["table", "policy"])
def test_files_in_the_tables_own_order_say_so(lab: Lab, rewritten: Rewritten, setter: str) -> None:
    lab.create("k BIGINT, v STRING", **({"firnline.sort": "order"} if setter == "table" else {}))
    lab.sql("ALTER TABLE {t} WRITE LOCALLY ORDERED BY k NULLS LAST")
    fill(lab)
    lab.sql("INSERT INTO {t} VALUES (NULL, 'no key'), (5, 'five')")
    assert lab.table().metadata.default_sort_order_id == 1
    policies = {"policy:lake.**:firnline.sort": "order"} if setter == "policy" else {}
    rewritten(action="sort", min_dead_ratio=1.0, policies=policies)
    [one] = files(lab)
    assert one.sort_order_id == 1
    assert keys(one)[-1] is None
    assert keys(one)[:-1] == sorted(keys(one)[:-1])


def test_what_is_sorted_is_left_alone(lab: Lab, rewritten: Rewritten, rewriter: Rewriter) -> None:
    small = {"write.target-file-size-bytes": "40000", "firnline.sort": "k"}
    lab.create("k BIGINT, v STRING", **small)
    fill(lab)
    rewritten(action="sort", min_dead_ratio=1.0)
    fill(lab, 3)
    again = rewriter.rewrite(sort(lab), lambda _: None)
    assert (again.groups, again.measures["overlap_depth"]) == ((), 4)


def test_a_delete_by_position_that_comes_meanwhile_is_a_conflict(
    lab: Lab, rewriter: Rewriter, committer: Committer
) -> None:
    """Where its row has gone no map of positions says."""
    lab.create("k BIGINT, v STRING", **{"firnline.sort": "k", "write.delete.mode": "merge-on-read"})
    fill(lab)
    result = rewriter.rewrite(sort(lab), lambda _: None)
    assert result.groups
    lab.sql("DELETE FROM {t} WHERE v = 'row 3-5'")
    rows = lab.rows()
    [event] = committer.commit_all([result])
    assert type(event).__name__ == "RewriteConflicted", event
    assert lab.rows() == rows
    assert len(files(lab)) == 7


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "no_sort_order"),
        ({"firnline.sort": "nothing"}, "unsortable_column"),
        ({"firnline.sort": "v, f"}, "unsortable_column"),
        ({"firnline.sort": "k; v"}, "unsortable_column"),
        ({"firnline.sort": "zorder(k)"}, "unsortable_column"),
        ({"firnline.sort": "zorder(k, k)"}, "unsortable_column"),
        ({"firnline.sort": "zorder(k, v desc)"}, "unsortable_column"),
        ({"firnline.sort": "zorder(k, f)"}, "unsortable_column"),
        ({"firnline.sort": "v, zorder(k, v)"}, "unsortable_column"),
    ],
)
def test_who_asks_for_what_cannot_be_sorted_is_told_and_a_policy_is_not_parked(
    lab: Lab, rewriter: Rewriter, tables: Any, properties: dict[str, str], reason: str
) -> None:
    lab.create("k BIGINT, v STRING, f DOUBLE", **properties)
    lab.insert("(1, 'a', 1.0)")
    with pytest.raises(TaskRefused) as refused:
        rewriter.rewrite(sort(lab, "requested"), lambda _: None)
    assert refused.value.reason == reason
    result = rewriter.rewrite(sort(lab), lambda _: None)
    assert (result.groups, result.handover_reason) == ((), reason)
    with pytest.raises(TaskRefused, match=r"firnline\.sort|column|type"):
        preview(tables, sort(lab), now_ms())


def test_a_preview_says_what_would_be_sorted(lab: Lab, tables: Any) -> None:
    lab.create("k BIGINT, v STRING", **{"firnline.sort": "k"})
    fill(lab)
    seen = preview(tables, sort(lab), now_ms())
    assert (seen.files, seen.outputs, seen.refused) == (7, 1, None)
