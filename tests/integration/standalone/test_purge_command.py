"""`firnline purge`: from a row that was deleted to one that is on no storage any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.standalone.conftest import Run

pytestmark = [pytest.mark.stack, pytest.mark.spark]


@pytest.fixture
def table(spark: Any, namespace: str) -> str:
    name = f"lake.{namespace}.t"
    given = "'format-version'='2', 'write.delete.mode'='merge-on-read'"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, mail STRING, p INT) USING iceberg "
        f"PARTITIONED BY (p) TBLPROPERTIES ({given})"
    )
    for part in (0, 1):
        rows = f"SELECT /*+ COALESCE(1) */ id, concat('m', id, '@x'), {part} FROM range(100)"
        spark.sql(f"INSERT INTO {name} {rows}")
    return f"{namespace}.t"


def on_disk(held: list[dict[str, Any]]) -> list[str]:
    return [one["path"] for one in held if Path(one["path"].removeprefix("file:")).exists()]


def test_from_visible_to_proved(table: str, spark: Any, firnline: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.json"

    def look(*words: str) -> tuple[int, dict[str, Any]]:
        given = ("purge", table, "--where", "mail = 'm7@x' and p = 1", "--report", str(report))
        done = firnline(*given, "--prove", "--json", *words)
        assert report.exists(), done.stderr
        return done.returncode, json.loads(report.read_text())

    code, found = look()
    assert (code, len(found["holders"])) == (1, 1)
    [first] = found["holders"]
    assert (first["rows"], first["refs"], first["visible"]) == (1, ["main"], True)
    assert found["steps"][0].startswith("delete: 1 file on main")

    spark.sql(f"DELETE FROM lake.{table} WHERE mail = 'm7@x' AND p = 1")
    spark.sql(f"ALTER TABLE lake.{table} CREATE TAG keep RETAIN 1 DAYS")
    code, found = look()
    assert (code, found["holders"][0]["visible"]) == (1, False)
    assert found["steps"][0] == "compact: partition [1], whose deletes only hide the rows"
    assert found["steps"][1].startswith("drop the tag or branch keep")

    code, found = look("--yes")
    assert code == 1, found
    [held] = found["holders"]
    assert (held["path"], held["refs"], held["snapshots"]) == (first["path"], ["keep"], 1)
    assert on_disk(found["holders"]) == [first["path"]]

    spark.sql(f"REFRESH TABLE lake.{table}")
    spark.sql(f"ALTER TABLE lake.{table} DROP TAG keep")
    code, found = look("--yes")
    assert (code, found["proved"], found["holders"]) == (0, True, [])
    assert not Path(first["path"].removeprefix("file:")).exists()
    assert found["files"][first["path"]]["gone_ms"] == found["looked_ms"]
    said = firnline(
        *("purge", table, "--where", "mail = 'm7@x' and p = 1", "--report", str(report), "--prove")
    )
    assert "Of 1 file that did, the last was gone at 20" in said.stdout
    spark.sql(f"REFRESH TABLE lake.{table}")
    assert spark.sql(f"SELECT count(*) FROM lake.{table}").collect()[0][0] == 199


@pytest.mark.long
def test_what_is_wrong_is_said(table: str, firnline: Run, tmp_path: Path) -> None:
    for words, said in (
        (["--where", "nothing = 7"], "nothing"),
        (["--where", "id ="], "write"),
        (["--where", "id = 7", "--report", str(tmp_path / "r.json")], "no report"),
    ):
        (tmp_path / "r.json").write_text("{}")
        done = firnline("purge", table, *words)
        assert done.returncode == 1, done.stdout
        assert said in done.stderr
        assert "Traceback" not in done.stderr
