"""Commits of real tables: what is told of each, and what is read for it."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from firnline_adapters.records.signing import keys_here
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import Scope
from firnline_domain.records.events import ChangeKind, TableChange
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.parts.summaries import TASK_ID, sign_summary
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_enricher.kept_settings import select_table_settings
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.metadata.partition_tally import partition_changes
from firnline_iceberg.scan.planning import live_entries
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

TARGET = 4096


def recount(lake, ref: str = "main") -> dict[Scope, FileTally]:
    """What the ref's head holds, read from all of its manifests."""
    table = lake.tables.load_named(("db",), "t")
    entries = live_entries(table, table.head_id(ref), Detail.COUNTS)
    return {part.scope: part.added for part in partition_changes(entries, TARGET)}


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def test_an_append_adds_what_it_wrote_per_partition(lake, rows) -> None:
    ours = sign_summary({TASK_ID: "t1"}, str(lake.table.metadata.table_uuid), keys_here(), 1)
    lake.table.append(rows((1, 1), (1, 2), (2, 3)), snapshot_properties=ours)
    (change,) = lake.follow()
    snapshot = lake.table.current_snapshot()
    assert (change.kind, change.snapshot_id) == (ChangeKind.DELTA, snapshot.snapshot_id)
    assert (change.parent_snapshot_id, change.sequence_number) == (None, 1)
    assert (change.operation, change.task_id, change.format_version) == ("append", "t1", 2)
    assert change.settings == {"write.target-file-size-bytes": "4096"}
    one, two = change.partitions
    assert (one.scope, two.scope) == (Scope(0, "[1]"), Scope(0, "[2]"))
    assert (one.added.all_data.files, one.added.all_data.records) == (1, 2)
    assert one.added.undersized.files == 1  # of 1 kB, against a target of 4 kB
    assert (one.data_sequence_min, one.data_sequence_max) == (1, 1)
    assert one.removed == FileTally()


def test_only_the_manifests_that_the_snapshot_added_are_read(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    (old,) = lake.table.current_snapshot().manifests(lake.table.io)
    lake.table.append(rows((1, 2)))
    first, second = lake.commits()
    local(old.manifest_path).unlink()
    (change,) = lake.handle(second)
    assert (change.kind, change.partitions[0].added.all_data.files) == (ChangeKind.DELTA, 1)
    (gone,) = lake.handle(first)
    assert gone.kind is ChangeKind.REF_MOVED


def test_entries_that_a_merge_only_carries_on_are_not_counted_again(lake, rows) -> None:
    with lake.table.transaction() as change:
        change.set_properties(
            {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
        )
    lake.table.append(rows((1, 1)))
    lake.table.append(rows((1, 2)))
    (merged,) = lake.table.current_snapshot().manifests(lake.table.io)
    assert (merged.existing_files_count, merged.added_files_count) == (1, 1)
    change = lake.follow()[-1]
    assert change.partitions[0].added.all_data.files == 1


def test_two_snapshots_of_one_post_are_two_changes_in_order(lake, rows) -> None:
    lake.table.append(rows((1, 1), (2, 2)))
    lake.follow()
    lake.table.overwrite(rows((1, 3)), "part == 1")  # PyIceberg: a delete, then an append
    (event,) = lake.commits()
    assert len(event.snapshots) == 2
    delete, append = lake.handle(replace(event, expired_snapshot_ids=(9,), expired_snapshots=1))
    assert delete.partitions[0].removed.all_data == Tally(
        1, 1, delete.partitions[0].removed.all_data.bytes
    )
    assert append.parent_snapshot_id == delete.snapshot_id
    assert (delete.expired_snapshots, append.expired_snapshots) == (0, 1)


@pytest.mark.parametrize("seed", range(4))
def test_summed_deltas_are_what_a_recount_finds(lake, rows, counters, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(12):
        part = dice.randrange(3)
        table = lake.table
        match dice.randrange(4):
            case 0 | 1:
                table.append(rows((part, number), (dice.randrange(3), number)))
            case 2:
                table.overwrite(rows((part, number)), f"part == {part}")
            case _ if table.current_snapshot():
                table.delete(f"id == {dice.randrange(number + 1)}")
        lake.follow()
    counters.fold(lake.sent)
    assert counters.head == lake.table.current_snapshot().snapshot_id
    assert counters.holds == recount(lake)


def test_a_branch_has_changes_of_its_own(lake, rows, counters) -> None:
    lake.table.append(rows((1, 1)))
    first = lake.table.current_snapshot().snapshot_id
    lake.table.manage_snapshots().create_branch(first, "audit").commit()
    lake.table.append(rows((2, 2)), branch="audit")
    append, created, onto = lake.follow()
    assert (append.ref, created.ref, onto.ref) == ("main", "audit", "audit")
    assert (created.kind, created.snapshot_id) == (ChangeKind.REF_MOVED, first)
    assert (onto.kind, onto.parent_snapshot_id) == (ChangeKind.DELTA, first)
    counters.head = first
    assert counters.fold([onto], "audit").holds == {Scope(0, "[2]"): onto.partitions[0].added}
    lake.table.manage_snapshots().remove_branch("audit").commit()
    (gone,) = lake.follow()
    assert (gone.kind, gone.ref) == (ChangeKind.REMOVED, "audit")


def test_a_rollback_is_a_move_and_a_tag_is_nothing(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    lake.table.append(rows((1, 2)))
    first = lake.table.metadata.snapshots[0].snapshot_id
    lake.follow()
    lake.table.manage_snapshots().create_tag(first, "v1").commit()
    assert lake.follow() == []
    roll_back(lake.table, first)
    (change,) = lake.follow()
    assert (change.kind, change.ref, change.snapshot_id) == (ChangeKind.REF_MOVED, "main", first)


def roll_back(table: Table, snapshot_id: int) -> None:
    table.manage_snapshots().set_current_snapshot(snapshot_id).commit()


def test_settings_are_told_at_once_and_kept_until_they_change(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    lake.table.append(rows((1, 2)))
    lake.follow()
    assert lake.tables.loads == 1
    with lake.table.transaction() as change:
        change.set_properties({"firnline.enabled": "false", "comment": "mine"})
    (told,) = lake.follow()
    assert (told.kind, told.snapshot_id, told.partitions) == (ChangeKind.DELTA, None, ())
    assert told.settings["firnline.enabled"] == "false"
    assert "comment" not in told.settings
    assert lake.tables.loads == 2


def test_expired_snapshots_are_passed_on(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    lake.table.append(rows((1, 2)))
    first = lake.table.metadata.snapshots[0].snapshot_id
    lake.follow()
    lake.table.maintenance.expire_snapshots().by_id(first).commit()
    (told,) = lake.follow()
    assert (told.snapshot_id, told.expired_snapshots) == (None, 1)


def test_a_new_spec_that_nobody_told_of_is_looked_up(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    lake.follow()
    with lake.table.update_spec() as spec:
        spec.add_field("id", IdentityTransform())
    lake.table.append(rows((1, 7)))
    _, append = lake.commits()
    (change,) = lake.handle(append)
    assert change.partitions[0].scope == Scope(1, "[1,7]")


def test_a_rename_says_what_the_table_was_called(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    (event,) = lake.commits()
    renamed = replace(
        event, change=TableChange.RENAMED, snapshots=(), refs=(), renamed_from=("db", "old")
    )
    (change,) = lake.handle(renamed)
    assert change.renamed_from == ("db", "old")


def test_a_dropped_table_is_gone_whatever_came_before(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    (event,) = lake.commits()
    lake.catalog.drop_table("db.t")
    for told in (event, replace(event, change=TableChange.DROPPED, snapshots=(), refs=())):
        (change,) = lake.handle(told)
        assert (change.kind, change.operation) == (ChangeKind.REMOVED, "drop-table")


def test_a_drop_is_told_even_if_the_table_was_registered_again(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    (event,) = lake.commits()
    (change,) = lake.handle(replace(event, change=TableChange.DROPPED, snapshots=(), refs=()))
    assert change.kind is ChangeKind.REMOVED


def test_a_registered_table_is_announced_at_its_head(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    (event,) = lake.commits()
    registered = replace(event, change=TableChange.REGISTERED, snapshots=(), refs=())
    (change,) = lake.handle(registered)
    head = lake.table.current_snapshot().snapshot_id
    assert (change.kind, change.snapshot_id) == (ChangeKind.REF_MOVED, head)


def test_commits_that_another_enricher_saw_empty_what_is_kept(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    lake.table.append(rows((1, 2)))
    first, second = lake.commits()
    lake.handle(first)
    lake.offset += 5
    lake.handle(second)
    assert lake.tables.loads == 2


def test_after_a_failure_of_the_storage_the_table_is_loaded_again(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    lake.follow()
    lake.table.append(rows((1, 2)))
    (event,) = lake.commits()
    manifest_list = local(event.snapshots[0].manifest_list)
    content = manifest_list.read_bytes()
    manifest_list.unlink()
    manifest_list.mkdir()  # reading it fails, and not because it is missing
    with pytest.raises(RetryLater):
        lake.handle(event)
    manifest_list.rmdir()
    manifest_list.write_bytes(content)
    (change,) = lake.handle(event)
    assert (change.kind, lake.tables.loads) == (ChangeKind.DELTA, 2)


def test_the_manifests_of_the_head_are_counted(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    lake.table.append(rows((1, 2)))
    first, second = lake.follow()
    assert (first.manifests, second.manifests) == (1, 2)
    assert 0 < first.manifest_bytes < second.manifest_bytes
    [whole] = lake.handle(ResyncTable(lake.name, "main", None, None, "first_seen", 0))
    assert (whole.manifests, whole.manifest_bytes) == (second.manifests, second.manifest_bytes)


def test_the_size_of_the_metadata_is_passed_on(lake, rows) -> None:
    lake.table.append(rows((1, 1)))
    (event,) = lake.commits()
    [delta] = lake.handle(replace(event, metadata_bytes=9_000_000))
    [noted] = lake.handle(
        replace(event, snapshots=(), refs=(), metadata_changed=True, metadata_bytes=9_000_001)
    )
    assert (delta.kind, delta.metadata_bytes) == (ChangeKind.DELTA, 9_000_000)
    assert (noted.snapshot_id, noted.metadata_bytes) == (None, 9_000_001)
    [unknown] = lake.handle(event)
    assert unknown.metadata_bytes is None


def test_the_properties_that_matter() -> None:
    kept = ("firnline.x", "history.expire.z", "write.delete.mode")
    kept += ("write.target-file-size-bytes", "gc.enabled", "write.format.default")
    everything = dict.fromkeys((*kept, "write.distribution-mode", "owner"), "1")
    assert select_table_settings(everything) == dict.fromkeys(kept, "1")


def test_files_outside_the_tables_own_locations_are_told_of(lake, rows, tmp_path: Path) -> None:
    """By `add_files`, as it comes and as it goes: an older snapshot may still need it."""
    lake.table.append(rows((1, 1)))
    path = f"{tmp_path}/others.parquet"
    pq.write_table(rows((1, 2)), path)
    lake.table.add_files([path])
    lake.table.overwrite(rows((1, 3)))
    assert [change.external_files > 0 for change in lake.follow() if change.partitions] == [
        False,
        True,
        True,  # an overwrite of PyIceberg's is two snapshots: this one takes it out
        False,
    ]
    lake.table.add_files([path], check_duplicate_files=False)
    [counted] = lake.handle(ResyncTable(lake.name, "main", None, None, "first_seen", 1))
    assert (counted.kind, counted.external_files) == (ChangeKind.ABSOLUTE, 1)
