"""What statistics files say of a retained snapshot, against its rows and its manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import date
from io import BytesIO
from itertools import chain
from typing import Any

import pyarrow.parquet as pq
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.manifest import DataFileContent, FileFormat

KINDS = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position_delete",
    DataFileContent.EQUALITY_DELETES: "equality_delete",
}
FIGURES = [f"{kind}_{what}_count" for kind in KINDS.values() for what in ("file", "record")]
Exact = Callable[[int], Mapping[int, int]]
"""Snapshot -> distinct values by field id, of fewer than a sketch keeps. LookupError: unknown."""


def statistics_of(table: LoadedTable) -> list[Any]:
    """Both kinds."""
    return [*chain(table.metadata.statistics, table.metadata.partition_statistics)]


def find_wrong(table: LoadedTable, exact: Exact, known: Container[str] = ()) -> Iterator[str]:
    """In words. `known`: files that were right before. An entry of a snapshot that has left the
    table may be there until the next computation, and nobody reads it."""
    retained = {one.snapshot_id for one in table.snapshots}
    for one in statistics_of(table):
        if one.snapshot_id not in retained:
            continue
        if not table.io.new_input(one.statistics_path).exists():
            yield f"{one.statistics_path}, that the metadata names, is gone"
        elif one.statistics_path in known:
            continue
        elif one in table.metadata.statistics:
            yield from _distinct(one, exact)
        else:
            yield from _partitions(table, one)


def _distinct(one: Any, exact: Exact) -> Iterator[str]:
    try:
        values = exact(one.snapshot_id)
    except LookupError:
        return
    told = {blob.fields[0]: int(blob.properties["ndv"]) for blob in one.blob_metadata}
    if not told.keys() & values.keys():
        yield f"{one.statistics_path} describes nothing"
    for number in told.keys() & values.keys():
        if told[number] != values[number]:
            yield (
                f"snapshot {one.snapshot_id} has {values[number]} values of field {number}, its "
                f"statistics say {told[number]}"
            )


def _partitions(table: LoadedTable, one: Any) -> Iterator[str]:
    """Files and records of each partition, of data and of both kinds of deletes."""
    exact: Counter[tuple[Any, ...]] = Counter()
    for manifest in table.snapshot(one.snapshot_id).manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file, kind = entry.data_file, KINDS[entry.data_file.content]
            is_vector = file.file_format == FileFormat.PUFFIN
            place = (manifest.partition_spec_id, _values(file.partition))
            exact[*place, "dv_count" if is_vector else f"{kind}_file_count"] += 1
            exact[*place, f"{kind}_record_count"] += file.record_count
    found: Counter[tuple[Any, ...]] = Counter()
    with table.io.new_input(one.statistics_path).open() as source:
        rows = pq.read_table(BytesIO(source.read())).to_pylist()
    for row in rows:
        values = _values((row["partition"] or {}).values())
        for name in (*FIGURES, "dv_count"):
            found[row["spec_id"], values, name] += row.get(name) or 0
    wrong = {key: (found[key], exact[key]) for key in found | exact if found[key] != exact[key]}
    if wrong:
        yield f"snapshot {one.snapshot_id}, {one.statistics_path} (says, has): {wrong}"


def _values(partition: Any) -> str:
    """Without fields that its own spec does not have: in the file they are NULL."""
    return str(sorted(str(_plain(one)) for one in partition if one is not None))


def _plain(value: Any) -> Any:
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value
