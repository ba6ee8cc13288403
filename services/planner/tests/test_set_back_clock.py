"""A planner whose clock was days ahead, or behind: once it is right, no table waits for it."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS, MINUTE_MS
from firnline_domain.base.values import Value
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.policy import clock_set_back
from firnline_domain.records.events import ChangeKind, FilesChanged
from firnline_domain.records.orders import HoldPartitions, RewriteFiles
from firnline_domain.records.results import RowsCompared, TaskRunning
from firnline_domain.records.states import TableState

from tests.kit.names import TABLE
from tests.kit.planner_world import LIMITS, A, B, PlannerWorld, part

START_MS = 1_800_000_000_000
FRAGMENTS = LIMITS.min_fragments
OWNER = {
    "firnline.manifests.min-count": "1",
    "firnline.orphans.enabled": "true",
    "firnline.partitions.ttl-hours": "24",
    "firnline.expire.enabled": "true",
    "firnline.retain.hours": "1",
    "firnline.rewrite.full-interval-ms": str(HOUR_MS),
    "firnline.commit.max-per-hour": "4",
}


def orders(world: PlannerWorld) -> list[RewriteFiles]:
    return [one.record for one in world.sent if isinstance(one.record, RewriteFiles)]


def idle(world: PlannerWorld) -> None:
    world.commit(part(A, FRAGMENTS))


def waiting_order(world: PlannerWorld) -> None:
    world.commit(part(A, FRAGMENTS))
    world.tick()


def running_order(world: PlannerWorld) -> None:
    waiting_order(world)
    order = orders(world)[-1]
    said = TaskRunning(
        task_id=order.task_id,
        table=TABLE,
        ref="main",
        scope=A,
        attempt=order.attempt,
        worker="w",
        started_at_ms=world.now_ms,
        at_ms=world.now_ms,
    )
    world.take(said)


def cooling(world: PlannerWorld) -> None:
    waiting_order(world)
    order = orders(world)[-1]
    world.commit(part(A, 1, FRAGMENTS), task_id=order.task_id, operation="replace")


def backing_off(world: PlannerWorld) -> None:
    waiting_order(world)
    world.tick(13 * HOUR_MS)


def missing(world: PlannerWorld) -> None:
    world.head += 1
    world.commit(part(A, FRAGMENTS))
    world.tick(10_000)


def hot(world: PlannerWorld) -> None:
    world.commit(part(A, FRAGMENTS, 1), operation="overwrite")
    world.tick()


def of_other_maintainer(world: PlannerWorld) -> None:
    world.commit(part(A, FRAGMENTS, 1), operation="replace")
    world.tick()


def announced(world: PlannerWorld) -> None:
    world.commit(part(A, FRAGMENTS), settings=OWNER, snapshot_count=5, manifests=50)
    for _ in range(5):
        world.tick()


def come(world: PlannerWorld, story: Any) -> None:
    """More debt, or the answer to a resync."""
    parts = (part(A, FRAGMENTS), part(B, FRAGMENTS))
    if story is missing:
        kind = ChangeKind.ABSOLUTE
        world.take(world.change(world.head, None, *parts, kind=kind))
    else:
        world.commit(*parts)


STORIES = [idle, waiting_order, running_order, cooling, backing_off, missing, hot,
           of_other_maintainer, announced]  # fmt: skip
UNBEGUN = (idle, waiting_order, backing_off, announced)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ahead_ms", [DAY_MS, 10 * DAY_MS])
@pytest.mark.parametrize("story", STORIES)
def test_what_was_done_by_a_clock_that_was_ahead_holds_nothing_up(
    story: Any, ahead_ms: int, restarts: bool
) -> None:
    world = PlannerWorld(now_ms=START_MS)
    world.tick()
    world.now_ms += ahead_ms
    story(world)
    world.now_ms = START_MS + 20_000
    if restarts:
        world.restart()
    world.sent.clear()
    for _ in range(5):
        world.tick()
    come(world, story)
    for _ in range(20):
        world.tick(MINUTE_MS)
    # An order that nobody has begun is waited for, half a day as ever.
    wanted = {B} if story in UNBEGUN else {A, B}
    assert {order.scope for order in orders(world)} == wanted
    for _ in range(13):
        world.tick(HOUR_MS)
    assert {order.scope for order in orders(world)} == {A, B}
    assert any(isinstance(one.record, TableState) for one in world.sent)


@pytest.mark.parametrize("story", STORIES)
def test_a_clock_that_was_behind_holds_nothing_up(story: Any) -> None:
    world = PlannerWorld(now_ms=START_MS)
    world.now_ms -= 10 * DAY_MS
    story(world)
    world.now_ms = START_MS
    for _ in range(5):
        world.tick()
    come(world, story)
    for _ in range(40):
        world.tick(30_000)
    assert B in {order.scope for order in orders(world)}


def test_a_persons_hold_and_a_park_last_as_long_as_they_were_to() -> None:
    world = PlannerWorld(now_ms=START_MS + 10 * DAY_MS)
    world.commit(part(A, 1), part(B, 1))
    until_ms = world.now_ms + DAY_MS
    world.take(HoldPartitions(TABLE, "main", (A,), "undone", until_ms, "ann", world.now_ms))
    differ = RowsCompared(
        "t", TABLE, "main", B, (1,), "differ", "rows", "", None, None, "w", world.now_ms
    )
    world.take(differ)
    world.now_ms = START_MS
    world.tick()
    table = world.bucket._state.table(TABLE.key, "main")
    assert table is not None
    for scope in (A, B):
        found = world.bucket._state.partition(TABLE.key, "main", scope)
        assert found is not None
        assert found.work.until_ms == pytest.approx(START_MS + DAY_MS, abs=5_000)


def test_two_clocks_that_differ_a_little_change_nothing() -> None:
    world = PlannerWorld(now_ms=START_MS)
    cooling(world)
    before = dict(world.store.values)
    world.now_ms -= 4 * MINUTE_MS
    world.restart()
    world.tick(0)
    kept = world.bucket._state.partition(TABLE.key, "main", A)
    assert kept is not None
    assert kept.work.pause == "cooling"
    assert before.keys() == world.store.values.keys()


PAST = {
    "absolute_observed_ms",
    "announced_ms",
    "as_of_ms",
    "arrived_commit_ms",
    "asked_ms",
    "before_ms",
    "begun_ms",
    "changed_ms",
    "chosen_ms",
    "committed_at_ms",
    "debt_since_ms",
    "done_ms",
    "equality_arrived_ms",
    "equality_since_ms",
    "finished_ms",
    "frozen_seen_ms",
    "full_ms",
    "full_seen_ms",
    "hot_since_ms",
    "observed_ms",
    "oldest_commit_ms",
    "oldest_ms",
    "oldest_snapshot_ms",
    "ordered_at_ms",
    "ordered_ms",
    "paused_ms",
    "positions_since_ms",
    "published_ms",
    "seen_ms",
    "since_ms",
    "sorted_ms",
    "sorted_seen_ms",
    "start_ms",
    "touched_ms",
    "undersized_since_ms",
    "wanted_ms",
}


def moments(kind: Any, seen: set[Any]) -> set[str]:
    """Names that end in `_ms` of a value and of all that is in it."""
    if kind in seen or not (isinstance(kind, type) and issubclass(kind, Value)):
        inner: set[str] = set()
        for one in getattr(kind, "__args__", ()):
            inner |= moments(one, seen)
        return inner
    seen.add(kind)
    found = {name for name in kind.__struct_fields__ if name.endswith("_ms")}
    for hint in get_type_hints(kind).values():
        found |= moments(hint, seen)
    return found


def test_every_number_that_is_kept_is_known_as_a_moment_or_a_length() -> None:
    """A new one that is an end, or a length, has to be named."""
    kept = moments(Table, {FilesChanged}) | moments(Partition, {FilesChanged})
    assert kept - clock_set_back.LENGTHS - clock_set_back.ENDS == PAST
