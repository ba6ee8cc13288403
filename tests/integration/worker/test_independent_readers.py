"""Readers that share no code with Iceberg's Java see what Spark sees.

Spark's rows are the measure, before and after. DuckDB applies equality deletes itself, PyIceberg
refuses to; chdb (ClickHouse) is asked by `make readers` only: 600 MB with what it brings along are
too many for every `make test`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from firnline_fuzz.fixtures import fuzz_bench, fuzz_jvm, fuzz_shelf
from firnline_fuzz.maker import Maker
from firnline_fuzz.shapes import SHAPES
from firnline_fuzz.trials import Bench, Trial
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.duck import connect_duckdb
from tests.kit.long_run import mark_long

__all__ = ["fuzz_bench", "fuzz_jvm", "fuzz_shelf"]

pytestmark = [pytest.mark.spark, pytest.mark.stack]
FIXED = (
    (2, "several id sets"),
    (2, "composite key"),
    (2, "rows of the delete's own commit"),
    (2, "extra and reordered columns"),
    (2, "deletes of one partition"),
    (2, "global delete"),
    (2, "positions of a partition"),
    (2, "positions of one file"),
    (2, "promoted columns and keys"),
    (2, "renamed columns and keys"),
    (2, "added key"),
    (2, "several specs"),
    (2, "files of a v1 table"),
    (3, "deletion vector"),
    (3, "row lineage"),
)
FIRST = ((2, "several id sets"), (2, "positions of one file"), (3, "deletion vector"))
MISREAD = {
    # What DuckDB 1.5.5 cannot read before: a composite key with NULLs (rows get lost), keys that
    # were promoted, equality deletes in a partitioned table (internal errors both).
    "composite key",
    "promoted columns and keys",
    "deletes of one partition",
    "global delete",
    "several specs",
}
MISREAD_BY_CLICKHOUSE = {
    # What ClickHouse 26.9 cannot read before: deletes of an unpartitioned spec apply otherwise than
    # for everybody else; a key that the oldest schema lacks is unknown to it; no vectors.
    "global delete",
    "added key",
    "deletion vector",
}
Read = Callable[[Trial], list[tuple[Any, ...]]]


@pytest.fixture
def duck(catalog_uri: str) -> Iterator[Read]:
    """A connection for each read: an internal error of DuckDB's ends its connection."""

    def read(trial: Trial) -> list[tuple[Any, ...]]:
        with connect_duckdb(catalog_uri) as connection:
            name = trial.table.name
            return connection.execute(f"FROM ice.{name.namespace[0]}.{name.name}").fetchall()

    return read


@pytest.fixture
def pyiceberg(lake: RestCatalog) -> Read:
    def read(trial: Trial) -> list[tuple[Any, ...]]:
        name = trial.table.name
        found = lake.load_table((*name.namespace, name.name)).scan().to_arrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    return read


@pytest.fixture
def chdb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    monkeypatch.chdir("/")  # it reads nothing outside of where it was started
    connection = importlib.import_module("chdb").connect(":memory:")

    def read(trial: Trial) -> list[tuple[Any, ...]]:
        location = trial.bench.tables.load(trial.table.name).metadata_location
        root, _, name = location.removeprefix("file:").rpartition("/metadata/")
        query = (
            f"SELECT * FROM icebergLocal('/{root.lstrip('/')}', SETTINGS"
            f" iceberg_metadata_file_path='metadata/{name}')"
        )
        found = connection.query(query, "ArrowTable")
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    yield read
    connection.close()


def by_spark(trial: Trial) -> list[str]:
    name = ".".join((*trial.table.name.namespace, trial.table.name.name))
    return shown(trial.bench.spark.sql(f"SELECT * FROM lake.{name}").collect())


def shown(rows: Any) -> list[str]:
    return sorted(repr(tuple(map(_plain, row))) for row in rows)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def made(bench: Bench, version: int, shape: str) -> Trial:
    make = Maker(bench.jvm, bench.catalog, bench.namespace, version)
    return Trial(bench, SHAPES[shape](make), exotic=False)


def rewritten(trial: Trial) -> None:
    for scope in trial.scopes("main"):
        trial.whole("main", scope)
    assert trial.bench.modes["native"] > 0


@pytest.mark.parametrize(("version", "shape"), mark_long(FIXED, but=FIRST))
def test_before_and_after(fuzz_bench, duck, pyiceberg, version, shape):
    trial = made(fuzz_bench, version, shape)
    rows = by_spark(trial)
    assert shape in MISREAD or shown(duck(trial)) == rows
    rewritten(trial)
    assert by_spark(trial) == rows
    assert shown(duck(trial)) == rows
    assert shown(pyiceberg(trial)) == rows


if find_spec("chdb"):  # make readers

    @pytest.mark.parametrize(("version", "shape"), FIXED)
    def test_clickhouse(fuzz_bench, chdb, version, shape):
        trial = made(fuzz_bench, version, shape)
        rows = by_spark(trial)
        assert shape in MISREAD_BY_CLICKHOUSE or shown(chdb(trial)) == rows
        rewritten(trial)
        assert shown(chdb(trial)) == rows
