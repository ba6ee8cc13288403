"""What the first expiry of an adopted table would delete is told before it is adopted."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_cli.adoption.catalog_tables import CatalogLake
from firnline_cli.adoption.report import expiry_words
from firnline_domain.identity import TableName
from firnline_domain.settings.thresholds import Thresholds
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables


def lake_of(tmp_path: Path, **properties: str) -> tuple[CatalogLake, TableName]:
    """A table of three snapshots, the last of which replaced all, seen 30 days later."""
    catalog = MemoryCatalog(f"file://{tmp_path}/warehouse")
    table = catalog.make("db.t", Schema(NestedField(1, "id", LongType())), **properties)
    for number in range(2):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    table.delete()
    tables = MemoryTables(catalog)
    later = time.time() + 30 * 86_400
    lake = CatalogLake(tables, tables, Thresholds(), lambda _: None, lambda: later)  # type: ignore[arg-type]
    return lake, tables.load_named(("db",), "t").identity


def test_what_would_be_deleted_is_shown(tmp_path: Path) -> None:
    lake, name = lake_of(tmp_path)
    found = lake.first_expiry(name)
    assert (found.snapshots, found.going.snapshots, found.going.files) == (3, 2, 2)
    assert expiry_words(found).startswith("2 of 3 snapshots are old enough to be expired, with 2 ")
    assert expiry_words(found).endswith(", 24.0 h after it is announced")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"gc.enabled": "false"}, "no snapshot is expired (gc disabled)"),
        ({"firnline.expire.enabled": "false"}, "no snapshot is expired (expire disabled)"),
        ({"migrated": "true"}, "no snapshot is expired (external files)"),
    ],
)
def test_why_nothing_would_be_deleted_is_shown(
    tmp_path: Path, properties: dict[str, str], words: str
) -> None:
    lake, name = lake_of(tmp_path, **properties)
    assert expiry_words(lake.first_expiry(name)) == words
