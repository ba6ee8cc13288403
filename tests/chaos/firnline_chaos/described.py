"""What statistics files say of a retained snapshot, against its rows and its manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.kit.lake.rows import Lineage, Unseen

ID = 1  # field id; of fewer values than a sketch keeps, so its count is exact


def findings(table: LoadedTable, lineage: Lineage) -> list[str]:
    """An entry of a snapshot that has left the table may be there until the next computation, and
    nobody reads it."""
    retained = {one.snapshot_id for one in table.snapshots}
    metadata = table.metadata
    found = list[str]()
    for one in metadata.statistics:
        if one.snapshot_id in retained:
            found += _distinct(table, one, lineage)
    for part in metadata.partition_statistics:
        if part.snapshot_id in retained:
            found += _partitions(table, part)
    return [f"{table.identity.name}: {one}" for one in found]


def _distinct(table: LoadedTable, one: Any, lineage: Lineage) -> Iterator[str]:
    if not table.io.new_input(one.statistics_path).exists():
        yield f"{one.statistics_path}, that the metadata names, is gone"
    try:
        rows = lineage.rows(one.snapshot_id)
    except Unseen:
        return
    exact = len({row.key for row in rows} - {None})
    for blob in one.blob_metadata:
        told = int(blob.properties["ndv"])
        if blob.fields == [ID] and told != exact:
            yield f"snapshot {one.snapshot_id} has {exact} values of id, its statistics say {told}"


def _partitions(table: LoadedTable, one: Any) -> Iterator[str]:
    """Files and rows of all partitions together."""
    if not table.io.new_input(one.statistics_path).exists():
        yield f"{one.statistics_path}, that the metadata names, is gone"
        return
    live = live_entries(table, one.snapshot_id, Detail.COUNTS)
    records = [entry.records for entry in live if isinstance(entry, DataFileEntry)]
    with table.io.new_input(one.statistics_path).open() as source:
        told = pq.read_table(pa.BufferReader(source.read()))
    names = ("data_file_count", "data_record_count")
    found = [sum(told.column(name).to_pylist()) for name in names]
    if found != [len(records), sum(records)]:
        yield (
            f"snapshot {one.snapshot_id} has {len(records)} files of {sum(records)} rows, its "
            f"partition statistics say {found}"
        )
