"""Keys to the storage that the catalog alone hands out, and that end while we work."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.base import values
from firnline_domain.errors import StorageRefused
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.storage.vended_file_io import CarefulInput, StagedOutput
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.spark.session import SparkStage
from firnline_worker.spark.stage import GroupOrder, GroupResult, StageOrder, run_groups

from tests.kit.lake.table import Table
from tests.kit.lake_catalog import LakeCatalog, Rules, lake_catalog
from tests.kit.lake_pair import Pair, now_ms, pair
from tests.kit.long_run import mark_long
from tests.kit.s3_server import S3Server

pytestmark = pytest.mark.stack
SHORT_S = 3.0


@pytest.fixture(scope="module")
def server(servers: Path, store: S3Server) -> Iterator[LakeCatalog]:
    """The reference catalog on S3; it asks for a token and hands out keys."""
    with lake_catalog(servers / "vending", Rules(keys_s=60.0), store) as found:
        yield found


@pytest.fixture
def lake(server: LakeCatalog, lake_jvm: IcebergJvm, tmp_path: Path) -> Pair:
    """Of which no part has keys of its own."""
    server.rules.keys_s, server.rules.vends_expiry = 60.0, True
    server.rules.credentials_in = "storage-credentials"
    server.handed_out.clear()
    return pair(lake_jvm, tmp_path, server.connection())


@pytest.fixture
def table(lake: Pair) -> Table:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    lake.namespace(namespace)
    return lake.table(namespace)


def upserted(table: Table, files: int = 4) -> list[tuple[int, int]]:
    """Small files and deletes for them; the rows."""
    table.fill(files)
    table.upsert((1, 10), (2, 20))
    rows = table.rows()
    assert (1, 10) in rows
    return rows


@pytest.mark.parametrize(
    "place", mark_long(["config", "storage-credentials"], but=["storage-credentials"])
)
@pytest.mark.parametrize("says_when", mark_long([True, False], but=[True]))
def test_a_rewrite_with_the_catalogs_keys_alone(
    lake: Pair, table: Table, server: LakeCatalog, place: str, says_when: bool
) -> None:
    server.rules.credentials_in, server.rules.vends_expiry = place, says_when
    rows = upserted(table)
    (event,) = lake.commit(lake.rewrite(table.order()))
    assert type(event).__name__ == "RewriteCommitted"
    assert table.rows() == rows
    assert len(list(table.loaded.manifests_of(table.loaded.head("main")))) >= 1
    assert server.handed_out


@dataclass(frozen=True)
class SlowStage:
    """Waits before each group until all keys that are out have ended."""

    wait_s: float
    is_remote: bool = False
    tries: int = 1

    def run(self, _: str, order: StageOrder, groups: Sequence[GroupOrder]) -> list[GroupResult]:
        found: list[GroupResult] = []
        for group in groups:
            time.sleep(self.wait_s)
            found += run_groups(order, [group])
        return found


def test_a_compaction_that_lasts_longer_than_its_keys_finishes(
    lake: Pair, table: Table, server: LakeCatalog
) -> None:
    rows = upserted(table, 6)
    server.rules.keys_s = SHORT_S
    slow = replace(lake.rewriter, stage=SlowStage(SHORT_S + 1))
    began, before = time.monotonic(), len(server.handed_out)
    result = slow.rewrite(table.order(), lambda _: None)
    assert result.mode == "native"
    assert time.monotonic() - began > SHORT_S
    assert len(server.handed_out) - before >= 2
    time.sleep(SHORT_S + 0.5)
    (event,) = lake.commit(result)
    assert type(event).__name__ == "RewriteCommitted"
    assert table.rows() == rows


@pytest.mark.long
def test_executors_ask_for_keys_of_their_own(
    lake: Pair, table: Table, server: LakeCatalog, spark: Any
) -> None:
    """In Python workers of Spark, which were given keys that have ended when they begin."""
    rows = upserted(table, 6)
    server.rules.keys_s = SHORT_S
    stage = SparkStage(spark)

    @dataclass(frozen=True)
    class Late:
        is_remote, tries = False, 1

        def run(self, name: str, order: StageOrder, groups: Sequence[GroupOrder]) -> list[Any]:
            time.sleep(SHORT_S + 1)
            return stage.run(name, order, groups)

    before = server.count("/credentials") + server.count(f"/{table.name.name}")
    result = replace(lake.rewriter, stage=Late()).rewrite(table.order(), lambda _: None)
    assert server.count("/credentials") + server.count(f"/{table.name.name}") > before
    lake.commit(result)
    assert table.rows() == rows


def test_a_file_that_is_open_is_read_on_with_other_keys(
    table: Table, server: LakeCatalog, store: S3Server
) -> None:
    server.rules.keys_s = 20.0
    io = table.loaded.io
    path, body = f"{table.loaded.metadata.location}/x.bin", bytes(range(256)) * 40_000
    with io.new_output(path).create() as sink:
        assert isinstance(sink, StagedOutput)
        sink.write(body[: 1 << 20])
        time.sleep(1.1)
        store.drop_all()  # what was handed out so far
        sink.write(body[1 << 20 :])
        assert sink.tell() == len(body)
    with io.new_input(path).open() as source:
        assert isinstance(source, CarefulInput)
        first = source.read(5_000_000)
        time.sleep(1.1)
        store.drop_all()
        assert first + source.read() == body
        source.seek(7)
        assert source.read(3) == body[7:10]


def test_what_is_given_up_while_it_is_written_is_not_stored(table: Table) -> None:
    io, path = table.loaded.io, f"{table.loaded.metadata.location}/y.bin"

    def write() -> None:
        with io.new_output(path).create() as sink:
            sink.write(b"half")
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write()
    assert not io.new_input(path).exists()


def test_a_table_that_was_loaded_long_ago_is_still_read(
    table: Table, server: LakeCatalog, store: S3Server
) -> None:
    upserted(table)
    kept = table.loaded
    time.sleep(1.1)
    store.drop_all()
    head = kept.head("main")
    entries = [one for file in kept.manifests_of(head) for one in kept.entries_of(file)]
    assert len(entries) == 6


def test_the_committer_goes_on_when_the_keys_of_a_try_have_ended(
    lake: Pair, table: Table, store: S3Server
) -> None:
    rows = upserted(table)
    result = lake.rewrite(table.order())
    lake.commits._keep_table(
        table.name, lake.commits._read_table(table.name)
    )  # as after a lost race
    time.sleep(1.1)
    store.drop_all()
    (event,) = lake.commit(result)
    assert type(event).__name__ == "RewriteCommitted"
    assert table.rows() == rows


def test_leftovers_are_swept_with_new_keys(
    lake: Pair, table: Table, store: S3Server, server: LakeCatalog
) -> None:
    """Output lists, row maps and outputs of a task that came to nothing."""
    table.fill(4)
    result = lake.rewrite(values.replace(table.order(), run_ms=1))
    outputs = [file for group in result.groups for file in group.outputs]
    assert all(table.exists(one.path) for one in outputs)
    table.loaded.io.new_input(outputs[0].path)
    tables = Tables(server.connection())
    time.sleep(1.5)
    store.drop_all()
    swept = OutputSweeper(tables, now_ms, 1000).sweep(table.name)
    assert len(swept.lists) == 1, swept
    assert not any(table.exists(one.path) for one in outputs)


def test_a_key_that_may_not_is_told_as_such(
    lake: Pair, table: Table, server: LakeCatalog, monkeypatch: Any
) -> None:
    """Not asked for again and again, and not as if the storage were away."""
    upserted(table)
    loaded = table.loaded
    vended: Callable[..., Any] = server.vended

    def broken(location: str) -> dict[str, Any]:
        found = vended(location)
        for one in found["storage-credentials"]:
            one["config"]["s3.secret-access-key"] = "cAnAry-not-it"
        return dict(found)

    monkeypatch.setattr(server, "vended", broken)
    loaded = table.loaded
    before = len(server.handed_out)
    with pytest.raises(StorageRefused, match="give our keys this right") as caught:
        list(loaded.manifests_of(loaded.head("main")))
    assert len(server.handed_out) - before <= 2
    assert "cAnAry" not in str(caught.value)
