"""A real S3 server reports its objects to the listener's endpoint, and each metadata file rings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_plus

import pytest
from firnline_adapters.config.settings import ListenAddress
from firnline_adapters.observability.logs import Log
from firnline_iceberg.storage.file_io import make_file_io
from firnline_listener.port import Doorbell, Surroundings
from firnline_listener.sources.http import PATH, HttpSource, open_http

from tests.kit.s3_server import s3_server

SECONDS = 20.0


@pytest.fixture
def source() -> Iterator[HttpSource]:
    address = ListenAddress("127.0.0.1", 0)
    where = Surroundings("hooks", ["lake"], "127.0.0.1:1", Log("test"), address)
    opened = open_http({"payload": "s3"}, where)
    yield opened
    opened.close()


@pytest.mark.stack
def test_each_metadata_file_in_a_bucket_rings(source: HttpSource, tmp_path: Path) -> None:
    told = ("--event-webhook-url", f"http://127.0.0.1:{source.port}{PATH}")
    with s3_server(tmp_path, more=told) as store:
        properties = {**store.properties, **store.new_keys().properties()}
        files = make_file_io(properties, f"s3://{store.bucket}/")
        folder = f"s3://{store.bucket}/a b/ware+house/db/t"
        written = [f"{folder}/metadata/{number:05}-a+b%.metadata.json" for number in range(3)]
        for path in (*written, f"{folder}/data/1.parquet", f"{folder}/metadata/snap-1.avro"):
            with files.new_output(path).create() as file:
                file.write(b"{}")
        files.delete(written[0])
        bells, end = list[Doorbell](), time.monotonic() + SECONDS
        while len(bells) < 2 * len(written) and time.monotonic() < end:
            bells += source.poll(0.2)
    read_as_form = [unquote_plus(one) for one in written]
    assert {one.metadata_location for one in bells} == {*written, *read_as_form}
    assert all(one.is_early for one in bells)
