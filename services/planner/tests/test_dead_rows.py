"""What results say of dead rows is kept, and decides which files the next order takes."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.records.events import PartitionChange, RewriteSkipped
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.dead_rows import DeadRows
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.planner_world import TABLE, A, PlannerWorld, committed, only, orders

FILE = 128 << 20
LIMITS = Thresholds(quiet_ms=0, target_bytes=FILE, reads_per_hour=1.0, slice_ms=0)
EMPTY = FileTally()
MARKED = PartitionChange(
    A,
    FileTally(
        on_target=Tally(25, 100_000_000, 25 * FILE),
        deletion_vectors=Tally(25, 5_000_000, 5_000_000),
    ),
    EMPTY,
)
# The rows that another engine has deleted all lie in five files: a quarter of theirs.
LEFT = (DeadRows(20, 20 * FILE, 80_000_000, 0), DeadRows(5, 5 * FILE, 20_000_000, 5_000_000))


@pytest.fixture
def world() -> PlannerWorld:
    return PlannerWorld(limits=LIMITS)


def looked(world: PlannerWorld) -> RewriteFiles:
    """The order that looks where they are."""
    assert not orders(world.commit(MARKED))
    order = only(world.tick(DAY_MS))
    assert (order.reason, order.min_dead_ratio) == ("position_deletes", 0.3)
    return order


def next_order(world: PlannerWorld) -> RewriteFiles | None:
    found = orders(world.tick(30 * DAY_MS))
    return found[0] if found else None


def takes_five_files(order: RewriteFiles | None) -> bool:
    assert order is not None
    assert (order.action, order.min_dead_ratio) == ("compact", 0.2)
    return order.numbers["rewrite_bytes"] == pytest.approx(5 * FILE, rel=0.01)


def test_an_order_that_found_nothing_says_where_they_are(world: PlannerWorld) -> None:
    order = looked(world)
    world.take(RewriteSkipped(order.task_id, TABLE, "main", A, "nothing_to_do", 0, LEFT))
    world.restart()
    assert takes_five_files(next_order(world))


@pytest.mark.parametrize("first", ["the word", "the commit"])
def test_the_committers_word_may_come_before_or_after_its_commit(
    world: PlannerWorld, first: str
) -> None:
    order, empty = looked(world), PartitionChange(A, EMPTY, EMPTY)
    head = world.head + 1
    word = replace(committed(order, head), dead_rows=LEFT)
    if first == "the word":
        world.take(word)
    world.commit(empty, task_id=order.task_id)
    if first == "the commit":
        world.take(word)
    assert takes_five_files(next_order(world))


@pytest.mark.parametrize("lost", [0, 1])
def test_without_a_word_nothing_is_ordered_for_what_was_there(
    world: PlannerWorld, lost: int
) -> None:
    """Iceberg's own action has none; and where a group was lost, the old one holds."""
    order = looked(world)
    world.take(replace(committed(order, world.head + 1), groups_lost=lost))
    world.commit(PartitionChange(A, EMPTY, EMPTY), task_id=order.task_id)
    assert next_order(world) is None
