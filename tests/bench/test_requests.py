"""What a file costs on an object store, by a server that counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from firnline_deletes.files.parquet import WHOLE_BYTES, SequencedFile
from firnline_iceberg.storage import s3_client
from firnline_iceberg.storage.file_io import make_file_io
from firnline_worker.spark.stage import file_creator, file_opener
from pyiceberg.io import FileIO

from bench.rewrite.store import BUCKET, Store, client_properties, serving

PATH = f"s3://{BUCKET}/t/a.parquet"
SMALL = b"x" * 100_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / BUCKET / "t").mkdir(parents=True)
    with serving(tmp_path) as made:
        yield made


def io_of(store: Store, **more: str) -> FileIO:
    return make_file_io({**client_properties(store.uri), **more}, PATH)


def put(store: Store, body: bytes) -> None:
    (store.root / BUCKET / "t" / "a.parquet").write_bytes(body)


def read(io: FileIO, size: int) -> bytes:
    with file_opener(io, [SequencedFile(PATH, 1, bytes=size)])(PATH) as source:
        found: bytes = source.read()
        return found


def verbs(store: Store) -> list[str]:
    return [one.verb for one in store.taken()]


def test_a_small_input_is_one_request(store: Store) -> None:
    put(store, SMALL)
    assert read(io_of(store), len(SMALL)) == SMALL
    assert verbs(store) == ["GET"]


@pytest.mark.parametrize("size", [0, WHOLE_BYTES + 1])
def test_of_a_large_one_and_an_unknown_one_arrow_asks_the_size(store: Store, size: int) -> None:
    put(store, SMALL)
    assert read(io_of(store), size) == SMALL
    assert verbs(store) == ["HEAD", "GET"]


def test_a_manifest_that_lies_about_a_size_costs_requests_and_no_bytes(store: Store) -> None:
    body = bytes(range(256)) * (WHOLE_BYTES // 256 + 1)
    put(store, body)
    assert read(io_of(store), 10) == body
    first, *others = store.taken()
    assert (first.verb, first.bytes) == ("GET", WHOLE_BYTES)
    assert [one.verb for one in others][:2] == ["HEAD", "GET"]
    put(store, SMALL)
    assert read(io_of(store), WHOLE_BYTES) == SMALL


def test_what_is_gone_is_told_by_arrow(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        read(io_of(store), 10)


def test_a_role_and_a_proxy_are_left_to_arrow(store: Store) -> None:
    for name in ("s3.role-arn", "client.role-arn", "s3.proxy-uri", "s3.anonymous"):
        settings = {**client_properties(store.uri), name: "x"}
        assert s3_client.bucket_of(io_of(store), settings, PATH) is None
    assert s3_client.bucket_of(io_of(store), {}, "file:///x") is None


def test_a_store_that_was_not_reached_is_not_tried_twice(store: Store) -> None:
    settings = {**client_properties("http://127.0.0.1:9"), "s3.connect-timeout": "1"}
    place = s3_client.bucket_of(io_of(store), settings, PATH)
    assert place is not None
    bucket, key = place
    assert bucket.fetch_small(key, 10) is None
    calls: list[Any] = []
    bucket._client.s3.meta.events.register("before-send", lambda **given: calls.append(given))
    assert bucket.fetch_small(key, 10) is None
    assert calls == []


@pytest.mark.parametrize(("size", "asked"), [(100, 1), (9_000_000, 1), (12_000_000, 4)])
def test_an_output_is_one_request_or_one_more_than_its_parts(
    store: Store, size: int, asked: int
) -> None:
    body = b"y" * size
    with file_creator(io_of(store))(PATH) as sink:
        sink.write(body)
    assert verbs(store) == ["PUT"] * asked
    assert (store.root / BUCKET / "t" / "a.parquet").read_bytes() == body
