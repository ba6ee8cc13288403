"""What a rewrite costs, what it spares, and when readers have paid for it."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters
from firnline_domain.counters.state.debt import Debt, debt_of
from firnline_domain.counters.state.work import Partition, PartitionWork
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.partition.decide import order_for
from firnline_domain.policy.partition.outcomes import after_order, after_success
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.parts.dead_rows import DeadRows
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import ConversionPolicy, Thresholds

from tests.kit.partitions import (
    LIMITS,
    NOW,
    SCOPE,
    decide,
    explained,
    of,
    policy_input,
    table,
)

MB = 1 << 20
CONVERTING = replace(LIMITS, target_bytes=128 * MB, cheap_bytes=64 * MB, reads_per_hour=6.0)
WEIGHED = replace(CONVERTING, convert=ConversionPolicy.NEVER)


def upserted(since_ms: int, deletes: int = 4, records: int = 200_000) -> Partition:
    """3 GB, of which a rewrite takes 180 CPU s; 4 deletes of 200,000 rows cost a scan 8 s."""
    holds = FileTally(
        on_target=Tally(25, 100_000_000, 25 * 128 * MB),
        equality_deletes=Tally(deletes, records, records * 8),
    )
    counters = PartitionCounters(SCOPE, 1, 1, holds)
    return Partition(counters, PartitionWork(debt_since_ms=since_ms))


def test_a_dear_rewrite_waits_until_readers_have_paid_for_it() -> None:
    young = decide(table(), upserted(NOW - 60_000), WEIGHED, NOW)
    assert (young.order, young.reason, young.status) == (False, Reason.MINIMUM_GAIN, "idle")
    assert young.until_ms is not None
    assert 1 < (young.until_ms - NOW) / 3_600_000 < 24
    later = decide(table(), upserted(NOW - 60_000), WEIGHED, young.until_ms)
    assert (later.order, later.reason) == (True, TriggerReason.EQUALITY_DELETES)


def test_a_conversion_is_paid_for_sooner_than_a_compaction() -> None:
    compacted = decide(table(), upserted(NOW - 60_000), WEIGHED, NOW).until_ms
    young = decide(table(), upserted(NOW - 60_000), CONVERTING, NOW)
    assert (young.order, young.reason) == (False, Reason.MINIMUM_GAIN)
    assert young.until_ms is not None
    assert compacted is not None
    assert young.until_ms - NOW < (compacted - NOW) / 3
    later = decide(table(), upserted(NOW - 60_000), CONVERTING, young.until_ms)
    assert (later.order, later.reason) == (True, TriggerReason.EQUALITY_DELETES)
    assert later.action is Action.CONVERT
    told = explained(table(), upserted(NOW - 60_000), CONVERTING, young.until_ms)
    order, task = order_for(
        policy_input(table(), upserted(NOW - 60_000), CONVERTING, young.until_ms), told
    )
    assert (order.action, task.action) == ("convert", "convert")


LARGE = Tally(25, 100_000_000, 25 * 128 * MB)


def converted(at_ms: int, *dead: int, limits: Thresholds = CONVERTING) -> Partition:
    """What a conversion at `at_ms` has left of it: so many rows dead in each equal part of it."""
    before = upserted(at_ms - 60_000)
    positions = Tally(25, sum(dead), sum(dead))
    holds = replace(before.counters.holds, equality_deletes=Tally(), position_deletes=positions)
    told = explained(table(), before, limits, at_ms + 10**10)
    _, task = order_for(policy_input(table(), before, limits, at_ms), told)
    parts = len(dead)
    task = replace(task, dead_rows=tuple(
        DeadRows(25 // parts, LARGE.bytes // parts, LARGE.records // parts, rows) for rows in dead
    ))  # fmt: skip
    debt = debt_of(holds, limits.target_bytes)
    work = after_success(after_order(before.work), debt, task, limits, at_ms, positions.records)
    return Partition(replace(before.counters, holds=holds), work)


def test_what_a_conversion_has_left_is_rewritten_once_readers_have_paid_for_that() -> None:
    left = converted(NOW, 20_000_000)  # a fifth of the rows is dead
    assert left.work.floor.position_deletes == 25
    rested = NOW + CONVERTING.cool_down_ms
    waiting = decide(table(), left, CONVERTING, rested)
    assert (waiting.order, waiting.reason) == (False, Reason.FIXED_POINT)
    assert waiting.until_ms is not None
    assert 1 < (waiting.until_ms - NOW) / 3_600_000 < 24
    later = decide(table(), left, CONVERTING, waiting.until_ms)
    assert (later.order, later.reason) == (True, TriggerReason.POSITION_DELETES)
    assert (later.action, later.min_dead_ratio) == (Action.COMPACT, 0.2)


YEAR_MS = 366 * 86_400_000


@pytest.mark.parametrize(
    ("dead", "ratio", "part"),
    [
        ((4_000_000,) * 5, 0.2, 1.0),  # evenly: all or nothing
        ((3_900_000,) * 5, None, 0.0),
        ((15_000_000, 0, 0, 0, 0), 0.5, 0.2),  # of one part three quarters
        ((9_000_000, 5_000_000, 0, 0, 0), 0.2, 0.4),  # in the end both
        ((1_000_000,) * 5, None, 0.0),
    ],
)
def test_the_files_that_pay_are_taken_and_no_others(
    dead: tuple[int, ...], ratio: float | None, part: float
) -> None:
    left = converted(NOW, *dead)
    found = explained(table(), left, CONVERTING, NOW + YEAR_MS)
    if ratio is None:
        assert (found.order, found.until_ms) == (False, None)
        return
    assert found.order
    assert found.min_dead_ratio == pytest.approx(ratio, abs=0.31)
    assert found.min_dead_ratio <= max(dead) / 20_000_000
    read = found.numbers["rewrite_bytes"]
    assert read == pytest.approx(part * LARGE.bytes, rel=0.01)


def test_the_files_with_the_most_dead_rows_go_first() -> None:
    """Readers pay for them sooner: as many rows, in fewer bytes."""
    left = converted(NOW, 12_000_000, 5_000_000, 0, 0, 0)
    first = decide(table(), left, CONVERTING, NOW + 60_000).until_ms
    assert first is not None
    found = explained(table(), left, CONVERTING, first)
    assert (found.order, found.min_dead_ratio) == (True, 0.5)
    assert found.numbers["rewrite_bytes"] == pytest.approx(LARGE.bytes / 5, rel=0.01)
    later = explained(table(), left, CONVERTING, NOW + YEAR_MS)
    assert later.min_dead_ratio == 0.2
    assert later.numbers["rewrite_bytes"] == pytest.approx(LARGE.bytes * 2 / 5, rel=0.01)


def test_what_came_since_is_spread_evenly() -> None:
    left = converted(NOW, 15_000_000)
    assert not decide(table(), left, CONVERTING, NOW + YEAR_MS).order
    more = replace(left.counters.holds, deletion_vectors=Tally(25, 5_000_000, 5_000_000))
    grown = replace(left, counters=replace(left.counters, holds=more))
    found = decide(table(), grown, CONVERTING, NOW + YEAR_MS)
    assert (found.order, found.min_dead_ratio) == (True, 0.2)


def test_from_a_third_on_files_are_rewritten_in_a_day_though_nobody_reads() -> None:
    unread = replace(CONVERTING, reads_per_hour=0.0)
    day = NOW + unread.max_wait_ms
    left = converted(NOW, 9_000_000, 5_000_000, 0, 0, 0, limits=unread)  # 45 %, 25 %
    waiting = decide(table(), left, unread, day - 1)
    assert (waiting.order, waiting.until_ms) == (False, day)
    found = decide(table(), left, unread, day)
    assert (found.order, found.min_dead_ratio) == (True, 0.3)
    assert not decide(table(), converted(NOW, 25, limits=unread), unread, NOW + YEAR_MS).order


def test_somebody_looks_where_the_dead_rows_of_others_may_all_be_in_one_file() -> None:
    """A file has four million rows; of a fifth of them it may pay to rewrite it."""

    def marked(rows: int) -> Partition:
        holds = FileTally(on_target=LARGE, deletion_vectors=Tally(1, rows, rows))
        work = PartitionWork(debt_since_ms=NOW, positions_since_ms=NOW)
        return Partition(PartitionCounters(SCOPE, 1, 1, holds), work)

    day = NOW + CONVERTING.max_wait_ms
    assert not decide(table(), marked(790_000), CONVERTING, NOW + YEAR_MS).order
    waiting = decide(table(), marked(810_000), CONVERTING, NOW + 7_200_000)
    assert (waiting.order, waiting.until_ms) == (False, day)
    found = decide(table(), marked(810_000), CONVERTING, day)
    assert (found.order, found.reason) == (True, TriggerReason.POSITION_DELETES)
    assert (found.action, found.min_dead_ratio) == (Action.COMPACT, 0.3)
    told = explained(table(), marked(810_000), CONVERTING, day)
    _, task = order_for(policy_input(table(), marked(810_000), CONVERTING, day), told)
    debt = debt_of(marked(810_000).counters.holds, CONVERTING.target_bytes)
    looked = replace(task, dead_rows=(DeadRows(25, LARGE.bytes, LARGE.records, 810_000),))
    work = after_success(after_order(marked(1).work), debt, looked, CONVERTING, day, 810_000)
    seen = replace(marked(810_000), work=work)
    assert not decide(table(), seen, CONVERTING, day + YEAR_MS).order


def test_many_files_of_positions_are_joined_and_no_data_file_is_rewritten() -> None:
    holds = FileTally(on_target=LARGE, position_deletes=Tally(25 + 6, 600, 6_000))
    work = PartitionWork(debt_since_ms=NOW, positions_since_ms=NOW)
    many = Partition(PartitionCounters(SCOPE, 1, 1, holds), work)
    found = explained(table(), many, CONVERTING, NOW + 60_000)
    assert (found.order, found.reason) == (True, TriggerReason.POSITION_DELETES)
    assert (found.action, found.min_dead_ratio) == (Action.CONVERT, 1.0)
    assert found.numbers["rewrite_bytes"] < MB
    few = replace(holds, position_deletes=Tally(25 + 5, 600, 6_000))  # each file may have one
    fewer = replace(many, counters=replace(many.counters, holds=few))
    assert not decide(table(), fewer, CONVERTING, NOW + 60_000).order


def test_a_conversion_takes_the_files_along_that_pay() -> None:
    left = converted(NOW, 5_000_000, 0, 0, 0, 0)
    deletes = Tally(4, 200_000, 1_600_000)
    again = replace(left.counters.holds, equality_deletes=deletes)
    work = replace(left.work, until_ms=None, debt_since_ms=NOW)
    grown = Partition(replace(left.counters, holds=again), work)
    soon = decide(table(), grown, CONVERTING, NOW + 60_000).until_ms
    assert soon is not None
    first, later = (decide(table(), grown, CONVERTING, at) for at in (soon, NOW + 10**10))
    assert (first.reason, first.min_dead_ratio) == (TriggerReason.EQUALITY_DELETES, 1.0)
    assert (later.reason, later.min_dead_ratio) == (TriggerReason.EQUALITY_DELETES, 0.2)
    never = replace(CONVERTING, convert=ConversionPolicy.NEVER)
    whole = decide(table(), grown, never, NOW + 10**10)
    assert (whole.action, whole.min_dead_ratio) == (Action.COMPACT, 0.0)


def test_a_table_without_conversions_rewrites_the_files_that_pay() -> None:
    never = replace(CONVERTING, convert=ConversionPolicy.NEVER)
    found = decide(table(), converted(NOW, 15_000_000, 0, 0, 0, 0), never, NOW + YEAR_MS)
    assert (found.action, found.min_dead_ratio) == (Action.COMPACT, 0.5)


def test_whoever_asks_for_conversions_gets_them_where_a_compaction_would_be_cheap() -> None:
    holds = replace(of(equality_deletes=4), on_target=Tally(2, 2, 2))
    small = Partition(PartitionCounters(SCOPE, 1, 1, holds), PartitionWork(debt_since_ms=NOW))
    asked = replace(LIMITS, convert=ConversionPolicy.ALWAYS)
    assert decide(table(), small, LIMITS, NOW).action is Action.COMPACT
    found = decide(table(), small, asked, NOW)
    assert (found.order, found.action) == (True, Action.CONVERT)


def test_what_was_deleted_leaves_the_storage_when_its_time_has_come_where_somebody_asks() -> None:
    unread = replace(CONVERTING, reads_per_hour=0.0, max_snapshot_age_ms=30 * 86_400_000)
    asked = replace(unread, recycle=True)
    left, due = converted(NOW, 30, limits=asked), NOW + 30 * 86_400_000
    waiting = decide(table(), left, asked, due - 1)
    assert (waiting.order, waiting.until_ms) == (False, due)
    found = explained(table(), left, asked, due)
    assert (found.order, found.reason, found.action) == (
        True,
        TriggerReason.RECYCLING,
        Action.COMPACT,
    )
    assert found.min_dead_ratio == 0.0
    assert found.numbers["rewrite_bytes"] == LARGE.bytes
    assert not decide(table(), left, replace(asked, gc_enabled=False), due).order
    assert not decide(table(), left, unread, due).order


def test_a_second_conversion_does_not_make_the_first_ones_positions_young() -> None:
    left = converted(NOW, 250)
    again = replace(left.counters.holds, equality_deletes=Tally(4, 200_000, 1_600_000))
    grown = Partition(replace(left.counters, holds=again), replace(left.work, until_ms=None))
    told = explained(table(), grown, CONVERTING, NOW + 10**10)
    assert told.action is Action.CONVERT
    _, task = order_for(policy_input(table(), grown, CONVERTING, NOW + 5_000_000), told)
    debt = debt_of(left.counters.holds, CONVERTING.target_bytes)
    work = after_success(after_order(grown.work), debt, task, CONVERTING, NOW + 5_000_000)
    assert work.positions_since_ms == NOW
    everything = replace(task, action="compact", min_dead_ratio=0.0)
    clean = replace(debt, position_deletes=0)
    compacted = after_success(grown.work, clean, everything, CONVERTING, NOW)
    assert compacted.positions_since_ms is None


def test_it_waits_no_longer_than_it_may() -> None:
    little = upserted(NOW - WEIGHED.max_wait_ms, records=4)
    assert decide(table(), little, WEIGHED, NOW - 1).reason is Reason.MINIMUM_GAIN
    assert decide(table(), little, WEIGHED, NOW).order


def test_readers_who_have_paid_are_served_below_every_threshold() -> None:
    """One delete file, twenty minutes old; but it has 5 M rows, and 25 files load it."""
    whole, limits = upserted(NOW - 1_200_000, 1, 5_000_000), replace(WEIGHED, cheap_bytes=1 << 40)
    assert decide(table(), whole, limits, NOW).reason is TriggerReason.READ_DEBT
    fresh = decide(table(), upserted(NOW - 1, 1, 5_000_000), limits, NOW)
    assert (fresh.reason, fresh.order) == (Reason.ACCUMULATING, False)
    assert fresh.until_ms is not None
    assert decide(table(), upserted(NOW - 1, 1, 5_000_000), limits, fresh.until_ms).order


def small_ones(since_ms: int | None, floor: int = 0, files: int = 5) -> Partition:
    """Files of 30 MB, where 128 MB are wanted."""
    holds = FileTally(undersized=Tally(files, files * 1_000, files * 30 * MB))
    work = PartitionWork(floor=Debt(undersized=floor), undersized_since_ms=since_ms)
    return Partition(PartitionCounters(SCOPE, 1, 1, holds), work)


def test_small_files_that_fill_one_are_merged_once_it_pays() -> None:
    young = decide(table(), small_ones(NOW - 1), WEIGHED, NOW)
    assert young.reason is Reason.MINIMUM_GAIN
    assert young.until_ms is not None
    told = explained(table(), small_ones(NOW - 1), WEIGHED, young.until_ms)
    assert (told.order, told.reason, told.numbers["undersized"]) == (
        True,
        TriggerReason.UNDERSIZED,
        5,
    )
    assert told.numbers["rewrite_bytes"] == 150 * MB
    assert decide(table(), small_ones(0, files=4), WEIGHED, NOW).reason is Reason.HEALTHY
    assert decide(table(), small_ones(0, floor=5), WEIGHED, NOW).reason is Reason.FIXED_POINT
    unknown = decide(table(), small_ones(None), WEIGHED, NOW)
    assert not unknown.order
    by_size_alone = replace(WEIGHED, max_size_error=0.0, reads_per_hour=0.0)
    assert not decide(table(), small_ones(0), by_size_alone, NOW).order


def test_nobody_reads_so_only_age_counts() -> None:
    unread = replace(WEIGHED, reads_per_hour=0.0)
    assert decide(table(), upserted(NOW - 600_000), unread, NOW).until_ms == (
        NOW - 600_000 + unread.max_wait_ms
    )


def test_files_far_from_their_target_are_merged_before_there_are_eight() -> None:
    counters = PartitionCounters(SCOPE, 1, 1, FileTally(fragments=Tally(3, 0, 45 * MB)))
    of_it = Partition(counters)
    assert decide(table(), of_it, WEIGHED, NOW).reason is TriggerReason.SIZE_ERROR
    assert not decide(table(), of_it, replace(WEIGHED, max_size_error=0.0), NOW).order
    assert not decide(table(), of_it, replace(WEIGHED, max_size_error=0.25), NOW).order
    met = replace(of_it, work=PartitionWork(floor=Debt(fragments=3)))
    assert decide(table(), met, WEIGHED, NOW).reason is Reason.HEALTHY
