"""What rewrites of one upsert table write: `decide` and `plan` on its files."""

from __future__ import annotations

from itertools import pairwise

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.settings.thresholds import Thresholds

from bench.dead_rows import GB, MB, ROW_BYTES, START_MS, UpsertTable

KB = 1 << 10


def test_a_cold_partition_is_not_rewritten_for_a_few_late_rows() -> None:
    """30 GB, and 12 kB a day: with every file that a dead row is in, 120 GB in two weeks."""
    table = UpsertTable.of(30 * GB, Thresholds())
    for day in range(14):
        table.commit(12 * KB)
        table.rest(START_MS + (day + 1) * DAY_MS)
    assert table.written < MB
    assert table.orders  # the deletes are converted
    assert len(table.deletes) <= 1
    assert table.amplification < 1.1


@pytest.mark.long
def test_a_large_table_is_not_rewritten_every_day() -> None:
    """1 TB, and 90 MB an hour, of two days: a day's replace 0.15 % of its rows."""
    table = UpsertTable.of(1024 * GB, Thresholds())
    for hour in range(48):
        table.commit(90 * MB)
        table.rest(START_MS + (hour + 1) * HOUR_MS)
    assert table.written < 3 * table.ingested
    assert table.dead_share < 0.01
    assert not [one for one in table.orders if one.min_dead_ratio < 1]


def test_rows_are_written_again_once_in_as_many_as_the_ratio_says() -> None:
    """20 GB that takes 6 GB a day: each file is rewritten when a fifth of it is dead, small files
    are merged level by level; and no reader pays for much more than that fifth."""
    table = UpsertTable.of(20 * GB, Thresholds())
    for hour in range(24 * 8):
        table.commit(256 * MB)
        table.rest(START_MS + (hour + 1) * HOUR_MS)
    majors = [one for one in table.orders if one.min_dead_ratio < 1]
    assert majors
    assert table.written < 6 * table.ingested
    assert 0.05 < table.dead_share < 0.25


def test_small_files_are_merged_though_there_are_deletes_all_the_time() -> None:
    """A merge by itself leaves equality deletes to conversions, and these take small files along:
    else those of an upsert stream would pile up, two for each conversion."""
    table = UpsertTable.of(4 * GB, Thresholds())
    small, lulls = [], 0
    for hour in range(60):
        table.commit(40 * MB)
        table.rest(START_MS + (hour + 1) * HOUR_MS)
        target = table.limits.target_bytes
        small.append(sum(one.bytes < 0.75 * target for one in table.files))
        lulls += not table.deletes
    assert max(small) <= 9
    assert small.count(0) >= 3  # a full one each thirteen hours
    assert lulls > 20
    assert not [one for one in table.orders if one.action is Action.MERGE]


@pytest.mark.parametrize("reads", [0.0, 2.0])
def test_nothing_is_ordered_twice_for_nothing(reads: float) -> None:
    table = UpsertTable.of(4 * GB, Thresholds(reads_per_hour=reads))
    for hour in range(72):
        table.commit(40 * MB)
        table.rest(START_MS + (hour + 1) * HOUR_MS)
    written, orders = table.written, len(table.orders)
    table.rest(START_MS + 30 * DAY_MS)
    settled = len(table.orders)
    assert settled <= orders + 3
    table.rest(START_MS + 400 * DAY_MS)
    assert len(table.orders) == settled
    assert table.written - written <= 2 * sum(file.records for file in table.files) * ROW_BYTES
    assert all(one != two for one, two in pairwise(table.orders))
