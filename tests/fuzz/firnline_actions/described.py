"""What statistics files say of a snapshot, against the rows that it has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from typing import Any

import pyarrow.parquet as pq
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.manifest import DataFileContent, FileFormat

from firnline_actions.ages import days
from tests.kit.lake.rows import Lineage
from tests.kit.lake.writer import local

ID, U = 1, 3  # field ids
KINDS = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position_delete",
    DataFileContent.EQUALITY_DELETES: "equality_delete",
}
FIGURES = [f"{kind}_{what}_count" for kind in KINDS.values() for what in ("file", "record")]


def statistics_of(table: LoadedTable) -> list[Any]:
    """Both kinds."""
    return [*chain(table.metadata.statistics, table.metadata.partition_statistics)]


@dataclass
class Described:
    """`seen`: files that were right when they came; they never change."""

    seen: set[str] = field(default_factory=set)

    def check(self, table: LoadedTable, lineage: Lineage) -> None:
        """Raises AssertionError."""
        for one in statistics_of(table):
            path = local(one.statistics_path)
            assert path.exists(), f"{path}, that the metadata names, is gone"
            assert table.retains(one.snapshot_id), f"{path} is of no snapshot"
        for one in table.metadata.statistics:
            if one.statistics_path not in self.seen:
                self._distinct(one, lineage)
        for part in table.metadata.partition_statistics:
            if part.statistics_path not in self.seen:
                _partitions(table, part)
        self.seen |= {one.statistics_path for one in statistics_of(table)}

    def _distinct(self, one: Any, lineage: Lineage) -> None:
        rows = lineage.rows(one.snapshot_id)
        exact = {ID: len({row.key for row in rows}), U: len(rows)}
        found = {blob.fields[0]: int(blob.properties["ndv"]) for blob in one.blob_metadata}
        for number in exact.keys() & found.keys():
            assert found[number] == exact[number], (
                f"snapshot {one.snapshot_id}: {found[number]} values of field {number}, "
                f"not {exact[number]}"
            )
        assert found.keys() & exact.keys(), f"{one.statistics_path} describes nothing"


def _partitions(table: LoadedTable, one: Any) -> None:
    """Files and records of each partition, of data and of both kinds of deletes."""
    exact: Counter[tuple[Any, ...]] = Counter()
    for manifest in table.snapshot(one.snapshot_id).manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            is_vector = file.file_format == FileFormat.PUFFIN
            kind = "dv" if is_vector else KINDS[file.content]
            place = (manifest.partition_spec_id, _values(file.partition))
            exact[*place, f"{kind}_count" if is_vector else f"{kind}_file_count"] += 1
            if is_vector:
                kind = KINDS[file.content]
            exact[*place, f"{kind}_record_count"] += file.record_count
    found: Counter[tuple[Any, ...]] = Counter()
    for row in pq.read_table(local(one.statistics_path), partitioning=None).to_pylist():
        values = _values((row["partition"] or {}).values())
        for name in (*FIGURES, "dv_count"):
            found[row["spec_id"], values, name] += row.get(name) or 0
    wrong = {key: (found[key], exact[key]) for key in found | exact if found[key] != exact[key]}
    assert not wrong, f"{one.statistics_path}: {wrong}"


def _values(partition: Any) -> str:
    """Without fields that its own spec does not have: in the file they are NULL."""
    return str(sorted(str(_plain(one)) for one in partition if one is not None))


def _plain(value: Any) -> Any:
    return days(value) if isinstance(value, date) else value
