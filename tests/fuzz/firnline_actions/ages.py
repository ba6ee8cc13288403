"""A time to each row, by its key: a quarter of them is far older than any row may be, the others
are younger than any is. So which files may leave the table hangs on what is in them alone."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow.parquet as pq
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation

from tests.kit.lake.writer import local

OLD, YOUNG = date(2020, 1, 1), date(2090, 1, 1)
EPOCH = date(1970, 1, 1)
EVERY = 4  # of the keys is old


def day_of(key: int) -> date:
    return YOUNG if key % EVERY else OLD


def days(day: date) -> int:
    """As a partition has it."""
    return (day - EPOCH).days


def went_of_age(table: LoadedTable, snapshot: Any) -> frozenset[int]:
    """Numbers of the rows in files that a commit of ours has dropped. Raises AssertionError where
    one of them was not old."""
    summary = snapshot.summary
    if summary.operation is not Operation.DELETE or not int(summary["deleted-data-files"] or 0):
        return frozenset()  # a conversion is a `delete`, too, and takes no data file
    gone: set[int] = set()
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            went = entry.status is ManifestEntryStatus.DELETED
            if not went or entry.snapshot_id != snapshot.snapshot_id:
                continue
            path = entry.data_file.file_path
            if entry.data_file.content is not DataFileContent.DATA:
                continue  # a data file's vector goes with it, by Iceberg itself
            assert all_old(path), f"{path} has rows that are young, and was dropped"
            gone |= {*pq.read_table(local(path), columns=["u"])["u"].to_pylist()}
    return frozenset(gone)


def all_old(path: str) -> bool:
    return {*pq.read_table(local(path), columns=["d"])["d"].to_pylist()} <= {OLD}
