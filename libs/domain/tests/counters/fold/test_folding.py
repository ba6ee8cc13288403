"""A change folds only onto its parent; what became of every other one, a line per case."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.fold.folding import FoldOutcome
from firnline_domain.counters.fold.missing_snapshots import ResyncReason, next_held
from firnline_domain.records.events import ChangeKind, PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally

from tests.kit.changes import NOW, TABLE, A, B, Side, absolute, born, change, files, part


def test_changes_fold_along_the_chain() -> None:
    side = born()
    assert (side.table.head_snapshot_id, side.table.epoch, side.table.ordinal) == (3, 1, 3)
    assert (side.count(), side.table.totals.holds, side.table.snapshot_count) == (3, files(3), 3)
    assert side.entries[A].changed_ms == 103


def test_a_known_snapshot_is_a_duplicate() -> None:
    side = born()
    before = side.table
    assert side.verdict(change(3, 2)) is FoldOutcome.DUPLICATE
    assert side.verdict(change(2, 1, observed_at_ms=999)) is FoldOutcome.DUPLICATE
    assert side.table == before


def test_a_redelivered_head_may_bring_newer_facts_of_the_table() -> None:
    side = born()
    newer = change(3, 2, observed_at_ms=999, settings={"firnline.enabled": "false"})
    assert side.verdict(newer) is FoldOutcome.NOTED
    assert (side.count(), side.table.settings) == (3, {"firnline.enabled": "false"})


def test_an_early_change_is_held_until_its_parent_is_the_head() -> None:
    side = born()
    assert side.verdict(change(5, 4)) is FoldOutcome.HELD
    assert (side.waits_for, side.count()) == (ResyncReason.MISSING_PARENT, 3)
    assert side.verdict(change(4, 3)) is FoldOutcome.FOLDED
    assert side.drain() == [FoldOutcome.FOLDED]
    assert (side.table.head_snapshot_id, side.count(), side.waits_for) == (5, 5, None)


def test_a_held_change_told_twice_is_held_once() -> None:
    side = born()
    side.take(change(5, 4))
    side.take(change(5, 4))
    assert len(side.table.held) == 1


def test_a_table_that_lived_before_us_is_asked_for() -> None:
    side = Side()
    assert side.verdict(change(8, 7)) is FoldOutcome.HELD
    assert (side.waits_for, side.table.known) == (ResyncReason.FIRST_SEEN, False)
    side.take(absolute(8, 40, observed=200))
    assert (side.count(), side.table.head_snapshot_id, side.waits_for) == (40, 8, None)
    assert (side.table.snapshot_count, side.table.oldest_snapshot_ms) == (9, 7)
    assert side.drain() == []


def test_absolute_counters_are_a_new_epoch_and_replace() -> None:
    side = born()
    folded = side.take(absolute(6, 40, observed=200))
    assert folded.verdict is FoldOutcome.FOLDED
    assert (side.count(), side.table.epoch, side.table.ordinal) == (40, 2, 0)
    assert side.verdict(change(7, 6)) is FoldOutcome.FOLDED
    assert (side.count(), side.table.totals.holds) == (41, files(41))


def test_a_partition_of_an_older_epoch_is_void() -> None:
    side = Side(change(1, None, partitions=(part(A, 5), part(B, 5))))
    side.take(absolute(6, 40, observed=200))
    side.take(change(7, 6, partitions=(part(B, 1),)))
    assert side.count(B) == 1


def test_absolute_counters_contain_what_was_observed_before() -> None:
    side = born()
    side.take(change(6, 5, observed_at_ms=150))
    side.take(change(9, 8, observed_at_ms=250))
    side.take(absolute(7, 40, observed=200))
    assert [one.snapshot_id for one in side.table.held] == [9]
    assert side.waits_for == ResyncReason.MISSING_PARENT


def test_absolute_counters_contain_the_ancestors_of_their_snapshot() -> None:
    side = born()
    for snapshot in (5, 6, 7):
        side.take(change(snapshot, snapshot - 1, observed_at_ms=300 + snapshot))
    side.take(absolute(6, 40, observed=200))
    assert side.drain() == [FoldOutcome.FOLDED]
    assert (side.table.head_snapshot_id, side.count(), side.table.held) == (7, 41, ())


def test_a_late_resync_never_wins_over_newer_facts() -> None:
    side = born()
    assert side.verdict(absolute(2, 40, observed=999)) is FoldOutcome.STALE  # we are past it
    assert side.verdict(absolute(77, 40, observed=102)) is FoldOutcome.STALE  # read before our head
    assert (side.count(), side.table.epoch) == (3, 1)


def test_a_clock_that_was_ahead_blocks_no_later_answer() -> None:
    side = born()
    side.take(change(None, None, observed_at_ms=NOW + 3_600_000))
    side.take(change(9, 8))
    assert side.waits_for == ResyncReason.MISSING_PARENT
    assert side.verdict(absolute(9, 40, observed=NOW + 1)) is FoldOutcome.FOLDED
    assert side.count() == 40


def test_what_is_held_by_a_clock_ahead_is_let_go_by_a_later_answer() -> None:
    side = born()
    side.take(change(9, 8, observed_at_ms=NOW + 3_600_000))
    side.take(absolute(11, 40, observed=NOW + 1))
    assert (side.table.held, side.waits_for) == ((), None)


def test_absolute_counters_told_twice_count_once() -> None:
    side = born()
    side.take(absolute(6, 40, observed=200))
    assert side.verdict(absolute(6, 40, observed=200)) is FoldOutcome.STALE
    assert side.table.epoch == 2


def test_a_rollback_whose_event_was_lost_is_found_by_a_resync() -> None:
    side = born()
    side.take(change(5, 4))
    assert side.verdict(absolute(2, 2, observed=999)) is FoldOutcome.FOLDED
    assert (side.table.head_snapshot_id, side.count()) == (2, 2)


def test_a_rollback_with_its_difference_folds() -> None:
    side = born()
    moved = change(1, 3, kind=ChangeKind.REF_MOVED, partitions=(part(A, 0, 2),), observed_at_ms=150)
    assert side.verdict(moved) is FoldOutcome.FOLDED
    assert (side.table.head_snapshot_id, side.count()) == (1, 1)
    assert side.verdict(change(9, 1)) is FoldOutcome.FOLDED


def test_a_move_without_its_difference_is_asked_for_once() -> None:
    side = born()
    moved = change(1, None, kind=ChangeKind.REF_MOVED, partitions=(), observed_at_ms=150)
    assert side.verdict(moved) is FoldOutcome.HELD
    assert (side.waits_for, side.count()) == (ResyncReason.REF_MOVED, 3)
    assert side.verdict(moved) is FoldOutcome.DUPLICATE
    assert side.verdict(absolute(3, 3, observed=140)) is FoldOutcome.STALE  # read before the move
    side.take(absolute(1, 1, observed=160))
    assert (side.table.head_snapshot_id, side.count(), side.waits_for) == (1, 1, None)


def test_a_late_change_does_not_end_the_wait_for_a_move() -> None:
    side = born()
    side.take(change(1, None, kind=ChangeKind.REF_MOVED, partitions=(), observed_at_ms=150))
    assert side.verdict(change(4, 3)) is FoldOutcome.FOLDED
    assert side.waits_for == ResyncReason.REF_MOVED


def test_a_move_to_where_the_head_is_changes_nothing() -> None:
    side = born()
    moved = change(3, None, kind=ChangeKind.REF_MOVED, partitions=(), event_id="again")
    assert side.verdict(moved) is FoldOutcome.DUPLICATE
    assert side.waits_for is None


def test_a_dropped_table_is_forgotten_but_its_snapshots_stay_known() -> None:
    side = born()
    gone = change(None, None, kind=ChangeKind.REMOVED, partitions=(), event_id="gone")
    gone = replace(gone, observed_at_ms=500)
    assert side.verdict(gone) is FoldOutcome.REMOVED
    assert (side.table.removed, side.table.head_snapshot_id) == (True, None)
    assert side.verdict(change(1, None)) is FoldOutcome.DUPLICATE
    assert side.verdict(gone) is FoldOutcome.DUPLICATE


def test_a_removal_told_late_does_not_remove_what_was_registered_again() -> None:
    side = born()
    gone = change(None, None, kind=ChangeKind.REMOVED, observed_at_ms=50, event_id="gone")
    assert side.verdict(gone) is FoldOutcome.STALE


def test_a_removed_table_comes_back_by_absolute_counters() -> None:
    side = born()
    side.take(change(None, None, kind=ChangeKind.REMOVED, observed_at_ms=500, event_id="gone"))
    assert side.verdict(absolute(3, 3, observed=400)) is FoldOutcome.STALE
    assert side.verdict(absolute(3, 3, observed=600)) is FoldOutcome.FOLDED
    assert (side.table.removed, side.table.epoch) == (False, 2)


def test_more_removed_than_there_was_is_never_counted() -> None:
    side = born()
    assert side.verdict(change(4, 3, partitions=(part(A, 0, 9),))) is FoldOutcome.HELD
    assert (side.count(), side.waits_for) == (3, ResyncReason.NEGATIVE)
    assert next_held(side.table) is None  # only absolute counters help


def test_a_replaced_table_is_asked_for() -> None:
    side = born()
    assert side.verdict(change(50, None)) is FoldOutcome.HELD
    assert side.waits_for == ResyncReason.REPLACED


def test_a_change_without_a_snapshot_brings_facts() -> None:
    side = born()
    noted = change(
        None,
        None,
        event_id="x",
        partitions=(),
        settings={"gc.enabled": "false"},
        table=replace(TABLE, name="renamed"),
    )
    assert side.verdict(noted) is FoldOutcome.NOTED
    assert side.verdict(noted) is FoldOutcome.DUPLICATE
    assert (side.table.snapshot_count, side.table.table.name) == (3, "renamed")
    assert side.table.settings == {"gc.enabled": "false"}


def test_a_table_that_could_not_be_read_keeps_its_settings() -> None:
    side = born()
    side.take(change(4, 3, format_version=2, settings={"gc.enabled": "false"}))
    side.take(change(5, 4, format_version=0, settings={}))
    assert (side.table.format_version, side.table.settings) == (2, {"gc.enabled": "false"})


def test_too_many_held_changes_are_let_go_and_asked_for() -> None:
    side = born()
    for snapshot in range(10, 50):
        side.take(change(snapshot, snapshot - 1))
    assert (side.table.held == (), side.waits_for) == (False, ResyncReason.OVERFLOW)
    assert len(side.table.held) <= 32


def test_sequence_ranges_are_narrowed_where_all_data_is_replaced() -> None:
    side = Side()
    one = replace(part(), data_sequence_min=3, data_sequence_max=4, delete_sequence_max=9)
    side.take(change(1, None, partitions=(one,)))
    more = replace(part(), data_sequence_min=7, data_sequence_max=8)
    side.take(change(2, 1, partitions=(more,)))
    entry = side.entries[A]
    assert (entry.data_sequence_min, entry.data_sequence_max) == (3, 8)
    compacted = replace(part(A, 1, 2), data_sequence_min=8, data_sequence_max=8)
    side.take(change(3, 2, partitions=(compacted,)))
    entry = side.entries[A]
    assert (entry.data_sequence_min, entry.data_sequence_max) == (8, 8)
    assert entry.delete_sequence_max == 9


def test_the_manifests_of_the_head_are_kept_until_others_are_listed() -> None:
    side = Side(change(1, None, manifests=3, manifest_bytes=100))
    assert (side.table.manifests, side.table.manifest_bytes) == (3, 100)
    side.take(change(2, 1))
    assert side.table.head_snapshot_id == 2
    assert (side.table.manifests, side.table.manifest_bytes) == (3, 100)
    side.take(change(3, 2, manifests=4, manifest_bytes=120))
    assert (side.table.manifests, side.table.manifest_bytes) == (4, 120)


@pytest.mark.parametrize("nonsense", [None, -1, 0, (1 << 40) + 1, 2**63 - 1])
def test_the_size_of_the_metadata_is_kept_until_another_is_told(nonsense: int | None) -> None:
    side = Side(change(1, None))
    assert side.table.metadata_bytes is None
    side.take(change(2, 1, metadata_bytes=9_000_000))
    side.take(change(3, 2, metadata_bytes=nonsense))
    assert (side.table.head_snapshot_id, side.table.metadata_bytes) == (3, 9_000_000)
    side.take(change(4, 3, metadata_bytes=1_000))
    assert side.table.metadata_bytes == 1_000


def test_rows_that_came_or_went_are_counted_and_a_rewrite_changes_none() -> None:
    side = born()
    assert side.table.rows_changed == 30
    masked = FileTally(equality_deletes=Tally(1, 4, 10))
    deleted = PartitionChange(A, masked, files(1))
    side.take(change(4, 3, operation="overwrite", partitions=(deleted,)))
    assert side.table.rows_changed == 30 + 10 + 4
    side.take(change(5, 4, operation="replace", partitions=(part(A, 1, 2),)))
    assert side.table.rows_changed == 44
    side.take(absolute(6, 3, observed=900))  # ten more than the counters had, by whose commit ever
    assert side.table.rows_changed == 44 + 20


def test_files_with_odd_numbers_are_those_of_the_head() -> None:
    side = born()
    side.take(change(4, 3, odd_files=2))
    side.take(change(5, 4))
    assert side.table.odd_files == 2
    side.take(change(6, 5, odd_files=-1))
    assert side.table.odd_files == 1
    side.take(change(7, 6, odd_files=-5))
    assert side.table.odd_files == 0
    side.take(replace(absolute(8, 3, observed=900), odd_files=4))
    assert side.table.odd_files == 4
    side.take(replace(absolute(9, 3, observed=901), odd_files=0))
    assert side.table.odd_files == 0
