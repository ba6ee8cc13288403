"""Spark, whose catalog client is Iceberg's Java one, knowing only the gateway's URI."""

from __future__ import annotations

import pytest
from firnline_domain.records.events import TableChange, TableCommitted
from pyspark.sql import SparkSession

from .conftest import Events

pytestmark = [pytest.mark.stack, pytest.mark.spark]


@pytest.fixture(scope="session")
def through(spark: SparkSession, gateway_uri: str) -> SparkSession:
    """The session with one more catalog, `gw`."""
    for name, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": gateway_uri,
        ".cache-enabled": "false",
    }.items():
        spark.conf.set(f"spark.sql.catalog.gw{name}", value)
    return spark


def test_every_change_of_a_table_is_an_event(through: SparkSession, namespace: str, events) -> None:
    name = f"gw.{namespace}.t"
    steps = [
        f"CREATE TABLE {name} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version'='2')",
        f"INSERT INTO {name} VALUES (1), (2), (3)",
        f"ALTER TABLE {name} ADD COLUMN name STRING",
        f"ALTER TABLE {name} CREATE BRANCH audit",
        f"INSERT INTO {name}.branch_audit VALUES (9, 'nine')",
        f"CALL gw.system.fast_forward('{namespace}.t', 'main', 'audit')",
        f"ALTER TABLE {name} CREATE TAG v1",
        f"ALTER TABLE {name} DROP BRANCH audit",
        f"DELETE FROM {name} WHERE id = 2",
        f"CALL gw.system.expire_snapshots('{namespace}.t', TIMESTAMP '2100-01-01 00:00:00')",
    ]
    for step in steps:
        through.sql(step)
    assert [row.id for row in through.sql(f"SELECT id FROM {name} ORDER BY id").collect()] == [
        1,
        3,
        9,
    ]
    through.sql(f"ALTER TABLE {name} RENAME TO {namespace}.u")
    through.sql(f"DROP TABLE gw.{namespace}.u")

    found = events.until(namespace, lambda e: any(x.change is TableChange.DROPPED for x in e))
    created, inserted, schema, branch, audit, forward, tag, gone, deleted, expired, *rest = found
    [first], [second], [third] = inserted.snapshots, audit.snapshots, deleted.snapshots
    assert created.change is TableChange.CREATED
    assert (first.operation, second.parent_snapshot_id) == ("append", first.snapshot_id)
    assert third.parent_snapshot_id == second.snapshot_id
    assert deleted.metadata_bytes > 1_000
    assert schema.metadata_changed
    assert not schema.snapshots
    assert moved(branch) == [("audit", "branch", first.snapshot_id)]
    assert moved(audit) == [("audit", "branch", second.snapshot_id)]
    assert moved(forward) == [("main", "branch", second.snapshot_id)]
    assert moved(tag) == [("v1", "tag", second.snapshot_id)]
    assert moved(gone) == [("audit", "branch", None)]
    assert moved(deleted) == [("main", "branch", third.snapshot_id)]
    assert deleted.refs[0].expected_snapshot_id == second.snapshot_id
    assert expired.expired_snapshot_ids == (first.snapshot_id,)
    assert [event.change for event in rest] == [TableChange.RENAMED, TableChange.DROPPED]
    assert len({event.table.uuid for event in found}) == 1
    assert first.summary["engine-name"] == "spark"


def test_create_table_as_select_is_one_creation_with_its_snapshot(
    through: SparkSession, namespace: str, events: Events
) -> None:
    """Java stages the create: the first call creates nothing, the commit creates all."""
    through.sql(f"CREATE TABLE gw.{namespace}.ctas USING iceberg AS SELECT 1 AS id")
    through.sql(f"CREATE OR REPLACE TABLE gw.{namespace}.ctas USING iceberg AS SELECT 2 AS id")
    created, replaced = events.until(namespace, lambda found: len(found) == 2)
    assert (created.change, len(created.snapshots)) == (TableChange.CREATED, 1)
    assert (replaced.change, len(replaced.snapshots)) == (TableChange.COMMITTED, 1)
    assert created.table == replaced.table


def test_two_snapshots_of_one_call_stay_in_order(
    through: SparkSession, namespace: str, events: Events
) -> None:
    """Iceberg's Transaction sends several add-snapshots in one POST (shared-number hazard, H6)."""
    name = f"gw.{namespace}.multi"
    through.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")
    through.sql(f"INSERT INTO {name} VALUES (1)")
    jvm = through._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(through._jsparkSession, name)
    transaction = table.newTransaction()
    transaction.newDelete().deleteFromRowFilter(
        jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    ).commit()
    transaction.newFastAppend().commit()
    transaction.commitTransaction()
    last = events.until(namespace, lambda found: len(found) == 3)[-1]
    older, newer = last.snapshots
    assert newer.parent_snapshot_id == older.snapshot_id
    assert newer.sequence_number == older.sequence_number + 1
    assert [ref.snapshot_id for ref in last.refs][-1] == newer.snapshot_id


def moved(event: TableCommitted) -> list[tuple[str, str, int | None]]:
    return [(ref.ref, ref.kind, ref.snapshot_id) for ref in event.refs]
