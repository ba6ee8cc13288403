"""What faults of a secured lake work on: the files on its disk, its keys, its throttle."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from firnline_chaos.stored_files import StoredFiles

from tests.kit.lake.table import Table
from tests.kit.lake_catalog import LakeCatalog, Rules
from tests.kit.s3_server import Keys, S3Server
from tests.kit.throttling import ThrottledStore, throttling

LIFE_S = 60.0


@dataclass
class Store:
    """Gives keys away, and knows which are alive."""

    alive: dict[str, None] = field(default_factory=dict)

    def new_keys(self, _: float) -> Keys:
        keys = Keys(f"AK{len(self.alive)}-{time.monotonic_ns()}", "secret")
        self.alive[keys.access] = None
        return keys


@pytest.fixture
def front() -> Iterator[LakeCatalog]:
    rules = Rules(keys_s=LIFE_S, shares_keys=True, credentials_in="config")
    with LakeCatalog("http://127.0.0.1:1", rules, cast(S3Server, Store())) as server:
        yield server


def access(front: LakeCatalog) -> Any:
    return front.vended("s3://lake/wh/t")["config"]["s3.access-key-id"]


def test_keys_are_shared_until_half_of_their_life_is_over(
    front: LakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = access(front)
    assert access(front) == first
    now = time.time()
    monkeypatch.setattr("tests.kit.lake_catalog.time.time", lambda: now + LIFE_S * 0.6)
    assert access(front) != first


def test_keys_that_were_ended_are_not_handed_out_again(front: LakeCatalog) -> None:
    first = access(front)
    assert front.store is not None
    front.store.alive.clear()
    assert access(front) != first


def test_a_share_of_all_requests_is_refused_while_it_is_set() -> None:
    with throttling("http://127.0.0.1:1") as slow:
        slow.share = 1.0
        assert [status(slow) for _ in range(5)] == [503] * 5
        slow.share = 0.0
        assert status(slow) is None  # passed on, to nobody
        assert len(slow.refused) == 5


def status(slow: ThrottledStore) -> int | None:
    try:
        urllib.request.urlopen(f"{slow.uri}/lake/x", timeout=10).close()
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
    return 200


def test_files_of_a_bucket_are_found_where_the_store_keeps_them(tmp_path: Path) -> None:
    files = StoredFiles(tmp_path)
    path = files.path("s3a://lake/wh/t/data/p=a/firnline-x.parquet")
    assert path == tmp_path / "lake/wh/t/data/p=a/firnline-x.parquet"
    path.parent.mkdir(parents=True)
    path.touch()
    (path.parent / "w-y.parquet").touch()
    found = list(files.below("s3://lake/wh/t/data/", "firnline-*"))
    assert found == ["s3://lake/wh/t/data/p=a/firnline-x.parquet"]
    assert StoredFiles().path("file:/wh/t") == Path("/wh/t")


def test_a_local_table_is_written_past_its_file_io(tmp_path: Path) -> None:
    nothing: Any = None
    Table(nothing, nothing, nothing, nothing).store(f"{tmp_path.as_uri()}/data/x", b"x")
    assert (tmp_path / "data/x").read_bytes() == b"x"
