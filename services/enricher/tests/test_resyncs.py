"""What a planner that missed something is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from firnline_domain.records.events import ChangeKind
from firnline_domain.records.orders import ResyncTable
from firnline_enricher.resyncs import missing_snapshots
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.planning import live_entries


@pytest.fixture
def history(lake, rows) -> list[int]:
    """Ids of four appended snapshots, oldest first."""
    for number in range(4):
        lake.table.append(rows((number % 2, number)))
    return [snapshot.snapshot_id for snapshot in lake.table.metadata.snapshots]


def ask(lake, known: int | None, wanted: int | None = None, ref: str = "main"):
    return lake.handle(ResyncTable(lake.name, ref, known, wanted, "missing_parent", 5))


def recount(lake):
    table = lake.tables.load_named(("db",), "t")
    entries = live_entries(table, table.head_id("main"), Detail.COUNTS)
    return {part.scope: part.added for part in partition_changes(entries, 4096)}


def test_missing_snapshots_come_as_the_same_deltas_again(lake, history) -> None:
    first_time = lake.follow()
    again = ask(lake, history[0])
    assert [change.snapshot_id for change in again] == history[1:]
    assert [change.event_id for change in again] == [one.event_id for one in first_time[1:]]
    assert [change.partitions for change in again] == [one.partitions for one in first_time[1:]]


def test_the_wanted_snapshot_is_the_last(lake, history) -> None:
    assert [change.snapshot_id for change in ask(lake, history[0], history[2])] == history[1:3]


def test_nothing_known_is_answered_by_everything(lake, history, counters) -> None:
    (whole,) = ask(lake, None)
    assert (whole.kind, whole.snapshot_id) == (ChangeKind.ABSOLUTE, history[-1])
    assert (whole.snapshot_count, whole.parent_snapshot_id) == (4, history[2])
    assert whole.oldest_snapshot_ms == lake.table.metadata.snapshots[0].timestamp_ms
    assert counters.fold([whole]).holds == recount(lake)


def test_a_known_snapshot_off_the_chain_is_answered_by_everything(lake, history) -> None:
    lake.table.manage_snapshots().set_current_snapshot(history[1]).commit()
    (whole,) = ask(lake, history[3])
    assert (whole.kind, whole.snapshot_id) == (ChangeKind.ABSOLUTE, history[1])


def test_a_wanted_snapshot_off_the_chain_or_behind_is_answered_at_the_head(lake, history) -> None:
    assert [change.snapshot_id for change in ask(lake, history[2], history[1])] == history[3:]
    lake.table.manage_snapshots().set_current_snapshot(history[1]).commit()
    assert [change.snapshot_id for change in ask(lake, history[0], history[3])] == [history[1]]


def test_a_planner_at_the_head_that_still_misses_something_gets_everything(lake, history) -> None:
    (whole,) = ask(lake, history[-1])
    assert (whole.kind, whole.snapshot_id) == (ChangeKind.ABSOLUTE, history[-1])


def test_a_chain_ends_at_an_expired_snapshot_but_may_start_at_one(lake, history) -> None:
    table = lake.tables.load_named(("db",), "t")
    left = {"snapshots": table.metadata.snapshots[2:]}
    expired = replace(table, metadata=table.metadata.model_copy(update=left))

    def found(known: int) -> list[int]:
        return [one.snapshot_id for one in missing_snapshots(expired, history[3], known)]

    assert (found(history[1]), found(history[0])) == (history[2:], [])


def test_a_missing_manifest_list_on_the_way_is_answered_by_everything(lake, history) -> None:
    manifest_list = lake.table.metadata.snapshots[2].manifest_list
    Path(manifest_list.removeprefix("file://")).unlink()
    (whole,) = ask(lake, history[0])
    assert (whole.kind, whole.snapshot_id) == (ChangeKind.ABSOLUTE, history[-1])


def test_an_unreadable_head_is_an_error(lake, history) -> None:
    manifest_list = lake.table.metadata.snapshots[3].manifest_list
    Path(manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(MetadataFileGone):
        ask(lake, None)


def test_what_is_gone_is_removed_and_an_empty_table_is_empty(lake) -> None:
    (empty,) = ask(lake, None)
    assert (empty.kind, empty.snapshot_id, empty.snapshot_count) == (ChangeKind.ABSOLUTE, None, 0)
    (gone,) = ask(lake, None, ref="audit")
    assert (gone.kind, gone.ref) == (ChangeKind.REMOVED, "audit")
    name = lake.name
    lake.catalog.drop_table("db.t")
    (dropped,) = lake.handle(ResyncTable(name, "main", None, None, "missing_parent", 5))
    assert (dropped.kind, dropped.operation) == (ChangeKind.REMOVED, "drop-table")
