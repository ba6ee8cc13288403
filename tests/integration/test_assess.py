"""`firnline assess` of a small lake on the reference catalog: what it says, and whether the planner
says the same once it has adopted the tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from firnline_cli.__main__ import main
from firnline_cli.assessment.lake import AssessedLake
from firnline_cli.assessment.verdict import TableAssessment
from firnline_domain.ports import Delivery
from firnline_domain.records.orders import ResyncTable, RewriteFiles
from firnline_domain.settings.thresholds import Thresholds
from firnline_enricher.handlers import EnricherHandlers as Enricher
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.large_lake import TEMPLATES, lake_of
from tests.kit.planner_world import PlannerWorld
from tests.meddling import Meddler

pytestmark = pytest.mark.stack
TABLES = 18
LIMITS = Thresholds(quiet_ms=0, hot_ms=0)


@pytest.fixture(scope="session")
def small_lake(
    iceberg_jar: Path, catalog_uri: str, lake: RestCatalog, tmp_path_factory: Any
) -> Iterator[list[str]]:
    """Names of its tables."""
    folder = tmp_path_factory.mktemp("lake")
    with IcebergJvm(iceberg_jar) as iceberg:
        java = rest_catalog(iceberg.jvm, catalog_uri)
        yield [*lake_of(iceberg.jvm, java, lake, "small", TABLES, folder)]


@pytest.fixture
def assess(catalog_uri: str) -> Callable[..., Result]:
    def run(*words: str, uri: str = catalog_uri) -> Result:
        return CliRunner().invoke(main, ["assess", "--catalog", uri, *words])

    return run


def told(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def codes(table: dict[str, Any]) -> set[str]:
    return {one["code"] for one in table["findings"]}


def test_what_ails_each_kind_of_table(small_lake: list[str], assess: Callable[..., Result]) -> None:
    result = assess("--namespace", "small_0", "--json")
    assert result.exit_code == 0, result.output
    tables = {one["table"].partition(".")[2]: one for one in told(result)["tables"]}
    assert set(tables) == {template.__name__ for template in TEMPLATES}

    upserts = tables["upserts"]
    assert upserts["facts"]["deletes"]["equality_files"] == 30
    assert upserts["facts"]["deletes"]["oldest_ms"] is not None
    assert {"delete_debt", "equality_deletes_unread", "rewrite_may_bring_rows_back"} <= codes(
        upserts
    )
    assert tables["dangling"]["facts"]["deletes"]["dangling"] == 12
    assert "dangling_deletes" in codes(tables["dangling"])
    assert (tables["history"]["facts"]["snapshots"], tables["history"]["orders"]) == (150, 0)
    assert (tables["days"]["facts"]["partitions"], tables["days"]["facts"]["manifests"]) == (40, 60)
    assert tables["fragments"]["orders"] == 1
    first = tables["fragments"]["first"][0]
    assert (first["reason"], first["action"], first["files"]) == ("fragments", "compact", 40)
    assert not tables["tidy"]["findings"]
    assert [one["table"] for one in told(result)["tables"]][-1] == "small_0.tidy"


def test_the_planner_says_the_same_when_it_has_counted_the_tables(
    small_lake: list[str], catalog_uri: str, lake: RestCatalog
) -> None:
    """As `firnline adopt` has it counted: by the enricher's own record of the whole table."""
    tables, now_ms = Tables(catalog_uri), int(time.time() * 1000)
    names = [tuple(one.split(".")) for one in small_lake]
    looked = AssessedLake(tables, LIMITS, 4, now_ms)
    verdicts = {one.name: one for one in looked.read_verdicts(names)}
    looked.close()
    ordered = 0
    for name in names:
        verdict, world = verdicts[name], PlannerWorld(limits=LIMITS, now_ms=now_ms)
        table = tables.load_named(name[:-1], name[-1]).identity
        asked = ResyncTable(table, "main", None, None, "adopt", now_ms)
        enricher = Enricher(tables, lambda: now_ms)
        changes = enricher.handle(Delivery("resync-requests", 0, 0, table.uuid, asked))
        sent = [record for change in changes for record in world.take(change)]
        orders = [one for one in sent if isinstance(one, RewriteFiles)]
        ordered += len(orders)
        assert of_planner(orders) == of_verdict(verdict), name
        assert len(orders) == verdict.orders, name
        state = world.state()
        assert sum(one.holds.all_data.files for one in state.partitions) == data_files(verdict)
    assert ordered >= len(TEMPLATES)


def of_planner(orders: list[RewriteFiles]) -> set[tuple[str, str, str]]:
    return {(one.scope.label, str(one.action), str(one.reason)) for one in orders}


def of_verdict(verdict: TableAssessment) -> set[tuple[str, str, str]]:
    assert verdict.orders <= 5, "more than a verdict names"
    return {(one.partition, one.action, one.reason) for one in verdict.first if one.now}


def data_files(verdict: TableAssessment) -> int:
    assert verdict.facts is not None
    return verdict.facts.data_files


def test_one_table_that_is_broken_stops_no_other(
    lake: RestCatalog, namespace: str, assess: Callable[..., Result]
) -> None:
    schema = pa.schema([("id", pa.int64())])
    for name in ("broken", "fine"):
        table = lake.create_table(f"{namespace}.{name}", schema=schema)
        table.append(pa.table({"id": [1]}, schema=schema))
    snapshot = lake.load_table(f"{namespace}.broken").current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file:")).write_bytes(b"no Avro")
    result = assess("--namespace", namespace, "--json")
    assert result.exit_code == 1
    found = {one["table"]: one for one in told(result)["tables"]}
    assert found[f"{namespace}.broken"]["error"]
    assert found[f"{namespace}.fine"]["facts"]["data_files"] == 1
    assert told(result)["lake"]["unread"] == 1
    shown = assess("--namespace", namespace)
    assert f"{namespace}.broken: " in shown.output
    assert "1 table could not be read" in shown.output


def test_what_keeps_a_table_from_the_next_format_versions(
    lake: RestCatalog, namespace: str, tmp_path: Path, assess: Callable[..., Result]
) -> None:
    schema = pa.schema([("id", pa.int64())])
    rows = pa.table({"id": [1]}, schema=schema)
    table = lake.create_table(f"{namespace}.t", schema=schema)
    table.append(rows)  # PyIceberg does not say what it is
    pq.write_table(rows, tmp_path / "foreign.parquet")
    table.add_files([f"file:{tmp_path}/foreign.parquet"])
    result = assess("--namespace", namespace, "--json", "--html", str(tmp_path / "lake.html"))
    [found] = told(result)["tables"]
    points = {
        one["version"]: {point["code"]: point["needed"] for point in one["points"]}
        for one in found["readiness"]
    }
    assert points[3] == {"writers": True, "readers": False}
    assert points[4] == {"format_version": True, "outside_files": False, "column_sizes": False}
    assert found["facts"]["outside_files"] == 1
    assert told(result)["lake"]["readiness"]["v3"]["writers"] == 1
    assert "a draft, as of" in assess("--namespace", namespace).output
    assert "Format versions 3 and 4" in (tmp_path / "lake.html").read_text()


def test_nothing_is_written(
    small_lake: list[str], meddler: Meddler, assess: Callable[..., Result]
) -> None:
    result = assess("--namespace", "small_0", uri=meddler.uri)
    assert result.exit_code == 0, result.output
    assert {method for method, _ in meddler.calls} == {"GET"}
    loads = [path for _, path in meddler.calls if "/tables/" in path]
    assert len(loads) == len(TEMPLATES)  # one for each table
    assert "Nothing was written." in result.output


def test_ctrl_c_shows_what_it_has(small_lake: list[str], meddler: Meddler, tmp_path: Path) -> None:
    """Behind a catalog that takes a second for each table."""
    meddler.delay_s = 1.0
    argv = [sys.executable, "-m", "firnline_cli", "assess", "--catalog", meddler.uri]
    argv += ["--connections", "2", "--namespace", "small_0", "--namespace", "small_1"]
    kept = {name: one for name, one in os.environ.items() if not name.startswith("FIRNLINE")}
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=kept
    )
    time.sleep(9)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert said.startswith("Interrupted: "), said
    assert "Nothing was written." in said
