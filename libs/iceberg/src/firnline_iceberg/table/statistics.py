"""Find the snapshots of a table that have statistics files, and how much has changed since."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from firnline_domain.base.numbers import whole_range
from firnline_domain.base.values import MAX_AMOUNT
from firnline_domain.identity import MAIN
from firnline_domain.records.parts.summaries import REPLACE
from pyiceberg.table.snapshots import Snapshot

from firnline_iceberg.table.loaded_table import LoadedTable

THETA = "apache-datasketches-theta-v1"
_COUNT = whole_range(0, MAX_AMOUNT)
_CHANGED = ("added-records", "deleted-records")  # in snapshot summaries
_DELETES = ("added-equality-deletes", "added-position-deletes")


def described_columns(table: LoadedTable, snapshot_id: int) -> frozenset[int]:
    """Return the field ids whose distinct values a snapshot's statistics contain."""
    return frozenset(
        field
        for one in table.metadata.statistics
        if one.snapshot_id == snapshot_id
        for blob in one.blob_metadata
        if blob.type == THETA
        for field in blob.fields
    )


def described_partitions(table: LoadedTable) -> frozenset[int]:
    """Return the snapshots with partition statistics."""
    return frozenset(one.snapshot_id for one in table.metadata.partition_statistics)


def latest_described(table: LoadedTable, field_ids: Collection[int]) -> int | None:
    """Return the newest snapshot of `main` whose statistics contain all these columns, else
    None."""
    for one in table.ancestors(table.head_id(MAIN)):
        if described_columns(table, one.snapshot_id) >= frozenset(field_ids):
            return one.snapshot_id
    return None


def changed_since(table: LoadedTable, snapshot_id: int) -> tuple[int | None, int]:
    """Return (rows added and removed from an ancestor of the head to it, by the summaries, deletes
    counted for the rows that they mask; rows of the head). None = the summary of some writer lacks
    them."""
    changed: int | None = 0
    head = table.head(MAIN)
    for one in table.ancestors(head.snapshot_id):
        if one.snapshot_id == snapshot_id:
            break
        if changed is not None:
            some = _changed_records(one)
            changed = None if some is None else changed + some
    return changed, _summary_number(head, "total-records") or 0


def _changed_records(snapshot: Snapshot) -> int | None:
    if snapshot.summary is None:
        return None
    if snapshot.summary.operation.value == REPLACE:
        return 0
    return sum(_summary_number(snapshot, name) or 0 for name in (*_CHANGED, *_DELETES))


def _summary_number(snapshot: Snapshot, name: str) -> int | None:
    text = snapshot.summary.additional_properties.get(name, "") if snapshot.summary else ""
    found = _COUNT.parse(str(text))
    return None if found is None else int(found)


def stale_snapshots(table: LoadedTable) -> tuple[int, ...]:
    """Return the snapshots that the table does not retain, but that statistics entries name."""
    metadata = table.metadata
    named = (one.snapshot_id for one in chain(metadata.statistics, metadata.partition_statistics))
    return tuple(sorted({one for one in named if not table.retains(one)}))
