"""What an expiry would take away; Iceberg's own choice is held against it in the worker's tests."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest
from firnline_domain.records.results import ExpiryPreview
from firnline_iceberg.expiry.snapshot_selection import (
    expiring_snapshots,
    keep_for_streams,
    preview_expiry,
)
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.types import LongType, NestedField

from tests.kit.memory_catalog import MemoryCatalog, MemoryTables

NOW = 2**53


@pytest.fixture
def catalog(tmp_path: Path) -> MemoryCatalog:
    made = MemoryCatalog(f"file://{tmp_path}/warehouse")
    made.make("db.t", Schema(NestedField(1, "id", LongType())))
    return made


@pytest.fixture
def table(catalog: MemoryCatalog) -> Table:
    """Four snapshots: three appends, and one that replaces all that they brought."""
    made = catalog.load_table("db.t")
    for number in range(3):
        made.append(pa.table({"id": pa.array([number], pa.int64())}))
    made.overwrite(pa.table({"id": pa.array([9], pa.int64())}))
    return made


def loaded(catalog: MemoryCatalog) -> LoadedTable:
    return MemoryTables(catalog).load_named(("db",), "t")


def ids(catalog: MemoryCatalog, retain_last: int = 1, older_than_ms: int = NOW) -> list[int]:
    found = loaded(catalog)
    order = [one.snapshot_id for one in found.snapshots]
    return [
        order.index(one.snapshot_id)
        for one in expiring_snapshots(found, older_than_ms, retain_last, NOW)
    ]


def test_all_but_the_newest_go_and_what_they_alone_need(
    catalog: MemoryCatalog, table: Table
) -> None:
    count = len(table.snapshots())
    assert sorted(ids(catalog)) == list(range(count - 1))
    assert sorted(ids(catalog, retain_last=3)) == list(range(count - 3))
    assert ids(catalog, older_than_ms=0) == []
    found = loaded(catalog)
    what = preview_expiry(found, expiring_snapshots(found, NOW, 1, NOW))
    assert (what.snapshots, what.files) == (count - 1, 3)
    assert what.bytes > 0
    assert preview_expiry(found, []) == ExpiryPreview()


def test_what_a_tag_points_at_stays(catalog: MemoryCatalog, table: Table) -> None:
    first = table.snapshots()[1].snapshot_id
    table.manage_snapshots().create_tag(first, "kept").commit()
    assert 1 not in ids(catalog)
    assert 0 in ids(catalog)


STREAMED = {"firnline.streaming-readers": "true"}


def set_apart(found: LoadedTable) -> LoadedTable:
    """Set the snapshots a second apart; those of a fast machine share a millisecond."""
    snapshots = [
        snapshot.model_copy(update={"timestamp_ms": number * 1_000})
        for number, snapshot in enumerate(found.snapshots, 1)
    ]
    return dataclasses.replace(
        found, metadata=found.metadata.model_copy(update={"snapshots": snapshots})
    )


def following(newest: Snapshot, *operations: Operation, later_ms: int) -> list[Snapshot]:
    """Snapshots upon `newest`, each so much later than the one before."""
    made = [newest]
    for number, operation in enumerate(operations, 1):
        change = {
            "snapshot_id": number,
            "parent_snapshot_id": made[-1].snapshot_id,
            "timestamp_ms": made[-1].timestamp_ms + later_ms,
            "summary": Summary(operation),
        }
        made.append(made[-1].model_copy(update=change))
    return made[1:]


@pytest.mark.parametrize("later_ms", [7, -7])  # of a maintainer whose clock is behind
def test_a_stream_keeps_the_newest_rows_and_all_that_followed(
    catalog: MemoryCatalog, table: Table, later_ms: int
) -> None:
    """A reader that has read all stands there, and goes on from one snapshot to the next."""
    found = set_apart(loaded(catalog))
    [*_, newest] = found.snapshots
    assert keep_for_streams(found, STREAMED, NOW) == newest.timestamp_ms
    replaced = following(newest, Operation.REPLACE, Operation.DELETE, later_ms=later_ms)
    snapshots = [*found.snapshots, *replaced]
    refs = {"main": found.metadata.refs["main"].model_copy(update={"snapshot_id": 2})}
    metadata = found.metadata.model_copy(update={"snapshots": snapshots, "refs": refs})
    after = dataclasses.replace(found, metadata=metadata)
    cut_off = keep_for_streams(after, STREAMED, NOW)
    gone = {one.snapshot_id for one in expiring_snapshots(after, cut_off, 1, NOW)}
    assert gone == {one.snapshot_id for one in found.snapshots} - {newest.snapshot_id}
    assert keep_for_streams(after, STREAMED, 5) == 5
    assert keep_for_streams(after, {}, NOW) == NOW
    orphaned = metadata.model_copy(update={"snapshots": replaced})
    assert keep_for_streams(dataclasses.replace(found, metadata=orphaned), STREAMED, NOW) == NOW
