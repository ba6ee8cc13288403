"""The kernel's readers and writers on stores of each kind, in the words of a connection."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.storage.file_io import make_file_io

from tests.kit import cloud_stores
from tests.kit.kernel_on_storage import ROWS, rewritten
from tests.kit.s3_server import BUCKET, S3Server
from tests.kit.throttling import throttling

pytestmark = [pytest.mark.stack, pytest.mark.long]


def holds(location: str, properties: dict[str, str]) -> None:
    given = CatalogConnection("lake", {"uri": "http://g", **properties}).pyiceberg_properties()
    tally, found, wanted = rewritten(make_file_io(given, location), location)
    assert tally.rows_in == ROWS
    assert found.equals(wanted)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_s3(store: S3Server, scheme: str) -> None:
    location = f"{scheme}://{BUCKET}/kernel-{scheme}"
    holds(location, {**store.properties, **store.root.properties()})
    assert store.uploads() == []


def test_azure(tmp_path: Path) -> None:
    with cloud_stores.azure(tmp_path / "azure") as there:
        holds(there.location, there.properties)


def test_google(tmp_path: Path) -> None:
    with cloud_stores.google(tmp_path / "google") as there:
        holds(there.location, there.properties)


def test_a_store_that_says_slow_down_is_asked_again(store: S3Server) -> None:
    """The first four tries of each request: three are all that Arrow makes by itself. (What is
    shorter than the refusal itself Arrow 26 does not ask for again.)"""
    body = bytes(10_000)
    with throttling(store.endpoint, refusals=4) as slow:
        there = {**store.properties, "s3.endpoint": slow.uri, **store.root.properties()}
        given = CatalogConnection("lake", {"uri": "http://g", **there}).pyiceberg_properties()
        location = f"s3://{BUCKET}/slow"
        io = make_file_io(given, location)
        with io.new_output(f"{location}/x").create(overwrite=True) as sink:
            sink.write(body)
        with io.new_input(f"{location}/x").open() as source:
            assert source.read() == body
    assert len(slow.refused) >= 8
