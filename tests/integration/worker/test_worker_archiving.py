"""Spark reads an archive: rows that were copied as bytes, under field ids that no `CREATE TABLE`
would give. Who is killed when: `tests/integration/commits/test_archiving.py`."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.aged_partitions import PartitionArchiving
from firnline_domain.records.orders import TableOrder
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_standalone.previews import preview
from firnline_worker.spark.java_api import SparkJvm
from firnline_worker.table_actions.archive_partitions import Archiver

from tests.integration.worker.lab import Lab, now_ms

pytestmark = [pytest.mark.spark, pytest.mark.stack]
AGE = {"firnline.archive.after-hours": "240"}  # ten days
DAYS = "current_timestamp() - INTERVAL {days} DAYS"


@pytest.fixture
def archiver(tables: Any, spark: Any, catalog_uri: str) -> Archiver:
    return Archiver(tables, JavaCommits(SparkJvm(spark), catalog_uri), "w1", now_ms)


def order(lab: Lab, reason: str = Reason.REQUESTED, **numbers: float) -> TableOrder:
    at, given = now_ms(), {"archive_h": 240.0, **numbers}
    name, task = PartitionArchiving.name, f"{lab.namespace}-{at}"
    return TableOrder(task, lab.name, name, reason, 1, 1, at, at + 3_600_000, given)


def fill(lab: Lab, more: str = "", **properties: str) -> None:
    """Rows that are 1, 30, 40 and 400 days old, each in a file and a partition of its own."""
    given = {**AGE, "write.delete.mode": "merge-on-read", **properties}
    lab.create("d INT, at TIMESTAMP" + more, "PARTITIONED BY (days(at))", **given)
    for days in (1, 30, 40, 400):
        lab.sql(f"INSERT INTO {{t}} (d, at) VALUES ({days}, {DAYS.format(days=days)})")


def kept(lab: Lab) -> LoadedTable:
    return lab.tables.load_named((lab.namespace,), "t_archive")


def days(lab: Lab, name: str = "t") -> list[int]:
    """Of each row, as Spark reads it now."""
    lab.spark.sql(f"REFRESH TABLE lake.{lab.namespace}.{name}")
    found = lab.spark.sql(f"SELECT d FROM lake.{lab.namespace}.{name}").collect()
    return sorted(row[0] for row in found)


def test_old_files_move_with_their_rows_and_are_read_there(
    lab: Lab, archiver: Archiver, in_thread: Any
) -> None:
    fill(lab)
    rows, stored = lab.rows(), lab.stored()
    seen = preview(archiver.tables, order(lab), now_ms())
    assert (seen.files, seen.partitions) == (3, 3), seen
    result = in_thread(archiver.archive, order(lab))
    assert result.numbers["files_archived"] == result.numbers["rows_archived"] == 3
    assert result.numbers["bytes_archived"] == seen.bytes > 0
    assert (days(lab), days(lab, "t_archive")) == ([1], [30, 40, 400])
    both = "SELECT * FROM {t} UNION ALL SELECT * FROM lake." + lab.namespace + ".t_archive"
    assert sorted(map(tuple, lab.sql(both).collect()), key=repr) == rows
    assert stored <= lab.stored()  # until the snapshots expire
    found = lab.spark.sql(f"SELECT * FROM lake.{lab.namespace}.t_archive WHERE d = 30").collect()
    assert len(found) == 1  # by the bounds that were taken over


def test_a_schema_that_has_changed_is_the_archives_too(lab: Lab, archiver: Archiver) -> None:
    """Field ids that no `CREATE TABLE` would give; columns that come, go and change later."""
    fill(lab, ", gone INT, s STRUCT<a: INT, b: STRING>")
    lab.sql("ALTER TABLE {t} DROP COLUMN gone")
    lab.sql("ALTER TABLE {t} ADD COLUMN late STRING")
    old = DAYS.format(days=50)
    lab.sql(f"INSERT INTO {{t}} VALUES (50, {old}, named_struct('a', 5, 'b', 'x'), 'l')")
    archiver.archive(order(lab))
    assert kept(lab).schema.as_struct() == lab.table().schema.as_struct()
    read = f"SELECT d, late, s.a FROM lake.{lab.namespace}.t_archive"
    expected = [(30, None, None), (40, None, None), (50, "l", 5), (400, None, None)]
    assert sorted(map(tuple, lab.spark.sql(read).collect())) == expected
    lab.sql("ALTER TABLE {t} RENAME COLUMN late TO later")
    lab.sql("ALTER TABLE {t} ALTER COLUMN d TYPE BIGINT")
    lab.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, d)")
    lab.sql(f"INSERT INTO {{t}} (d, at, later) VALUES (60, {DAYS.format(days=60)}, 'z')")
    archiver.archive(order(lab))
    lab.spark.sql(f"REFRESH TABLE lake.{lab.namespace}.t_archive")
    read = f"SELECT d, later FROM lake.{lab.namespace}.t_archive WHERE later IS NOT NULL"
    assert sorted(map(tuple, lab.spark.sql(read).collect())) == [(50, "l"), (60, "z")]
    assert days(lab) == [1]


def test_files_with_deletes_wait_until_these_are_applied(
    lab: Lab, archiver: Archiver, rewritten: Any
) -> None:
    fill(lab)
    lab.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ d, {DAYS.format(days=30)} "
            "FROM VALUES (31), (32) AS t(d)")  # fmt: skip
    lab.sql("DELETE FROM {t} WHERE d = 31")
    result = archiver.archive(order(lab))
    assert result.numbers["files_with_deletes"] == 1
    assert (days(lab), days(lab, "t_archive")) == ([1, 32], [30, 40, 400])
    rewritten(next(one for one in lab.scopes() if one.partition == partition_of(lab, 30)))
    archiver.archive(order(lab))
    assert (days(lab), days(lab, "t_archive")) == ([1], [30, 32, 40, 400])


def partition_of(lab: Lab, ago: int) -> str:
    [row] = lab.sql(f"SELECT date_format({DAYS.format(days=ago)}, 'yyyy-MM-dd')").collect()
    return f'["{row[0]}"]'


def test_a_v3_table_has_an_archive_of_v2(lab: Lab, archiver: Archiver) -> None:
    fill(lab, **{"format-version": "3"})
    archiver.archive(order(lab))
    assert kept(lab).format_version == 2
    assert (days(lab), days(lab, "t_archive")) == ([1], [30, 40, 400])
