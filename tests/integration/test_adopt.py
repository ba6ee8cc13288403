"""`firnline adopt` on a real catalog and broker, with an enricher and a planner behind them, of
tables that were written while no gateway stood in front."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_cli.__main__ import main
from firnline_domain.records.orders import RewriteFiles
from firnline_local.processes.process import run_process
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.services import service

pytestmark = pytest.mark.stack

BUCKETS = 8
SCHEMA = Schema(NestedField(1, "id", LongType()))
DEFAULTS = {"firnline.rewrite.min-fragments": "3", "firnline.rewrite.quiet-ms": "0"}


def written(lake, name: str, times: int) -> None:
    table = lake.create_table(name, SCHEMA)
    for number in range(times):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))


@pytest.fixture
def old_tables(lake, namespace) -> str:
    """A namespace whose worst table is neither the first nor the last, in any order."""
    for name, times in (("b_fine", 1), ("c_worst", 9), ("d_bad", 5), ("a_middling", 3)):
        written(lake, f"{namespace}.{name}", times)
    lake.create_table(f"{namespace}.e_empty", SCHEMA)
    return namespace


@pytest.fixture
def services(kafka: str, catalog_uri: str, tmp_path: Path) -> Iterator[None]:
    common = {"FIRNLINE_KAFKA": kafka, "FIRNLINE_BUCKETS": str(BUCKETS)}
    enricher, its_log = service("enricher", tmp_path, **common, FIRNLINE_CATALOG_URI=catalog_uri)
    planner, log = service(
        "planner",
        tmp_path,
        **common,
        FIRNLINE_STATE_DIR=str(tmp_path / "state"),
        FIRNLINE_PLANNER_APP=f"planner-{uuid.uuid4().hex[:8]}",
        FIRNLINE_DEFAULTS=json.dumps(DEFAULTS),
    )
    with run_process(enricher, its_log, timeout_s=120), run_process(planner, log, timeout_s=120):
        yield


Orders = Callable[[int], list[RewriteFiles]]


@pytest.fixture
def orders(kafka: str, namespace: str) -> Iterator[Orders]:
    """So many rewrites of this test's tables, in the order in which they were ordered."""
    publisher = KafkaPublisher(kafka, BUCKETS, "adopt")
    inbox = KafkaInbox(kafka, uuid.uuid4().hex, ["rewrite-tasks"], publisher, Log("adopt"))

    def until(count: int) -> list[RewriteFiles]:
        found: list[RewriteFiles] = []
        for _ in range(60):
            records = [one.record for one in inbox.poll(1.0)]
            found += [one for one in records if one.table.namespace == (namespace,)]
            if len(found) >= count:
                return sorted(found, key=lambda one: one.ordered_at_ms)
        pytest.fail(f"{found}, {count} are wanted")

    yield until
    inbox.close()


@pytest.fixture
def adopt(kafka: str, catalog_uri: str, namespace: str) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        at = ("--namespace", namespace, "--catalog", catalog_uri, "--kafka", kafka)
        return CliRunner().invoke(main, ["adopt", *at, *words], catch_exceptions=False)

    return run


def told(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def names(result: Result) -> list[str]:
    return [one["table"].split(".")[1] for one in told(result) if one["what"] == "adopting"]


def test_old_tables_are_adopted_the_worst_first_and_once(
    old_tables: str, services: None, adopt: Callable[..., Result], orders: Orders
) -> None:
    assert names(adopt("--dry-run", "--json"))[:3] == ["c_worst", "d_bad", "a_middling"]
    first = adopt("--limit", "1", "--rate", "10/s")
    assert first.exit_code == 0, first.output
    assert f"adopting {old_tables}.c_worst  9 files, weight" in first.output
    assert "1 tables were adopted; 5 listed, 0 known to the planner before" in first.output
    rest = adopt("--waiting", "1", "--rate", "10/s", "--json")
    assert rest.exit_code == 0, rest.output
    assert names(rest)[:2] == ["d_bad", "a_middling"]
    assert sorted(names(rest)[2:]) == ["b_fine", "e_empty"]
    assert [one.table.name for one in orders(3)] == ["c_worst", "d_bad", "a_middling"]
    *standings, ended = told(adopt("--json"))
    assert [(one["what"], one["is_now"]) for one in standings] == [("standing", "maintained")] * 5
    assert (ended["what"], ended["known"], ended["asked"]) == ("ended", 5, 0)


def test_a_namespace_that_is_not_there(catalog_uri: str) -> None:
    words = ["adopt", "--dry-run", "--namespace", "nowhere", "--catalog", catalog_uri]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 1
    assert "no namespace nowhere" in result.output


def test_properties_of_amoro_are_printed_as_statements(
    lake, catalog_uri: str, namespace: str
) -> None:
    properties = {"self-optimizing.minor.trigger.interval": "60000", "self-optimizing.quota": "0.5"}
    lake.create_table(f"{namespace}.from_amoro", SCHEMA, properties=properties)
    lake.create_table(f"{namespace}.plain", SCHEMA)
    words = ["adopt", "--from-amoro", "--namespace", namespace, "--catalog", catalog_uri]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout == (
        f"ALTER TABLE `{namespace}`.`from_amoro` SET TBLPROPERTIES "
        "('firnline.rewrite.max-age-ms' = '60000');\n"
    )
    assert "self-optimizing.quota has no counterpart" in result.stderr
