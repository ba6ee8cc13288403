"""DuckDB, which commits all data through bodiless multi-table transactions."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest
from firnline_domain.events import TableChange

pytestmark = pytest.mark.stack


@pytest.fixture
def duck(gateway_uri: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that knows only the gateway, as `ice`."""
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        package = find_spec(f"duckdb_extension_{name}")
        assert package is not None
        assert package.origin is not None
        [file] = Path(package.origin).parent.rglob(f"{name}.duckdb_extension")
        connection.load_extension(str(file))
    connection.execute(
        f"ATTACH '' AS ice (TYPE iceberg, ENDPOINT '{gateway_uri}', AUTHORIZATION_TYPE 'none')"
    )
    yield connection
    connection.close()


def test_every_change_of_a_table_is_an_event(
    duck: duckdb.DuckDBPyConnection, namespace: str, events
) -> None:
    duck.execute(f"CREATE TABLE ice.{namespace}.t (id BIGINT)")
    duck.execute(f"INSERT INTO ice.{namespace}.t VALUES (1), (2), (3)")
    duck.execute(f"DELETE FROM ice.{namespace}.t WHERE id = 2")
    rows = duck.execute(f"SELECT id FROM ice.{namespace}.t ORDER BY id").fetchall()
    assert rows == [(1,), (3,)]
    duck.execute(f"DROP TABLE ice.{namespace}.t")
    found = events.until(namespace, lambda e: any(x.change is TableChange.DROPPED for x in e))
    print(found)
    assert len({event.table.uuid for event in found}) == 1
