"""DuckDB with its Iceberg extension, from the extensions' wheels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import duckdb


@contextmanager
def connect_duckdb(catalog_uri: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to a REST catalog, attached as `ice`."""
    with duckdb.connect() as connection:
        for name in ("avro", "httpfs", "iceberg"):
            package = find_spec(f"duckdb_extension_{name}")
            assert package is not None
            assert package.origin is not None
            [file] = Path(package.origin).parent.rglob(f"{name}.duckdb_extension")
            connection.load_extension(str(file))
        given = f"TYPE iceberg, ENDPOINT '{catalog_uri}', AUTHORIZATION_TYPE 'none'"
        connection.execute(f"ATTACH '' AS ice ({given})")
        yield connection
