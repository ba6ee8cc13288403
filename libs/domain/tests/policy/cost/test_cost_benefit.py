"""What scans pay, what rewrites cost, and the moment when the one has reached the other."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters
from firnline_domain.counters.state.debt import NO_DEBT, Debt, debt_of
from firnline_domain.counters.state.work import Partition, PartitionWork
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import (
    FAR_MS,
    READ_COST,
    Action,
    CostBenefit,
    burden_of,
    compaction_work,
    list_offers,
    paid_at_ms,
    weigh_compaction,
    weigh_minor,
)
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import ConversionPolicy, Thresholds

from tests.kit.partitions import globally, policy_input, table

MB = 1 << 20
LIMITS = Thresholds(target_bytes=128 * MB, reads_per_hour=6.0, cheap_bytes=64 * MB, payback=1.0)
LARGE = Tally(25, 100_000_000, 25 * 128 * MB)
UPSERTED = FileTally(
    on_target=LARGE, fragments=Tally(4, 200_000, 6 * MB), equality_deletes=Tally(4, 200_000, MB)
)


def weighed(holds: FileTally, floor: Debt = NO_DEBT, since: int | None = 0) -> CostBenefit:
    return weigh_compaction(held_input(holds, floor, since))


def held_input(
    holds: FileTally,
    floor: Debt = NO_DEBT,
    since: int | None = 0,
    global_deletes: int = 0,
    settings: Thresholds = LIMITS,
) -> PolicyInput:
    work = PartitionWork(floor=floor, debt_since_ms=since)
    partition = Partition(PartitionCounters(Scope(1, "[]"), holds=holds), work)
    return policy_input(table(totals=globally(global_deletes)), partition, settings)


def test_equality_deletes_burden_every_older_file() -> None:
    burden = burden_of(UPSERTED, LIMITS.target_bytes)
    # 25 files, and half of the 4 that came with them.
    assert burden.delete_loads == 200_000 * 27
    assert burden.deletes_s() == pytest.approx(200_000 * 27 * READ_COST.load_s + 4 * 0.01)
    assert burden.amplification > 1.2


def test_no_debt_is_no_burden() -> None:
    burden = burden_of(FileTally(on_target=LARGE), LIMITS.target_bytes)
    assert (burden.total_seconds(), burden.amplification) == (0.0, 1.0)
    assert burden_of(FileTally(), LIMITS.target_bytes).amplification == 1.0


def test_positions_mask_rows_that_are_read_all_the_same() -> None:
    holds = replace(FileTally(on_target=LARGE), deletion_vectors=Tally(25, 10_000_000, MB))
    burden = burden_of(holds, LIMITS.target_bytes)
    assert burden.dead_bytes == pytest.approx(LARGE.bytes / 10)
    assert burden.amplification == pytest.approx(1.1 / 0.9, rel=0.1)


def test_global_deletes_burden_a_partition_too() -> None:
    holds = FileTally(on_target=LARGE)
    assert burden_of(holds, LIMITS.target_bytes, 3).opens == 3
    assert compaction_work(holds, 3).bytes_read == LARGE.bytes


def test_a_price_knows_how_many_files_there_are() -> None:
    """A conversion takes each large file by itself: a thousand small ones cost as much as ten of
    a gigabyte."""
    holds = replace(UPSERTED, deletion_vectors=Tally(3, 100, MB))
    assert compaction_work(holds, 0).files == 29 + 4 + 3
    vectors = FileTally(on_target=LARGE, deletion_vectors=Tally(3, 100, MB))
    assert compaction_work(vectors, 0).files == 3 + 3
    found = {one.action: one.work for one in list_offers(UPSERTED, LIMITS.target_bytes)}
    assert (found[Action.CONVERT].files, found[Action.CONVERT].converted) == (4 + 4, 25)
    assert found[Action.COMPACT].converted == 0
    small = FileTally(fragments=Tally(8, 1, MB))
    [merge] = [one for one in list_offers(small, LIMITS.target_bytes) if one.action is Action.MERGE]
    assert merge.work.files == 8


def test_readers_pay_half_of_what_the_debt_is_now() -> None:
    assert paid_at_ms(30.0, 2.0, 60_000, LIMITS) == 60_000 + 5 * HOUR_MS  # 30 / (2 / 2 * 6)
    assert paid_at_ms(30.0, 2.0, 0, replace(LIMITS, payback=2.0)) == 10 * HOUR_MS


def test_moments_of_many_partitions_fall_together() -> None:
    """Each is a look at all partitions of the table."""
    moments = {paid_at_ms(30.0, 2.0, 60_000 + since, LIMITS) for since in range(1, 60_000, 977)}
    assert moments == {120_000 + 5 * HOUR_MS}


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, reads_per_hour=0.0),
        replace(LIMITS, payback=float("inf")),
        replace(LIMITS, payback=1e300),
    ],
)
def test_a_price_that_nobody_pays(limits: Thresholds) -> None:
    assert paid_at_ms(30.0, 2.0, 0, limits) >= FAR_MS


def test_a_large_rewrite_waits_for_its_readers_and_a_cheap_one_does_not() -> None:
    dear = weighed(UPSERTED)
    assert 0 < dear.from_ms == dear.paid_ms < 24 * HOUR_MS
    small = FileTally(fragments=Tally(8, 100, MB), equality_deletes=Tally(4, 100, 1))
    assert weighed(small).from_ms == 0


def test_fragments_that_fill_a_file_wait_for_nobody() -> None:
    """Their bytes are written once, now or later. Where a delete is there, or where they fill none,
    more would come to what is read or written now."""
    each = 128 * MB // 20
    clean = FileTally(on_target=LARGE, fragments=Tally(21, 21_000, 21 * each))
    few = replace(clean, fragments=Tally(19, 19_000, 19 * each))
    with_delete = replace(clean, equality_deletes=Tally(1, 1, 100))
    with_vector = replace(clean, deletion_vectors=Tally(1, 1, 100))
    for weigh in (weigh_minor, weigh_compaction):
        cases = (clean, few, with_delete, with_vector)
        found = [weigh(held_input(holds)).from_ms for holds in cases]
        assert found[0] == 0, weigh.__name__
        assert min(found[1:]) > 0, weigh.__name__


def test_nothing_waits_longer_than_a_day() -> None:
    little = replace(UPSERTED, equality_deletes=Tally(4, 4, 100), fragments=Tally())
    assert weighed(little).from_ms == LIMITS.max_wait_ms < weighed(little).paid_ms


def test_rank_is_what_is_spared_for_the_price_and_grows_with_waiting() -> None:
    dear = weighed(UPSERTED)
    more = replace(UPSERTED, equality_deletes=Tally(4, 400_000, MB))
    assert dear.payback_ratio(dear.paid_ms) == pytest.approx(1.0)
    assert weighed(more).payback_ratio(HOUR_MS) > 1.5 * dear.payback_ratio(HOUR_MS)
    assert dear.payback_ratio(9 * HOUR_MS) > weighed(more).payback_ratio(HOUR_MS)  # nothing starves
    assert weighed(UPSERTED, since=None).payback_ratio(HOUR_MS) == 0.0


def test_what_the_last_rewrite_left_is_not_weighed() -> None:
    floor = debt_of(UPSERTED, LIMITS.target_bytes)
    assert weighed(UPSERTED, floor).paid_ms == FAR_MS
    half = weighed(UPSERTED, replace(floor, equality_deletes=2)).spared_s
    assert half == pytest.approx(weighed(UPSERTED).spared_s / 2, rel=0.01)


def test_one_delete_beside_a_thousand_vectors_weighs_as_much_as_alone() -> None:
    """Vectors are what conversions leave. Weighed with them, by the number of files, each new
    equality delete counts for a thousandth, and readers pay for it until the next one comes."""
    deletes = Tally(1, 200_000, MB)
    alone = FileTally(on_target=LARGE, equality_deletes=deletes)
    beside = replace(alone, deletion_vectors=Tally(25, 1_000_000, MB))
    floor = Debt(position_deletes=25)
    for weigh in (weigh_minor, weigh_compaction):
        found = []
        for holds, left in ((alone, NO_DEBT), (beside, floor)):
            found.append(weigh(held_input(holds, left)).spared_s)
        assert found[1] == pytest.approx(found[0], rel=0.01), weigh.__name__


def test_a_vector_brings_one_file_and_a_delete_file_all() -> None:
    vectors = FileTally(on_target=LARGE, deletion_vectors=Tally(5, 5, 5))
    assert compaction_work(vectors, 0).bytes_read == pytest.approx(LARGE.bytes / 5)
    positions = FileTally(on_target=LARGE, position_deletes=Tally(5, 5, 5))
    assert compaction_work(positions, 0).bytes_read == LARGE.bytes


def test_convert_or_compact_by_cost() -> None:
    """Few rows of large files die: a conversion reads keys alone. Many: the rewrite is dearer,
    and spares the dead rows too."""
    few = list_offers(UPSERTED, LIMITS.target_bytes)
    assert [one.action for one in few] == [Action.CONVERT, Action.COMPACT]
    assert few[0].price_s < few[1].price_s / 5
    tiny = FileTally(fragments=Tally(8, 1_000, MB), equality_deletes=Tally(4, 500, 100))
    masked = replace(tiny, position_deletes=Tally(8, 900, 900))
    assert list_offers(masked, LIMITS.target_bytes)[0].action is Action.COMPACT


def test_small_or_shared_debt_is_not_converted() -> None:
    def rewritten(holds: FileTally, global_deletes: int = 0, **limits: Any) -> bool:
        settings = replace(LIMITS, **limits)
        return held_input(holds, global_deletes=global_deletes, settings=settings).takes_all

    assert not rewritten(UPSERTED)
    assert rewritten(UPSERTED, cheap_bytes=LARGE.bytes * 2)  # then nothing is left
    asked = {"cheap_bytes": LARGE.bytes * 2, "convert": ConversionPolicy.ALWAYS}
    assert not rewritten(UPSERTED, **asked)
    assert rewritten(UPSERTED, convert=ConversionPolicy.NEVER)
    assert rewritten(replace(UPSERTED, on_target=Tally()))  # fragments alone
    assert not rewritten(FileTally(on_target=LARGE), convert=ConversionPolicy.NEVER)
    assert rewritten(UPSERTED, global_deletes=1)


def test_small_work_beside_position_deletes_has_a_small_price() -> None:
    """Not that of the whole partition, of which it takes nothing."""
    masked = FileTally(
        on_target=LARGE, fragments=Tally(8, 8, 20 * MB), deletion_vectors=Tally(9, 9, 9)
    )
    minor = weigh_minor(held_input(masked))
    assert minor.work.bytes_read == 20 * MB
    assert minor.from_ms == 0
    upserted = replace(masked, equality_deletes=Tally(1, 10, 100))
    reading = weigh_minor(held_input(upserted))
    assert reading.work.bytes_read == pytest.approx(20 * MB + 0.15 * LARGE.bytes + 100)


def test_a_merge_is_offered_where_no_delete_is() -> None:
    holds = FileTally(fragments=Tally(9, 9, 90 * MB), undersized=Tally(1, 1, 40 * MB))
    [merge] = [one for one in list_offers(holds, LIMITS.target_bytes) if one.action is Action.MERGE]
    assert merge.work.bytes_read == 130 * MB  # with what L1 has, they fill a file
    assert merge.price_s == FIRNLINE.cpu_s(merge.work)
    with_deletes = replace(holds, equality_deletes=Tally(1, 1, 1))
    offered = {one.action for one in list_offers(with_deletes, LIMITS.target_bytes)}
    assert Action.MERGE not in offered
