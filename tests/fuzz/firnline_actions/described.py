"""What statistics files say of a snapshot, against the rows that it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow.parquet as pq
from firnline_iceberg.tables import LoadedTable
from pyiceberg.manifest import DataFileContent

from firnline_actions.history import History
from tests.kit.table_writer import local

ID, U = 1, 3  # field ids


def statistics_of(table: LoadedTable) -> list[Any]:
    """Both kinds."""
    return [*chain(table.metadata.statistics, table.metadata.partition_statistics)]


@dataclass
class Described:
    """`seen`: files that were right when they came; they never change."""

    seen: set[str] = field(default_factory=set)

    def check(self, table: LoadedTable, history: History) -> None:
        """Raises AssertionError."""
        for one in statistics_of(table):
            path = local(one.statistics_path)
            assert path.exists(), f"{path}, that the metadata names, is gone"
            assert table.retains(one.snapshot_id), f"{path} is of no snapshot"
        for one in table.metadata.statistics:
            if one.statistics_path not in self.seen:
                self._distinct(one, history)
        for part in table.metadata.partition_statistics:
            if part.statistics_path not in self.seen:
                _partitions(table, part)
        self.seen |= {one.statistics_path for one in statistics_of(table)}

    def _distinct(self, one: Any, history: History) -> None:
        rows = history.rows[one.snapshot_id]
        exact = {ID: len(set(rows.values())), U: len(rows)}
        found = {blob.fields[0]: int(blob.properties["ndv"]) for blob in one.blob_metadata}
        for number in exact.keys() & found.keys():
            assert found[number] == exact[number], (
                f"snapshot {one.snapshot_id}: {found[number]} values of field {number}, "
                f"not {exact[number]}"
            )
        assert found.keys() & exact.keys(), f"{one.statistics_path} describes nothing"


def _partitions(table: LoadedTable, one: Any) -> None:
    """Files and records of all partitions together."""
    files = records = 0
    for manifest in table.snapshot(one.snapshot_id).manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content == DataFileContent.DATA:
                files, records = files + 1, records + entry.data_file.record_count
    told = pq.read_table(local(one.statistics_path), partitioning=None)
    found = tuple(
        sum(told.column(name).to_pylist()) for name in ("data_file_count", "data_record_count")
    )
    assert found == (files, records), f"{one.statistics_path}: {found}, not {(files, records)}"
