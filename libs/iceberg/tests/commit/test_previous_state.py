"""Which of the metadata files beside a table is that of the state before its head."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from firnline_domain.identity import TableName
from firnline_iceberg.commit.previous_state import MAX_LOOKED, find_previous_state
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, NestedField

from libs.iceberg.tests.stored_catalog import StoredCatalog

SCHEMA = Schema(NestedField(1, "id", LongType()))


@dataclass
class Site:
    """A table of which each state has a file."""

    table: Table
    folder: Path

    def append(self, number: int) -> TableMetadata:
        self.table.append(pa.table({"id": [number]}))
        return self.table.metadata

    def leave(self, metadata: TableMetadata, at_s: int) -> str:
        """A metadata file of that time."""
        path = self.folder / f"00000-{uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, self.table.io.new_output(f"file://{path}"))
        os.utime(path, (at_s, at_s))
        return f"file://{path}"

    def loaded(self, takes_out: bool = True) -> LoadedTable:
        """With a head that took a file out, or added one, and its own metadata file."""
        if takes_out:
            self.table.delete("id = 1")
        else:
            self.append(3)
        metadata = self.table.metadata
        name = TableName(str(metadata.table_uuid), ("db",), "t")
        return LoadedTable(name, metadata, self.table.io, self.leave(metadata, 99))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    catalog = StoredCatalog(f"file://{tmp_path}")
    table = catalog.make("db.t", SCHEMA)
    folder = tmp_path / "states"
    folder.mkdir()
    return Site(table, folder)


def head(table: LoadedTable) -> int:
    return table.head("main").snapshot_id


@pytest.mark.parametrize("takes_out", [True, False])
def test_the_files_of_the_head_say_which_it_is_whatever_the_times_say(
    site: Site, takes_out: bool
) -> None:
    older = site.append(1)
    before = site.append(2)
    location = site.leave(before, 10)
    site.leave(older, 50)
    found = find_previous_state(table := site.loaded(takes_out), head(table))
    assert found is not None
    assert found.metadata_location == location
    current = before.current_snapshot()
    assert current is not None
    assert found.snapshot == current


def test_without_its_file_there_is_none(site: Site) -> None:
    site.leave(site.append(1), 50)
    site.append(2)
    (site.folder / "00000-x.metadata.json").write_text("{")
    table = site.loaded()
    assert find_previous_state(table, head(table)) is None


def test_a_file_of_another_table_is_passed_over(site: Site) -> None:
    site.append(1)
    before = site.append(2)
    site.leave(before.model_copy(update={"table_uuid": uuid4()}), 60)
    table = site.loaded()
    assert find_previous_state(table, head(table)) is None


def test_no_more_files_are_looked_at_than_that(site: Site) -> None:
    older, before = site.append(1), site.append(2)
    site.leave(before, 1)
    for number in range(MAX_LOOKED):
        site.leave(older, 10 + number)
    table = site.loaded()
    assert find_previous_state(table, head(table)) is None
