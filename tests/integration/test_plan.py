"""`firnline plan` against a real catalog, without planner or broker."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from firnline_cli.__main__ import main
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

pytestmark = pytest.mark.stack
SCHEMA = Schema(NestedField(1, "id", LongType()))


def appended(lake, name: str, times: int, **properties: str):
    table = lake.create_table(name, SCHEMA, properties=properties)
    for number in range(times):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    return table


@pytest.fixture
def plan(catalog_uri: str):
    """Of tables that were written a moment ago, and are not to be left to cool."""

    def run(*words: str) -> Result:
        at = ("--catalog", catalog_uri, "--fleet", "firnline.rewrite.quiet-ms=0")
        return CliRunner().invoke(main, ["plan", *at, *words], catch_exceptions=False)

    return run


def test_tables_that_no_planner_has_seen(lake, namespace, plan) -> None:
    appended(lake, f"{namespace}.deep", 9)
    appended(lake, f"{namespace}.fine", 1)
    lake.create_table(f"{namespace}.empty", SCHEMA)
    result = plan("--namespace", namespace)
    assert result.exit_code == 0
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in result.output.splitlines()}
    assert rows["table"] == ["orders", "partitions", "bytes", "reason"]
    assert (rows[f"{namespace}.deep"][:2], rows[f"{namespace}.deep"][3]) == (
        ["1", "1"],
        "fragments",
    )
    assert rows[f"{namespace}.fine"][:2] == ["0", "1"]
    assert rows[f"{namespace}.empty"] == ["0", "0", "0", "no_files"]
    assert "1 rewrites would be, in 1 of 3 tables" in result.output
    assert lake.load_table(f"{namespace}.deep").metadata.snapshots[-1].sequence_number == 9


def test_one_table_with_its_partitions_and_what_if(lake, namespace, plan) -> None:
    name = f"{namespace}.t"
    appended(lake, name, 9, **{"firnline.enabled": "false"})
    assert "disabled" in plan("--table", name).output
    assert "\tTrue\t" in plan("--table", name, "--set", "firnline.enabled=true").output
    [found] = plan("--json", "--table", name, "--set", "firnline.enabled=true").output.splitlines()
    assert json.loads(found)["partitions"][0]["numbers"]["fragments"] == 9


def test_the_namespaces_properties_are_defaults(lake, namespace, plan) -> None:
    appended(lake, f"{namespace}.t", 3)
    assert "accumulating" in plan("--table", f"{namespace}.t").output
    lake.update_namespace_properties(namespace, updates={"firnline.rewrite.min-fragments": "3"})
    assert "\tTrue\t" in plan("--table", f"{namespace}.t").output


def test_the_fleets_defaults_can_be_said(lake, namespace, plan) -> None:
    appended(lake, f"{namespace}.t", 3)
    fleet = ("--fleet", "firnline.rewrite.min-fragments=3")
    assert "\tTrue\t" in plan("--table", f"{namespace}.t", *fleet).output


def test_a_table_that_cannot_be_read_is_said_and_the_others_are_read(lake, namespace, plan) -> None:
    broken = appended(lake, f"{namespace}.broken", 1)
    appended(lake, f"{namespace}.deep", 9)
    broken.io.delete(broken.current_snapshot().manifest_list)
    result = plan("--namespace", namespace)
    assert result.exit_code == 1
    assert f"{namespace}.broken: not read:" in result.output
    assert f"{namespace}.deep\t1\t1\t" in result.output
    assert plan("--table", f"{namespace}.nothing").exit_code == 1
