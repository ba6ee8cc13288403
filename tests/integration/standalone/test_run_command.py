"""`firnline run` as cron starts it: one process, an exit code, rows as they were."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.integration.standalone.conftest import Run
from tests.kit.long_run import mark_long

pytestmark = [pytest.mark.stack, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
FILES = 10


def made(lake: RestCatalog, namespace: str, **properties: str) -> Table:
    """Small files, and a copy-on-write delete of nothing."""
    given = {"format-version": "2", **properties}
    table = lake.create_table(f"{namespace}.t", schema=SCHEMA, properties=given)
    for number in range(FILES):
        ids = range(number * 10, number * 10 + 10)
        rows = pa.table({"id": ids, "v": [f"r{one}" for one in ids]}, schema=SCHEMA)
        table.append(rows)
    return table


def rows(table: Table) -> list[dict[str, Any]]:
    table.refresh()
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_a_compaction_from_first_to_last(lake: RestCatalog, namespace: str, firnline: Run) -> None:
    table = made(lake, namespace)
    before, name = rows(table), f"{namespace}.t"
    head = table.current_snapshot()

    shown = firnline("run", name, "compact", "--dry-run", "--json")
    (would,) = map(json.loads, shown.stdout.splitlines())
    assert (would["event"], would["files"], would["action"]) == ("would_run", FILES, "compact")
    table.refresh()
    assert table.current_snapshot() == head

    done = firnline("run", name, "compact", "--verify", "--json")
    assert done.returncode == 0, done.stderr
    told = {one["event"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert told["ended"]["outcome"] == "committed", done.stdout
    assert told["ended"]["files_removed"] == FILES
    assert told["compared"]["outcome"] == "equal"
    assert done.stderr == ""
    assert rows(table) == before
    assert table.inspect.files().num_rows < FILES
    summary = table.current_snapshot()
    assert summary is not None
    assert summary.summary is not None
    assert summary.summary.additional_properties["firnline.task-id"] == told["ended"]["task_id"]

    low = ("--fleet", "firnline.rewrite.min-fragments=2")  # two are left: no debt of a new rewrite
    again = firnline("run", name, "compact", "--json", *low)
    assert again.returncode == 0
    passed_over, nothing = map(json.loads, again.stdout.splitlines())
    assert (passed_over["reason"], nothing["event"]) == ("fixed_point", "nothing_to_do")


@pytest.mark.long
def test_a_sort_by_a_column_that_the_owner_has_named(
    lake: RestCatalog, namespace: str, firnline: Run
) -> None:
    table = made(lake, namespace, **{"firnline.sort": "v desc"})
    for number in range(FILES):  # each file has all keys
        spread = pa.table({"id": [number] * 10, "v": [f"r{one:02}" for one in range(10)]})
        table.append(spread.cast(SCHEMA))
    before, name = rows(table), f"{namespace}.t"
    shown = firnline("run", name, "sort", "--dry-run")
    assert "11 files" in shown.stdout, shown  # nine of the others lie beside them
    done = firnline("run", name, "sort", "--verify", "--json")
    assert done.returncode == 0, done.stderr
    told = {one["event"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert (told["ended"]["outcome"], told["compared"]["outcome"]) == ("committed", "equal")
    assert sorted(map(str, rows(table))) == sorted(map(str, before))
    paths = table.inspect.files()["file_path"].to_pylist()
    assert len(paths) == 10
    [file] = [path for path in paths if "firnline-" in path]
    sorted_by = pq.read_table(file.removeprefix("file:"))["v"].to_pylist()
    assert sorted_by == sorted(sorted_by, reverse=True)
    again = firnline("run", name, "sort", "--all-partitions", "--json")
    (*_, last) = map(json.loads, again.stdout.splitlines())
    assert (again.returncode, last["outcome"]) == (0, "nothing_to_do"), again


def test_a_table_becomes_v3_and_its_deletes_vectors(
    spark: Any, lake: RestCatalog, namespace: str, firnline: Run
) -> None:
    name = f"{namespace}.t"
    made = "'format-version'='2', 'write.delete.mode'='merge-on-read'"
    made += ", 'write.target-file-size-bytes'='1000'"  # all files are as large
    spark.sql(f"CREATE TABLE lake.{name} (id INT) USING iceberg TBLPROPERTIES ({made})")
    for begin in (0, 100):
        rows = f"SELECT /*+ COALESCE(1) */ id FROM range({begin}, {begin + 90})"
        spark.sql(f"INSERT INTO lake.{name} {rows}")
    spark.sql(f"DELETE FROM lake.{name} WHERE id IN (3, 33)")
    before = sorted(spark.table(f"lake.{name}").collect())
    shown = firnline("run", name, "upgrade_format", "--dry-run")
    assert "cannot be undone" in shown.stdout, shown
    assert "0 equality-delete files and 1 position-delete files" in shown.stdout
    assert lake.load_table(name).metadata.format_version == 2
    done = firnline("run", name, "upgrade_format", "--json")
    ended = [one for one in map(json.loads, done.stdout.splitlines()) if one["event"] == "ended"]
    assert [one["action"] for one in ended] == ["upgrade_format", "convert"], done
    assert done.returncode == 0
    assert lake.load_table(name).metadata.format_version == 3
    kinds = spark.table(f"lake.{name}.delete_files").select("file_format").collect()
    assert [row[0] for row in kinds] == ["PUFFIN"]
    assert sorted(spark.table(f"lake.{name}").collect()) == before
    again = firnline("run", name, "upgrade_format", "--dry-run")
    assert "format version 3 already" in again.stdout


def aged(lake: RestCatalog, name: str, hours: int) -> None:
    """The same table, as if all its commits had been so much earlier."""
    table = lake.load_table(name)
    text = table.io.new_input(table.metadata_location).open().read().decode()
    ago = hours * 3_600_000
    text = re.sub(r'(-ms" *: *)(\d{13})', lambda one: f"{one[1]}{int(one[2]) - ago}", text)
    place = table.metadata_location.replace(".metadata.json", "-aged.metadata.json")
    with table.io.new_output(place).create() as file:
        file.write(text.encode())
    lake.drop_table(name)
    lake.register_table(name, place)


def test_closed_partitions_are_frozen_once(
    spark: Any, lake: RestCatalog, namespace: str, firnline: Run
) -> None:
    name = f"{namespace}.t"
    made = "'format-version'='2', 'write.delete.mode'='merge-on-read'"
    spark.sql(
        f"CREATE TABLE lake.{name} (id INT, p STRING) USING iceberg PARTITIONED BY (p) "
        f"TBLPROPERTIES ({made})"
    )
    for p in "ab":
        for begin in (0, 100):
            rows = f"SELECT /*+ COALESCE(1) */ id, '{p}' FROM range({begin}, {begin + 90})"
            spark.sql(f"INSERT INTO lake.{name} {rows}")
    spark.sql(f"DELETE FROM lake.{name} WHERE id = 33 AND p = 'a'")
    aged(lake, name, hours=100)
    spark.sql(f"REFRESH TABLE lake.{name}")
    spark.sql(f"INSERT INTO lake.{name} VALUES (500, 'b')")
    before = sorted(spark.table(f"lake.{name}").collect())
    bare = firnline("run", name, "freeze")
    assert (bare.returncode, "after-hours is not set" in bare.stderr) == (1, True), bare
    newest = lake.load_table(name).current_snapshot()
    asked = ("--fleet", "firnline.freeze.after-hours=48")
    shown = firnline("run", name, "freeze", "--dry-run", "--json", *asked)
    passed_over, would = map(json.loads, shown.stdout.splitlines())
    assert (passed_over["partition"], passed_over["reason"]) == ('["b"]', "not_closed"), shown
    assert (would["partition"], would["action"], would["why"]) == ('["a"]', "full", "closed")
    assert (would["files"], would["position_deletes"]) == (2, 1)
    assert lake.load_table(name).current_snapshot() == newest

    done = firnline("run", name, "freeze", "--verify", "--json", *asked)
    assert done.returncode == 0, done
    told = {one["event"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert (told["ended"]["outcome"], told["compared"]["outcome"]) == ("committed", "equal")
    spark.sql(f"REFRESH TABLE lake.{name}")
    assert sorted(spark.table(f"lake.{name}").collect()) == before
    left = spark.table(f"lake.{name}.files").selectExpr("partition.p", "content").collect()
    assert sorted(map(tuple, left)) == [("a", 0), ("b", 0), ("b", 0), ("b", 0)]
    again = firnline("run", name, "freeze", "--partition", '["a"]', "--json")
    reasons = [json.loads(line).get("reason") for line in again.stdout.splitlines()]
    assert (again.returncode, reasons) == (0, ["frozen", None]), again


REFUSED = (
    (["run", "{name}", "compact", "--partition", "[1]"], 1, "has no partition '[1]'"),
    (["run", "{name}", "compakt"], 2, "compakt"),
    (["run", "{name}", "compact", "--config", "/nowhere.toml"], 2, "/nowhere.toml"),
    (["run", "{name}", "compact", "--catalog", "silver"], 2, "no catalog silver"),
    (["run", "{name}", "compact", "--memory", "much"], 2, "say 512m or 4g"),
    (["run", "nowhere.t", "compact"], 1, "no table nowhere.t"),
    (["run", "{name}", "compact", "--kafka", "127.0.0.1:9"], 1, "does not answer"),
)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    mark_long(REFUSED, but=(REFUSED[1], REFUSED[5])),
    ids=lambda one: one[-1] if isinstance(one, list) else None,
)
def test_what_cannot_be_done_says_so_by_its_code(
    lake: RestCatalog, namespace: str, firnline: Run, words: list[str], code: int, said: str
) -> None:
    made(lake, namespace)
    found = firnline(*(word.format(name=f"{namespace}.t") for word in words))
    assert (found.returncode, said in found.stderr) == (code, True), found.stderr


def test_an_owner_who_wants_none_gets_none(
    lake: RestCatalog, namespace: str, firnline: Run
) -> None:
    table = made(lake, namespace, **{"firnline.enabled": "false"})
    found = firnline("run", f"{namespace}.t", "compact", "--all-partitions")
    assert found.returncode == 1
    assert "firnline.enabled=false" in found.stderr
    assert table.inspect.files().num_rows == FILES


@pytest.mark.long
def test_statistics_are_read_first_and_computed_then(
    lake: RestCatalog, namespace: str, firnline: Run
) -> None:
    table = made(lake, namespace)
    name = f"{namespace}.t"
    refused = firnline("run", name, "compute_statistics")
    assert refused.returncode == 1
    assert "firnline.statistics and firnline.partition-statistics are not set" in refused.stdout
    asked = ("--fleet", "firnline.statistics=all")
    shown = firnline("run", name, "compute_statistics", "--dry-run", *asked)
    assert f"would read {FILES} files" in shown.stdout, shown
    done = firnline("run", name, "compute_statistics", *asked)
    assert "2 columns described" in done.stdout, done
    table.refresh()
    [described] = table.metadata.statistics
    found = {tuple(one.fields): one.properties["ndv"] for one in described.blob_metadata}
    assert found == {(1,): str(FILES * 10), (2,): str(FILES * 10)}
    again = firnline("run", name, "compute_statistics", *asked)
    assert (again.returncode, "columns described" in again.stdout) == (0, False), again
