"""Statistics are ordered by what commits have changed and by the clock, also after a restart."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult

from tests.kit.planner_world import TABLE, A, PlannerWorld, part

ACTION = "compute_statistics"


def orders(records: list[object]) -> list[TableOrder]:
    return [one for one in records if type(one) is TableOrder and one.action == ACTION]


def test_they_are_ordered_again_by_the_clock_and_not_for_what_a_rewrite_has_done(
    world: PlannerWorld,
) -> None:
    world.more = {**world.more, "settings": {"firnline.statistics": "id"}}
    [order] = orders(world.commit(part(A, 1)))
    assert world.topics[-1] == "table-tasks"
    world.take(TableResult(order.task_id, TABLE, ACTION, None, "w", world.now_ms, {}))
    world.commit(part(A, 1, 1), operation="replace")
    assert orders(world.tick(7 * HOUR_MS)) == []
    assert world.state().actions == {ACTION: "healthy"}
    [order] = orders(world.commit(part(A, 1)))
    world.take(TableResult(order.task_id, TABLE, ACTION, None, "w", world.now_ms, {}))
    assert orders(world.commit(part(A, 1))) == []
    assert world.state().actions == {ACTION: "cooling"}
    assert world.state().action_numbers[ACTION]["rows_changed"] > 0
    world.restart()
    assert orders(world.tick(6 * HOUR_MS - 60_000)) == []
    assert len(orders(world.tick(60_000))) == 1
