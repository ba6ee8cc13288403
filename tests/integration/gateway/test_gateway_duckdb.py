"""DuckDB, which commits all data through bodiless multi-table transactions."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from firnline_domain.records.events import RefMoved, TableChange

from tests.kit.duck import connect_duckdb

from .conftest import Events

pytestmark = pytest.mark.stack


@pytest.fixture
def duck(gateway_uri: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that knows only the gateway, as `ice`."""
    with connect_duckdb(gateway_uri) as connection:
        yield connection


def test_every_change_of_a_table_is_an_event(
    duck: duckdb.DuckDBPyConnection, namespace: str, events: Events
) -> None:
    """DuckDB 1.5.5 makes no branches; the other clients' tests do."""
    for statement in (
        "CREATE TABLE {t} (id BIGINT)",
        "INSERT INTO {t} VALUES (1), (2), (3)",
        "ALTER TABLE {t} ADD COLUMN name VARCHAR",
        "DELETE FROM {t} WHERE id = 2",
    ):
        duck.execute(statement.format(t=f"ice.{namespace}.t"))
    rows = duck.execute(f"SELECT id, name FROM ice.{namespace}.t ORDER BY id").fetchall()
    assert rows == [(1, None), (3, None)]
    duck.execute(f"DROP TABLE ice.{namespace}.t")

    found = events.until(namespace, lambda e: any(x.change is TableChange.DROPPED for x in e))
    created, inserted, altered, deleted, dropped = found
    assert (created.change, dropped.change) == (TableChange.CREATED, TableChange.DROPPED)
    assert altered.metadata_changed
    assert not altered.snapshots
    [first], [second] = inserted.snapshots, deleted.snapshots
    assert (first.operation, second.parent_snapshot_id) == ("append", first.snapshot_id)
    assert second.summary["added-position-deletes"] == "1"
    assert deleted.refs == (RefMoved("main", "branch", second.snapshot_id, first.snapshot_id),)
    assert len({event.table.uuid for event in found}) == 1


def test_one_transaction_of_two_tables_is_an_event_for_each(
    duck: duckdb.DuckDBPyConnection, namespace: str, events: Events
) -> None:
    for name in ("a", "b"):
        duck.execute(f"CREATE TABLE ice.{namespace}.{name} (id BIGINT)")
        duck.execute(f"INSERT INTO ice.{namespace}.{name} VALUES (0)")
    duck.execute("BEGIN")
    duck.execute(f"INSERT INTO ice.{namespace}.a VALUES (1)")
    duck.execute(f"INSERT INTO ice.{namespace}.a VALUES (2)")
    duck.execute(f"INSERT INTO ice.{namespace}.b VALUES (3)")
    duck.execute("COMMIT")
    found = events.until(namespace, lambda e: len(e) == 6)
    last = {event.table.name: len(event.snapshots) for event in found if event.snapshots}
    assert last == {"a": 2, "b": 1}
