"""Tables on HDFS: our readers and writers, Java's, and who sweeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_domain.identity import MAIN
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.removal.orphans import find_orphans
from firnline_iceberg.removal.removal import storage_now_ms
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.storage.file_io import make_file_io
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.retained_names import RetainedNames

from tests.kit.hdfs import catalog_on, files, hdfs
from tests.kit.kernel_on_storage import ROWS, rewritten
from tests.kit.lake.table import Table
from tests.kit.lake_pair import Pair, now_ms, pair

pytestmark = [pytest.mark.stack, pytest.mark.long]


@pytest.fixture(scope="module")
def nodes(servers: Path) -> Iterator[str]:
    with hdfs(servers / "hdfs") as uri:
        yield uri


@pytest.fixture(scope="module")
def catalog(nodes: str, servers: Path) -> Iterator[str]:
    with catalog_on(nodes, servers / "hdfs-catalog") as uri:
        yield uri


@pytest.fixture(scope="module")
def lake(catalog: str, servers: Path, lake_jvm: IcebergJvm) -> Pair:
    return pair(lake_jvm, servers / "hdfs-sets", CatalogConnection("lake", {"uri": catalog}))


@pytest.fixture
def table(lake: Pair) -> Table:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    lake.namespace(namespace)
    made = lake.table(namespace)
    assert made.loaded.metadata.location.startswith("hdfs://")
    made.fill(4)
    made.upsert((1, 10), (2, 20))
    return made


def test_the_kernel(nodes: str) -> None:
    given = CatalogConnection("lake", {"uri": "http://g"}).pyiceberg_properties()
    tally, found, wanted = rewritten(make_file_io(given, f"{nodes}/kernel"), f"{nodes}/kernel")
    assert tally.rows_in == ROWS
    assert found.equals(wanted)


def test_a_rewrite_is_committed_and_its_rows_are_the_same(lake: Pair, table: Table) -> None:
    rows = table.rows()
    (event,) = lake.commit(lake.rewrite(table.order()))
    assert type(event).__name__ == "RewriteCommitted"
    assert table.rows() == rows == [(0, 0), (1, 10), (2, 20), (3, 3)]
    summary = table.loaded.head(MAIN).summary
    assert summary is not None
    assert int(summary["total-data-files"]) < 5
    assert summary["total-delete-files"] == "0"


def test_outputs_that_nobody_commits_are_swept(lake: Pair, table: Table) -> None:
    result = lake.rewrite(table.order())
    made = [one.path for group in result.groups for one in group.outputs]
    assert made
    assert all(map(table.exists, made))
    storage_ms = storage_now_ms(table.loaded)
    assert storage_ms is not None
    assert abs(storage_ms - now_ms()) < 60_000
    later_ms = storage_ms + 86_400_000
    swept = OutputSweeper(lake.tables, lambda: later_ms, 3_600_000, lambda _: later_ms).sweep(
        table.name
    )
    assert len(swept.lists) == 1, swept
    assert not any(map(table.exists, made))


def firnline(catalog: str, jar: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, as cron starts it."""
    kept = ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "XDG_CACHE_HOME", "PYTHONPATH")
    given = {name: os.environ[name] for name in kept if name in os.environ}
    given |= {"FIRNLINE_CATALOG_URI": catalog, "FIRNLINE_ICEBERG_JAR": str(jar)}
    argv = [sys.executable, "-m", "firnline_cli", *words]
    return subprocess.run(argv, capture_output=True, text=True, env=given, timeout=250)


def test_one_command_compacts_a_table(catalog: str, table: Table, iceberg_jar: Path) -> None:
    name, rows = f"{table.name.namespace[0]}.{table.name.name}", table.rows()
    few = ("--fleet", "firnline.rewrite.min-fragments=2")
    done = firnline(catalog, iceberg_jar, "run", name, "compact", "--verify", "--json", *few)
    assert done.returncode == 0, done.stdout + done.stderr
    told = {one["event"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert "ended" in told, done.stdout
    assert (told["ended"]["outcome"], told["compared"]["outcome"]) == ("committed", "equal")
    summary = table.loaded.head(MAIN).summary
    assert summary is not None
    assert int(summary["total-data-files"]) < 5
    assert summary["total-delete-files"] == "0"
    assert table.rows() == rows


def test_the_doctor_finds_nothing_wrong(catalog: str, table: Table, iceberg_jar: Path) -> None:
    name = f"{table.name.namespace[0]}.{table.name.name}"
    words = ("--json", "--table", name, "--service", "enricher", "--service", "committer")
    done = firnline(catalog, iceberg_jar, "doctor", *words)
    found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    wanted = ("storage.lake.read", "storage.lake.write", "storage.lake.parts", "java.lake")
    assert {one: found[one]["status"] for one in wanted} == dict.fromkeys(wanted, "ok"), found


def test_an_orphan_has_a_date(nodes: str, table: Table) -> None:
    location = table.loaded.metadata.location
    place = "data/00000-0-3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab-00001.parquet"
    with files(nodes).open_output_stream(f"{location.removeprefix(nodes)}/{place}") as to:
        to.write(b"x")
    later_ms, loaded = now_ms() + 60_000, table.loaded
    found = find_orphans(loaded, RetainedNames(loaded), Storage(loaded), later_ms)
    assert [one.place for one in found.files] == [place]
    assert abs(found.files[0].stored_at_ms - later_ms) < 600_000


def test_what_a_name_node_says_is_an_error_of_files_in_a_line(nodes: str) -> None:
    output = make_file_io({}, f"{nodes}/x").new_output(f"{nodes}/probe/below")  # `probe` is a file
    with pytest.raises(OSError, match="not a directory") as told, output.create(True) as sink:
        sink.write(b"x")
    assert "\tat " not in str(told.value)
