"""Reports of scans in one bucket: what they change of its decisions, and what they leave alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.filters import MAX_COLUMNS, Filters, Use
from firnline_domain.counters.activity.reads import Reads
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import MAIN, Scope
from firnline_domain.records.events import (
    ChangeKind,
    FilesChanged,
    PartitionChange,
    TableLayout,
    TableScanned,
)
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import PartitionState, TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.encoding import reconcile_ms, table_from, to_bytes
from firnline_planner.state.failing_tables import FailingTables
from firnline_planner.state.table_context import context_of

from tests.kit.planner_world import TABLE, PlannerWorld

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
MB = 1 << 20
# Neither counts nor age: the price alone, against what readers pay.
LIMITS = Thresholds(
    quiet_ms=0, min_fragments=1_000, max_age_ms=10**12, max_size_error=0.0, reads_per_hour=1.0
)
FILES = 40


class World(PlannerWorld):
    """The table has two partitions of fragments, too many bytes to be cheap."""

    def __init__(self, **settings: str) -> None:
        self.looks = 0  # at all partitions
        super().__init__(now_ms=1_000_000_000 - 10, limits=LIMITS)  # the commit takes 10 ms
        half = FileTally(fragments=Tally(FILES // 2, 10**6, FILES // 2 * 4 * MB))
        parts = [PartitionChange(Scope(0, f'["{x}"]'), half, FileTally()) for x in "ab"]
        named = {name.replace("_", "-"): text for name, text in settings.items()}
        assert not rewrites(self.commit(*parts, settings=named))

    def take(self, record: object, keep: bool = True) -> list[Any]:
        records = super().take(record, keep)
        self.looks += len(self.effects.fully_reconciled)
        return records

    def scanned(self, scans: int, files: int | None = None, late_ms: int = 0, **more: Any) -> Any:
        """A report of the last minute, of scans that read everything unless told otherwise."""
        self.now_ms += MINUTE_MS
        to_ms = self.now_ms - late_ms
        read = scans * FILES if files is None else files
        event = TableScanned(TABLE, to_ms - MINUTE_MS, to_ms, scans, read)
        return self.take(replace(event, **more))

    def watched(self, scans: int, minutes: int = 31, files: int | None = None) -> list[Any]:
        """What so many minutes of reports come to, each with a tick after it."""
        found = []
        for _ in range(minutes):
            found += self.scanned(scans, files)
            found += self.tick(0)
        return found

    @property
    def table(self) -> Table:
        found = BucketState(self.store).table(TABLE.uuid, MAIN)
        assert found is not None
        return found

    def rate(self, partition: str = '["a"]') -> float:
        context = context_of(
            BucketState(self.store), LIMITS, self.now_ms, FailingTables()
        ).for_table(self.table)
        known = context.partition(self.table, Scope(0, partition))
        return context.input_of(self.table, known).settings.reads_per_hour

    def shown(self) -> TableState:
        records = self.tick(120_000)
        return next(one for one in reversed(records) if isinstance(one, TableState))


def rewrites(records: list[Any]) -> list[RewriteFiles]:
    return [one for one in records if isinstance(one, RewriteFiles)]


def of_all(state: TableState) -> list[PartitionState]:
    return list(state.partitions)


def test_a_table_that_is_read_often_is_served_earlier() -> None:
    """Three hundred scans an hour pay within the hour what one an hour takes days for."""
    quiet, busy = World(), World()
    assert not rewrites(quiet.watched(0, minutes=0) + quiet.tick(2 * HOUR_MS))
    found = rewrites(busy.watched(5, minutes=120))
    assert {one.scope.partition for one in found} == {'["a"]', '["b"]'}
    assert {one.reason for one in found} == {"read_debt"}
    assert {one.numbers["reads_per_hour"] for one in found} <= {
        2 ** (step / 4) for step in range(50)
    }


def test_nothing_changes_before_it_is_believed() -> None:
    world = World()
    due_ms = reconcile_ms(world.table)
    world.watched(5, minutes=30)
    assert (world.rate(), reconcile_ms(world.table)) == (1.0, due_ms)
    world.watched(5, minutes=1)
    assert world.rate() == pytest.approx(300, rel=0.1)
    new_ms = reconcile_ms(world.table)
    assert new_ms is not None
    assert due_ms is not None
    assert new_ms < due_ms


def test_a_table_is_looked_at_again_only_when_its_rate_has_changed() -> None:
    """A look goes over all of its partitions."""
    world = World(**{"firnline.rewrite.payback": "1000000"})
    world.watched(5, minutes=30)
    before = world.looks
    world.watched(5, minutes=2)
    assert world.looks == before + 1  # now it is believed
    world.watched(5, minutes=120)
    assert world.looks == before + 1
    world.watched(50, minutes=20)
    assert before + 2 <= world.looks <= before + 9


def test_a_rate_that_holds_for_nothing_brings_no_look() -> None:
    worlds = [World(**{"firnline.reads_from": one}) for one in ("assumed", "at-least")]
    before = [world.looks for world in worlds]
    worlds[0].watched(50, minutes=40)
    worlds[1].watched(1, minutes=40, files=0)
    assert all(world.table.work.reads for world in worlds)
    assert [world.looks for world in worlds] == before


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"firnline.reads_from": "assumed"}, 1.0),
        ({"firnline.reads_from": "reported"}, 304.4),
        ({"firnline.reads_per_hour": "1000"}, 1000.0),
        ({"firnline.reads_per_hour": "1000", "firnline.reads_from": "reported"}, 304.4),
    ],
)
def test_the_table_says_whose_word_holds(settings: dict[str, str], rate: float) -> None:
    world = World(**settings)
    world.watched(5)
    assert world.rate() == pytest.approx(rate, rel=0.001)


def test_a_table_that_nobody_reads_any_more_is_one_that_waits() -> None:
    world = World(**{"firnline.reads_from": "reported"})
    world.watched(5)
    world.now_ms += 10 * 24 * HOUR_MS
    assert world.rate() == 0.0


def test_scans_of_a_part_count_for_a_part() -> None:
    world = World()
    world.watched(60, files=60 * FILES // 10)
    assert world.rate() == pytest.approx(360, rel=0.1)


def test_readers_that_report_nothing_are_believed_by_their_loads() -> None:
    """Twenty loads an hour of a table of two partitions, of which each reaches 0.685."""
    world = World()
    for minute in range(120):
        world.scanned(0, loads=int(minute % 3 == 0))
    assert world.rate() == pytest.approx(20 * 0.685, rel=0.2)
    assert world.table.work.filters is None


def test_people_see_what_readers_report_and_what_is_made_of_it() -> None:
    world = World()
    assert world.shown().reads is None
    world.watched(5)
    reads = world.shown().reads
    assert reads is not None
    assert reads.reported == pytest.approx(300, rel=0.1)
    assert reads.in_force == world.rate()
    assert reads.since_ms == 1_000_000_000 + 120_000 + MINUTE_MS


def test_an_unknown_table_and_one_that_is_gone_are_nobodys() -> None:
    world = World()
    assert world.take(TableScanned(replace(TABLE, uuid="u2"), 0, 1, 1, 1)) == []
    assert BucketState(world.store).table("u2", MAIN) is None
    gone = FilesChanged(
        "r", TABLE, MAIN, ChangeKind.REMOVED, None, None, 0, world.now_ms, "", (), 2,
        observed_at_ms=world.now_ms,
    )  # fmt: skip
    world.watched(5)
    world.take(gone)
    world.scanned(5)
    assert world.table.work.reads is None


def test_a_report_without_scans_to_count_keeps_the_state_as_it_is() -> None:
    """One of before the watch: gateways whose clocks are behind."""
    world = World()
    world.scanned(5)
    before = dict(world.store.values)
    world.scanned(5, late_ms=HOUR_MS)
    assert world.store.values == before


def test_rates_come_back_after_a_restart_and_cost_nothing_where_there_are_none() -> None:
    table = Table(TableCounters(TABLE, MAIN))
    plain = to_bytes(table)
    assert b"reads" not in plain
    assert table_from(plain).work.reads is None
    known = Reads(10**12, 10**12 + 1, 1234.5, 24)
    watched = replace(table, work=replace(table.work, reads=known))
    assert table_from(to_bytes(watched)).work.reads == known
    assert len(to_bytes(watched)) - len(plain) <= 70
    uses = tuple(Use(f"column_{number}", 123.4, 12.3) for number in range(MAX_COLUMNS))
    filters = Filters(10**12, 1234.5, uses, TableLayout(("column_5",), ("column_6",)))
    filtered = replace(table, work=replace(table.work, filters=filters))
    assert b"filters" not in plain
    assert table_from(plain).work.filters is None
    assert table_from(to_bytes(filtered)).work.filters == filters
    assert len(to_bytes(filtered)) - len(plain) <= 350


def test_older_planners_read_states_with_a_rate() -> None:
    """They know no such field, and leave it out."""

    class Older(msgspec.Struct):
        running: tuple[Any, ...] = ()

    work = replace(Table(TableCounters(TABLE, MAIN)).work, reads=Reads(1, 2, 3.0, 4))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(work), type=Older) == Older()
