"""Scans of a few partitions of many are heat for these, and for no others."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.partition_age import MAX_RANGES
from firnline_domain.counters.activity.reads import load_share
from firnline_domain.identity import MAIN, Scope
from firnline_domain.records.events import (
    PartitionChange,
    PartitionClock,
    ScannedRange,
    TableLayout,
    TableScanned,
)
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.encoding import to_bytes
from firnline_planner.state.failing_tables import FailingTables
from firnline_planner.state.table_context import context_of

from tests.kit.planner_world import TABLE, PlannerWorld

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
TODAY = date(2026, 11, 24)
EVENING_MS = int(datetime(2026, 11, 24, 23, tzinfo=UTC).timestamp() * 1_000)
CLOCK = PartitionClock(0, 0, "day", "ts")
LAYOUT = TableLayout((), ("ts",), CLOCK)
DAYS, FILES = 365, 4  # of each day
LIMITS = Thresholds(
    quiet_ms=0, min_fragments=1_000, max_age_ms=10**12, max_size_error=0.0, reads_per_hour=2.0
)


def scope(age: int, more: str = "") -> Scope:
    return Scope(0, f'["{TODAY - timedelta(age)}"{more}]')


class World(PlannerWorld):
    """A table of a year of days."""

    def __init__(
        self, days: int = DAYS, layout: TableLayout = LAYOUT, more: str = "", **settings: str
    ) -> None:
        super().__init__(now_ms=EVENING_MS - HOUR_MS, limits=LIMITS)
        self.layout, self.many = layout, more
        one = FileTally(fragments=Tally(FILES, 1_000, FILES << 20))
        keys = [f",{x}" for x in range(16)] if more else [""]
        scopes = [scope(age, key) for age in range(days) for key in keys]
        parts = (PartitionChange(each, one, FileTally()) for each in scopes)
        self.commit(*parts, settings=settings)
        self.files = days * len(keys) * FILES
        self.tick(120_000)

    def watched(self, minutes: int = 60, **event: Any) -> World:
        for _ in range(minutes):
            self.now_ms += MINUTE_MS
            known = TableScanned(TABLE, self.now_ms - MINUTE_MS, self.now_ms, 0, 0)
            self.take(replace(known, layout=self.layout, **event))
            self.tick(0)
        return self

    def reached(
        self,
        youngest: int | None,
        oldest: int | None,
        files: int,
        scans: int = 2,
        minutes: int = 60,
    ) -> World:
        """Scans, each of so many files, of which the filter tells these ages."""
        read = ScannedRange(youngest, oldest, scans, scans * files)
        return self.watched(minutes, scans=scans, data_files=scans * files, ranges=(read,))

    def rate(self, age: int, key: str = "") -> float:
        state = BucketState(self.store)
        table = state.table(TABLE.uuid, MAIN)
        assert table is not None
        context = context_of(state, LIMITS, self.now_ms, FailingTables()).for_table(table)
        return context.input_of(
            table, context.partition(table, scope(age, key))
        ).settings.reads_per_hour

    def shown(self) -> TableState:
        self.tick(120_000)
        states = (one.record for one in reversed(self.sent) if isinstance(one.record, TableState))
        return next(states)


def about(rate: float) -> Any:
    return pytest.approx(rate, rel=0.2)  # a step


def test_scans_of_today_are_heat_for_today_and_not_for_365_days() -> None:
    """A hundred and twenty scans an hour of one partition of 365: spread they are 0.33 an hour, and
    the assumed 2 would hold."""
    world = World().reached(None, 0, FILES)
    assert world.rate(0) == about(120)
    assert world.rate(-1) == about(120)  # tomorrow's, when it is there
    assert [world.rate(age) for age in (1, 2, 364)] == [2.0, 2.0, 2.0]
    assert world.shown().reads is not None
    assert world.shown().reads.in_force == about(120)  # type: ignore[union-attr]


def test_a_range_moves_on_with_the_time() -> None:
    world = World().reached(1, 6, 6 * FILES)
    assert [world.rate(age) for age in (0, 1, 6, 7)] == [2.0, about(120), about(120), 2.0]
    world.now_ms += 2 * HOUR_MS
    assert world.rate(0) == about(120 / 3)  # yesterday's by now; two hours without a scan
    assert world.rate(6) == 2.0


def test_a_scan_without_a_filter_is_of_all_partitions() -> None:
    world = World().watched(scans=2, data_files=2 * DAYS * FILES)
    assert [world.rate(age) for age in (0, 100, 364)] == [about(120)] * 3


def test_a_filter_by_other_columns_is_spread_by_the_share_of_files() -> None:
    world = World().watched(scans=200, data_files=200 * FILES)
    assert [world.rate(age) for age in (0, 100)] == [about(12_000 / DAYS)] * 2


def test_of_a_filter_that_tells_no_age_the_newest_are_wanted() -> None:
    """`(timestamp)`, longer ago than 90 days: the files that were read say how far."""
    world = World().reached(None, None, 100 * FILES)
    assert [world.rate(age) for age in (0, 99, 100, 364)] == [about(120), about(120), 2.0, 2.0]
    older = World().reached(200, None, 50 * FILES)
    assert [older.rate(age) for age in (199, 200, 249, 250)] == [2.0, about(120), about(120), 2.0]


def test_loads_are_of_an_unknown_share_and_the_newest_likeliest() -> None:
    world = World().watched(loads=1)
    for age in (0, 6, 29, 100, 360):
        assert world.rate(age) == about(max(60 * load_share(age, DAYS), 2.0))


def test_scans_that_leave_parts_of_a_day_out_are_heat_for_a_part_of_it() -> None:
    """Of sixteen buckets a day, each scan reads one."""
    clock = replace(CLOCK, position=0)
    layout = TableLayout((), ("ts", "id"), clock)
    world = World(30, layout, "buckets").reached(None, 0, 1, scans=32)
    assert world.rate(0, ",3") == about(60 * 32 / 16)
    assert world.rate(1, ",3") == 2.0


@pytest.mark.parametrize("partition", ['["x"]', "[null]", "[]", "[true]", "nonsense", "[[1]]"])
def test_partitions_that_tell_no_time_get_their_share(partition: str) -> None:
    world = World().reached(None, 0, FILES, scans=200)
    state = BucketState(world.store)
    table = state.table(TABLE.uuid, MAIN)
    assert table is not None
    context = context_of(state, LIMITS, world.now_ms, FailingTables()).for_table(table)
    known = context.partition(table, Scope(0, partition))
    assert context.input_of(table, known).settings.reads_per_hour == about(12_000 / DAYS)
    other = context.partition(table, Scope(1, scope(0).partition))  # of another spec
    assert context.input_of(table, other).settings.reads_per_hour == about(12_000 / DAYS)


def test_many_ranges_are_kept_as_few() -> None:
    world = World(days=90)
    world.now_ms -= DAY_MS // 2
    world.reached(None, 0, FILES, scans=20)
    for _ in range(3):
        for age in range(1, 90):
            world.reached(age, age, FILES, scans=1, minutes=1)
    table = BucketState(world.store).table(TABLE.uuid, MAIN)
    assert table is not None
    assert table.work.reads is not None
    assert len(table.work.reads.ranges) <= MAX_RANGES
    assert world.rate(0) > 100
    without = replace(table, work=replace(table.work, reads=None))
    assert len(to_bytes(table)) - len(to_bytes(without)) < 1_000


def test_another_spec_forgets_the_ranges_of_the_last() -> None:
    world = World().reached(None, 0, FILES)
    world.layout = replace(LAYOUT, clock=PartitionClock(1, 0, "hour", "ts"))
    world.watched(1, scans=1, data_files=DAYS * FILES)
    assert world.rate(0) == 2.0


def test_looks_are_few_while_a_range_keeps_its_rate() -> None:
    world, looks = World(30, **{"firnline.rewrite.payback": "1000000"}), 0
    for _ in range(120):
        world.reached(None, 0, FILES, minutes=1)
        looks += len(world.effects.fully_reconciled)
    assert looks <= 3
