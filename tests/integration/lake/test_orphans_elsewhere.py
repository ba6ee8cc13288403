"""Files below a location on Azure's and Google's stores: all are found, and moved by copies."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.removal.moves import Mover
from firnline_iceberg.removal.removal import QUARANTINE, FileMove
from firnline_iceberg.storage.file_io import make_file_io
from firnline_iceberg.table.listing import Storage

from tests.kit import cloud_stores
from tests.kit.cloud_stores import Store

pytestmark = [pytest.mark.stack, pytest.mark.long]


def storage_of(there: Store) -> Storage:
    given = CatalogConnection(
        "lake", {"uri": "http://g", **there.properties}
    ).pyiceberg_properties()
    io = make_file_io(given, there.location)
    table: Any = SimpleNamespace(io=io, metadata=SimpleNamespace(location=there.location))
    for place in PLACES:
        with io.new_output(f"{there.location}/{place}").create(overwrite=True) as sink:
            sink.write(b"12345")
    return Storage(table)


ASIDE = f"{QUARANTINE}/5"
PLACES = {f"data/p={p}/{n}.parquet" for p in range(3) for n in range(2)} | {"metadata/1.avro"}


@pytest.mark.parametrize("name", ["google", "azure"])
def test_partitions_without_marks_are_listed_and_files_move(tmp_path: Path, name: str) -> None:
    with getattr(cloud_stores, name)(tmp_path / name) as there:
        storage = storage_of(there)
        assert {one.place for one in storage.list_files()} == PLACES
        moved = Mover(storage).move_all(
            [
                FileMove("data/p=1/0.parquet", f"{ASIDE}/data/p=1/0.parquet", 5),
                FileMove("data/x", f"{ASIDE}/data/x"),
            ]
        )
        assert (moved.files, moved.left) == (1, {})
        aside = {f"{ASIDE}/data/p=1/0.parquet"}
        assert {one.place for one in storage.list_files()} == PLACES - {
            "data/p=1/0.parquet"
        } | aside
        assert {one.place for one in storage.list_files(QUARANTINE)} == aside
