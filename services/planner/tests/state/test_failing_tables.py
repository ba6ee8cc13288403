"""A table whose step raises costs itself alone: the others of its bucket go on in the same tick."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from firnline_domain.records.events import DeadLettered
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance, RewriteFiles
from firnline_domain.records.pauses import HoldReason
from firnline_domain.records.states import TableState
from firnline_domain.settings.groups import Budget
from firnline_planner import meters
from firnline_planner.publish import table_state
from firnline_planner.reconcile import budget_queue, table
from firnline_planner.state.encoding import ref_key
from prometheus_client import REGISTRY

from tests.kit.planner_world import LIMITS, A, PlannerWorld, part

BAD, GOOD = (TableName(name, ("db",), name, "lake") for name in ("bad", "good"))
FRAGMENTS = LIMITS.min_fragments
MODULES = {"decide_rewrite": table, "table_state": table_state, "with_publication": table}


class Trouble:
    """Has one function of the planner raise for the bad table, while `is_on`."""

    def __init__(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        self.is_on, self.calls = True, 0
        whole = getattr(module, name)

        def raising(*args: Any, **more: Any) -> Any:
            if self.is_on and any(_is_bad(one) for one in args):
                self.calls += 1
                raise OverflowError("date value out of range")
            return whole(*args, **more)

        patch.setattr(module, name, raising)


def _is_bad(value: Any) -> bool:
    counters = getattr(getattr(value, "table", value), "counters", None)
    return getattr(counters, "table", None) == BAD


def fill(world: PlannerWorld, snapshot: int = 1) -> None:
    """Debt in both tables; the bad one comes first."""
    for name in (BAD, GOOD):
        parent = snapshot - 1 or None
        world.take(world.change(snapshot, parent, part(A, FRAGMENTS), table=name))


def letters(world: PlannerWorld) -> list[DeadLettered]:
    return [one.record for one in world.sent if isinstance(one.record, DeadLettered)]


def ordered(world: PlannerWorld) -> list[str]:
    return [one.record.table.name for one in world.sent if isinstance(one.record, RewriteFiles)]


def last_state(world: PlannerWorld, name: TableName) -> TableState:
    return [one for one in world.published() if one.table == name][-1]


QUIET = replace(LIMITS, quiet_ms=500)  # so that ticks decide, not records


@pytest.mark.parametrize("step", MODULES)
def test_the_others_go_on_and_it_is_told_once(
    step: str, world: PlannerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    Trouble(monkeypatch, MODULES[step], step)
    world.restart(QUIET)
    fill(world)
    for _ in range(30):
        world.tick()
    assert "good" in ordered(world)
    assert any(one.table == GOOD for one in world.published())
    [letter] = letters(world)
    assert (letter.reason, letter.key) == ("table_failing", b"bad")
    assert "db.bad" in letter.message
    assert "OverflowError: date value out of range" in letter.message
    hold = last_state(world, BAD).hold
    assert hold is not None
    assert (hold.reason, "OverflowError" in hold.detail) == (HoldReason.FAILING, True)
    assert last_state(world, GOOD).hold is None
    meters.set_gauges([world.bucket])
    assert REGISTRY.get_sample_value("firnline_tables_failing") == 1


def test_its_pause_doubles_and_it_comes_back_by_itself(
    world: PlannerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = Trouble(monkeypatch, table, "decide_rewrite")
    world.restart(QUIET)
    fill(world)
    tried = []
    for second in range(3_000):
        before = trouble.calls
        world.tick()
        tried += [second] if trouble.calls > before else []
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses[:6] == pytest.approx([10, 20, 40, 80, 160, 320], abs=1)
    assert max(pauses) == pytest.approx(600, abs=1)
    trouble.is_on = False
    for _ in range(603):
        world.tick()
    assert "bad" in ordered(world)
    assert last_state(world, BAD).hold is None
    assert world.bucket.failing_table_count == 0
    assert len(letters(world)) == 1


def test_a_record_that_cannot_be_decided_about_is_counted_all_the_same(
    world: PlannerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put aside, its snapshot would be missing, and each later one with it."""
    trouble = Trouble(monkeypatch, table, "decide_rewrite")
    fill(world)
    fill(world, 2)
    kept = world.bucket._state.table("bad", "main")
    assert kept is not None
    assert kept.counters.head_snapshot_id == 2
    assert not letters(world)
    trouble.is_on = False
    world.tick()
    assert "bad" in ordered(world)


def test_a_property_that_mends_it_is_acted_on_at_once(
    world: PlannerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = Trouble(monkeypatch, table, "decide_rewrite")
    world.restart(QUIET)
    fill(world)
    for _ in range(200):
        world.tick()
    trouble.is_on = False
    change = world.change(2, 1, part(A, 1), table=BAD, settings={"firnline.enabled": "true"})
    world.take(change)
    assert world.bucket.failing_table_count == 0


def test_what_cannot_be_written_down_at_a_tick_keeps_no_other_from_it(
    world: PlannerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.restart(QUIET)
    fill(world)

    def unwritable(context: Any, table: Any) -> Any:
        work = replace(table.work, publish_ms=context.now_ms)
        kept: Any = object() if table.counters.table == BAD else 7
        return replace(table, work=replace(work, published_ms=kept))

    monkeypatch.setattr(table, "with_publication", unwritable)
    for _ in range(3):
        world.tick()
    assert ordered(world) == ["good"]
    assert [one.key for one in letters(world)] == [b"bad"]


def test_a_budget_pays_the_next_where_an_order_fails(
    world: PlannerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.restart(replace(QUIET, budget=Budget(1_000.0)))
    fill(world)
    Trouble(monkeypatch, budget_queue, "decide_rewrite")
    for _ in range(5):
        world.tick()
    assert ordered(world) == ["good"]
    assert "db.bad: order: OverflowError" in letters(world)[0].message


def test_a_table_that_cannot_be_read_keeps_no_pause_from_the_others(world: PlannerWorld) -> None:
    fill(world)
    world.store.values[ref_key("bad", "main")] = b"\x01" + bytes(10) + b"\xc1"
    world.restart()
    world.take(PauseMaintenance(None, "maintenance", "ann", world.now_ms))
    assert world.bucket.paused_table_count == 1
    world.take(ResumeMaintenance(None, "ann", world.now_ms))
    for _ in range(3):
        world.tick()
    assert "good" in ordered(world)
    assert [one.key for one in letters(world)] == [b"bad"]


@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_table_that_was_cut_off_is_told_by_its_name(size: int, world: PlannerWorld) -> None:
    fill(world)
    world.store.values[ref_key("bad", "main")] = b"\x01" * size
    world.restart()
    world.tick()
    assert [one.key for one in letters(world)] == [b"bad"]


def test_time_in_the_year_9999_orders_nothing_and_raises_nothing(world: PlannerWorld) -> None:
    world.now_ms = 1_800_000_000_000
    for name, text in (
        (BAD, "2026-12-01T00:00/9999-12-31T23:59 America/New_York"),
        (GOOD, ""),
    ):
        settings = {"firnline.blackout": text}
        world.take(world.change(1, None, part(A, FRAGMENTS), table=name, settings=settings))
    for _ in range(3):
        world.tick()
    assert ordered(world) == ["good"]
    assert not letters(world)
