"""Orphans of a table on an S3 store, found in an inventory of its bucket; the location is not
listed."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import TableName
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.removal import orphans as module
from firnline_iceberg.removal.orphans import find_orphans
from firnline_iceberg.storage.file_io import make_file_io
from firnline_iceberg.storage.stored_files import StoredFiles
from firnline_iceberg.table.catalog_client import to_loaded_table
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import RetainedNames
from pyarrow import parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.s3_server import BUCKET, Keys, S3Server

pytestmark = pytest.mark.stack
NOW_S = 1_900_000_000  # what is written now is older than that
RUN = "3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab"
LIMIT_MS = (NOW_S - 3 * 86_400) * 1000


class Stored(MemoryCatalog):
    """Tables on the store, metadata files included."""

    def __init__(self, warehouse: str, settings: Mapping[str, Any]) -> None:
        super().__init__(warehouse)
        self.settings = {name: one for name, one in settings.items() if isinstance(one, str)}

    def load_table(self, identifier: Any) -> Table:
        table = super().load_table(identifier)
        table.io = make_file_io(self.settings, table.metadata.location)
        place = table.io.new_output(table.metadata_location)
        ToOutputFile.table_metadata(table.metadata, place, overwrite=True)
        return table


class Site:
    """A table with a live file, and the bucket's inventory."""

    def __init__(self, store: S3Server, keys: Keys | None = None) -> None:
        self.store, self.prefix = store, uuid.uuid4().hex
        keys = keys or store.new_keys()
        given = {"uri": "http://g", **store.properties, **keys.properties()}
        settings = CatalogConnection("lake", given).pyiceberg_properties()
        self.catalog = Stored(f"s3://{BUCKET}/{self.prefix}", settings)
        self.catalog.make("ns.t", Schema(NestedField(1, "id", LongType())))
        self.made = self.catalog.load_table(("ns", "t"))
        self.made.append(pa.table({"id": pa.array([1], pa.int64())}))
        self.location = self.made.metadata.location

    def key(self, place: str) -> str:
        return f"{self.location.removeprefix(f's3://{BUCKET}/')}/{place}"

    def put(self, place: str, age_days: float) -> None:
        self.store.put(self.key(place), b"12345")
        at_s = NOW_S - age_days * 86_400
        os.utime(self.store.folder / BUCKET / self.key(place), (at_s, at_s))

    def inventory(self, *extra: tuple[str, float]) -> str:
        """Of all that is there now, and of more (place, age in days); its location."""
        root = self.store.folder / BUCKET
        found = [
            {"key": str(one.relative_to(root)), "size": 5, "last_modified_date": at(one)}
            for one in (root / self.prefix).rglob("*")
            if one.is_file()
        ]
        for place, days in extra:
            day = datetime.fromtimestamp(NOW_S - days * 86_400, UTC)
            found.append({"key": self.key(place), "size": 5, "last_modified_date": day})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(found), sink)
        folder = f"inventories/{self.prefix}"
        self.store.put(f"{folder}/data/1.parquet", sink.getvalue().to_pybytes())
        body = {
            "sourceBucket": BUCKET, "fileFormat": "Parquet", "fileSchema": "message {}",
            "files": [{"key": f"{folder}/data/1.parquet", "size": 1}],
        }  # fmt: skip
        self.store.put(f"{folder}/2026-03-01T01-00Z/manifest.json", json.dumps(body).encode())
        return f"s3://{BUCKET}/{folder}"

    def table(self) -> LoadedTable:
        found = self.catalog.load_table(("ns", "t"))
        return to_loaded_table(TableName(str(found.metadata.table_uuid), ("ns",), "t"), found)

    def orphans(self, inventory: str) -> list[str]:
        table = self.table()
        names, storage = RetainedNames(table), Storage(table)
        found = find_orphans(table, names, storage, LIMIT_MS, inventory)
        return sorted(one.place for one in found.files)


def at(path: Any) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


@pytest.fixture
def site(store: S3Server) -> Site:
    return Site(store)


def test_what_the_inventory_names_and_the_table_does_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.put(f"data/00000-0-{RUN}.parquet", 10)
    site.put(f"data/0123abcd/00000-0-{RUN}.parquet", 10)
    site.put(f"data/00000-1-{RUN}.parquet", 1)
    inventory = site.inventory()
    site.put(f"data/00000-2-{RUN}.parquet", 10)  # the next inventory has it
    listed = Storage.list_pages

    def of_other_tables(self: Storage, below: str = "", **more: str) -> Iterator[StoredFiles]:
        assert below, "it was listed"
        return listed(self, below, **more)

    monkeypatch.setattr(module.Storage, "list_pages", of_other_tables)
    assert site.orphans(inventory) == [
        f"data/00000-0-{RUN}.parquet",
        f"data/0123abcd/00000-0-{RUN}.parquet",
    ]
    monkeypatch.setattr(module.Storage, "list_pages", listed)
    assert f"data/00000-2-{RUN}.parquet" in site.orphans("")


def test_an_inventory_is_believed_only_as_far_as_the_store_agrees(site: Site) -> None:
    """It is a day old; and who may write below its location may have made it up."""
    site.put(f"data/00000-3-{RUN}.parquet", 1)
    forged = ((f"data/00000-3-{RUN}.parquet", 10), (f"data/00000-4-{RUN}.parquet", 10))
    assert site.orphans(site.inventory(*forged)) == []


def test_another_tables_metadata_in_it_is_a_reason_to_stop(site: Site) -> None:
    inventory = site.inventory(("inner/metadata/00000-a.metadata.json", 10))
    with pytest.raises(TaskRefused) as refused:
        site.orphans(inventory)
    assert refused.value.reason == "shared_location"


@pytest.mark.parametrize("place", ["_delta_log/0.json", "data/.hoodie/x", "../_delta_log/0.json"])
def test_an_inventory_is_not_believed_about_other_tables(site: Site, place: str) -> None:
    """It may leave out what it likes."""
    site.put(f"data/00000-0-{RUN}.parquet", 10)
    inventory = site.inventory()
    there = site.key(place) if "../" not in place else f"{site.prefix}/ns/{place[3:]}"
    site.store.put(there, b"{}")
    kind = "Hudi" if "hoodie" in place else "Delta"
    with pytest.raises(TaskRefused, match=kind) as refused:
        site.orphans(inventory)
    assert refused.value.reason == "shared_location"
