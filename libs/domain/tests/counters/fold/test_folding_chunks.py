"""Big changes come in chunks: each is folded once, and the head moves with the last."""

from __future__ import annotations

from firnline_domain.counters.fold.folding import FoldOutcome
from firnline_domain.counters.fold.missing_snapshots import ResyncReason

from tests.kit.changes import A, B, absolute, born, change, files, part


def test_chunks_fold_each_once_and_the_head_moves_with_the_last() -> None:
    side = born()
    first = change(4, 3, chunk=0, chunks=2, partitions=(part(A, 10),))
    second = change(4, 3, chunk=1, chunks=2, partitions=(part(B, 20),))
    assert [side.verdict(one) for one in (first, first)] == [
        FoldOutcome.PART,
        FoldOutcome.DUPLICATE,
    ]
    assert (side.table.head_snapshot_id, side.count()) == (3, 13)
    assert side.verdict(second) is FoldOutcome.FOLDED
    assert (side.table.head_snapshot_id, side.count(A), side.count(B)) == (4, 13, 20)
    assert side.verdict(first) is FoldOutcome.DUPLICATE
    assert side.table.totals.holds == files(33)
    assert side.waits_for is None


def test_chunks_fold_in_any_order_and_the_next_change_waits_for_all() -> None:
    side = born()
    first = change(4, 3, chunk=0, chunks=2, partitions=(part(A, 10),))
    second = change(4, 3, chunk=1, chunks=2, partitions=(part(B, 20),))
    assert side.verdict(second) is FoldOutcome.PART
    assert side.verdict(change(5, 4)) is FoldOutcome.HELD
    assert side.verdict(first) is FoldOutcome.FOLDED
    assert side.drain() == [FoldOutcome.FOLDED]
    assert (side.table.head_snapshot_id, side.count(A), side.count(B)) == (5, 14, 20)


def test_held_chunks_are_all_folded_when_their_parent_comes() -> None:
    side = born()
    side.take(change(5, 4, chunk=0, chunks=2, partitions=(part(A, 10),)))
    side.take(change(5, 4, chunk=1, chunks=2, partitions=(part(B, 20),)))
    side.take(change(4, 3))
    assert side.drain() == [FoldOutcome.PART, FoldOutcome.FOLDED]
    assert side.waits_for is None


def test_a_change_over_an_incomplete_one_makes_the_counters_doubtful() -> None:
    side = born()
    side.take(change(4, 3, chunk=0, chunks=2))
    assert side.verdict(change(40, 3)) is FoldOutcome.HELD  # 4 was rolled back before 40 was made
    assert side.waits_for == ResyncReason.CHUNK_LOST
    assert side.table.waiting is not None
    assert side.table.waiting.absolute


def test_chunks_of_absolute_counters_hold_deltas_back() -> None:
    side = born()
    side.take(absolute(6, 40, observed=200, chunk=0, chunks=2))
    assert side.verdict(change(4, 3)) is FoldOutcome.HELD
    rest = absolute(6, 9, observed=200, chunk=1, chunks=2, partitions=(part(B, 9),))
    assert side.verdict(rest) is FoldOutcome.FOLDED
    assert (side.count(A), side.count(B), side.table.totals.partitions) == (40, 9, 2)
    assert (side.table.held, side.waits_for) == ((), None)


def test_an_incomplete_change_is_asked_for_again() -> None:
    side = born()
    side.take(change(4, 3, chunk=0, chunks=2))
    assert side.waits_for == ResyncReason.MISSING_PARENT


def test_a_chunk_of_absolute_counters_told_twice_counts_once() -> None:
    side = born()
    first = absolute(6, 40, observed=200, chunk=0, chunks=2)
    assert [side.verdict(one) for one in (first, first)] == [
        FoldOutcome.PART,
        FoldOutcome.DUPLICATE,
    ]
    side.take(absolute(6, 9, observed=200, chunk=1, chunks=2, partitions=(part(B, 9),)))
    assert side.table.totals.holds == files(49)


def test_what_is_noted_between_two_chunks_does_not_make_the_second_stale() -> None:
    side = born()
    side.take(absolute(6, 40, observed=200, chunk=0, chunks=2))
    side.take(change(None, None, event_id="x", observed_at_ms=300))
    rest = absolute(6, 9, observed=200, chunk=1, chunks=2, partitions=(part(B, 9),))
    assert side.verdict(rest) is FoldOutcome.FOLDED


def test_a_new_answer_replaces_an_incomplete_one() -> None:
    side = born()
    side.take(absolute(6, 40, observed=200, chunk=0, chunks=2))
    side.take(absolute(7, 50, observed=300))
    assert (side.count(), side.table.head_snapshot_id, side.table.epoch) == (50, 7, 3)
