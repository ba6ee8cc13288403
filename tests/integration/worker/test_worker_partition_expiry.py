"""Files whose rows are all too old leave a table, by metadata alone; no other row does."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.aged_partitions import AgeReason, PartitionExpiry
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_standalone.previews import preview
from firnline_worker.spark.java_api import SparkJvm
from firnline_worker.table_actions.expire_partitions import PartitionExpirer

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]
TTL = {"firnline.partitions.ttl-hours": "240"}  # ten days


@pytest.fixture
def expirer(tables: Any, spark: Any, catalog_uri: str) -> PartitionExpirer:
    return PartitionExpirer(tables, JavaCommits(SparkJvm(spark), catalog_uri), "w1", now_ms)


def order(lab: Lab, reason: str = Reason.REQUESTED, **numbers: float) -> TableOrder:
    given = {"ttl_h": 240.0, **numbers}
    at = now_ms()
    name, task = PartitionExpiry.name, f"{lab.namespace}-{at}"
    return TableOrder(task, lab.name, name, reason, 1, 1, at, at + 3_600_000, given)


def fill(lab: Lab, columns: str, partition: str, of: str, **properties: str) -> None:
    """Rows that are 1, 9, 30 and 400 days old, each in a file of its own, one without a time, and a
    file of old and new rows where the table's partitions allow that."""
    lab.create(columns, partition, **properties)
    for days in (1, 9, 30, 400):
        lab.sql(f"INSERT INTO {{t}} SELECT {days}, {of.format(days=days)}")
    lab.sql("INSERT INTO {t} VALUES (0, NULL)")
    both = f"SELECT 41, {of.format(days=40)} UNION ALL SELECT 2, {of.format(days=2)}"
    lab.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM ({both})")


TIME = "current_timestamp() - INTERVAL {days} DAYS"
TEXT = "date_format(" + TIME + ", 'yyyy-MM-dd')"


@pytest.mark.parametrize(
    ("columns", "partition", "of", "more", "stay"),
    [
        ("d INT, at TIMESTAMP", "PARTITIONED BY (days(at))", TIME, {}, [0, 1, 2, 9]),
        ("d INT, at TIMESTAMP", "PARTITIONED BY (hours(at))", TIME, {}, [0, 1, 2, 9]),
        ("d INT, at DATE", "PARTITIONED BY (at)", f"CAST({TIME} AS DATE)", {}, [0, 1, 2, 9]),
        # within a year, and within a month, nobody knows; bounds of the files do
        ("d INT, at TIMESTAMP_NTZ", "PARTITIONED BY (years(at))", TIME, {}, None),
        ("d INT, at STRING", "PARTITIONED BY (at)", TEXT, {"column": "at"}, [0, 1, 2, 9]),
        ("d INT, at TIMESTAMP", "", TIME, {"column": "at"}, [0, 1, 2, 9, 41]),
    ],
)
def test_what_is_older_goes_and_a_file_with_one_younger_row_stays(
    lab: Lab, expirer: PartitionExpirer, in_thread: Any, columns: str, partition: str, of: str,
    more: dict[str, str], stay: list[int] | None,
) -> None:  # fmt: skip
    given = {f"firnline.partitions.{name}": text for name, text in more.items()}
    fill(lab, columns, partition, of, **TTL, **given)
    stored, seen = lab.stored(), preview(expirer.tables, order(lab), now_ms())
    result = in_thread(expirer.expire, order(lab))
    left = sorted(row[0] for row in lab.rows())
    assert left == (stay or sorted({0, 1, 2, 9} | ({41} & set(left))))
    assert result.numbers["files_removed"] == seen.files > 0
    assert result.numbers["rows_removed"] == 7 - len(left)
    assert stored <= lab.stored()  # until the snapshots expire
    summary = lab.table().head("main").summary
    assert summary is not None
    assert summary.operation.value == "delete"
    head = lab.table().head("main")
    assert expirer.expire(order(lab)).numbers == {}
    assert lab.table().head("main") == head


def test_an_announcement_takes_nothing_and_without_one_nothing_goes(
    lab: Lab, expirer: PartitionExpirer
) -> None:
    fill(lab, "d INT, at TIMESTAMP", "PARTITIONED BY (days(at))", TIME, **TTL)
    head = lab.table().head("main")
    told = expirer.expire(order(lab, AgeReason.PARTITIONS_ANNOUNCED, announces=1.0))
    assert (told.numbers["going_files"], told.numbers["going_rows"]) == (3, 3)
    for announced_ms in (0, now_ms(), now_ms() - 23 * 3_600_000):
        with pytest.raises(TaskRefused) as refused:
            expirer.expire(order(lab, AgeReason.OLD_PARTITIONS, announced_ms=announced_ms))
        assert refused.value.reason == "partitions_grace_period"
    assert lab.table().head("main") == head
    then = now_ms() - 24 * 3_600_000
    assert expirer.expire(order(lab, AgeReason.OLD_PARTITIONS, announced_ms=then)).numbers


def test_what_the_owner_says_now_holds(lab: Lab, expirer: PartitionExpirer) -> None:
    fill(lab, "d INT, at TIMESTAMP", "PARTITIONED BY (days(at))", TIME, **TTL)
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.partitions.ttl-hours' = '2400')")
    expirer.expire(order(lab))
    assert sorted(row[0] for row in lab.rows()) == [0, 1, 2, 9, 30, 41]
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.partitions.ttl-hours' = '0')")
    with pytest.raises(TaskRefused) as refused:
        expirer.expire(order(lab))
    assert refused.value.reason == "no_ttl"


def test_a_table_of_which_nobody_knows_the_time_is_refused(
    lab: Lab, expirer: PartitionExpirer
) -> None:
    lab.create("d INT, at TIMESTAMP", **TTL)
    lab.sql("INSERT INTO {t} SELECT 1, TIMESTAMP '2001-01-01 00:00:00'")
    with pytest.raises(TaskRefused, match=r"firnline\.partitions\.column"):
        expirer.expire(order(lab))
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.partitions.column' = 'd')")
    with pytest.raises(TaskRefused, match="no column of dates"):
        preview(expirer.tables, order(lab), now_ms())


def test_deletes_of_what_goes_do_not_reach_the_rest(lab: Lab, expirer: PartitionExpirer) -> None:
    given = {**TTL, "write.delete.mode": "merge-on-read"}
    fill(lab, "d INT, at TIMESTAMP", "PARTITIONED BY (days(at))", TIME, **given)
    lab.sql("DELETE FROM {t} WHERE d IN (9, 30)")
    expirer.expire(order(lab))
    assert sorted(row[0] for row in lab.rows()) == [0, 1, 2]
