"""Any action on a whole table whose order is numbers alone."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.table_action.base import DEADLINE_MS, DueCheck, TableAction
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.records.orders import PauseMaintenance, TableOrder
from firnline_domain.records.results import TableResult, TaskFailed
from firnline_planner import meters
from prometheus_client import REGISTRY

from tests.kit.planner_world import TABLE, A, PlannerWorld, part


class EveryHour(TableAction):
    """Asked for from the second snapshot on."""

    name = "rewrite_manifests"
    interval_ms = HOUR_MS

    def check_due(self, given: TableInput) -> DueCheck:
        head = given.table.counters.head_snapshot_id or 0
        return DueCheck("many" if head > 1 else "few", head > 1, None, {"head": head})


@pytest.fixture
def ready(world: PlannerWorld, monkeypatch: pytest.MonkeyPatch) -> PlannerWorld:
    monkeypatch.setitem(TABLE_ACTIONS, EveryHour.name, EveryHour())
    world.commit(part(A, 1))
    assert world.state().actions == {EveryHour.name: "few"}
    return world


def orders(records: list[object]) -> list[TableOrder]:
    return [one for one in records if type(one) is TableOrder]


def asked(world: PlannerWorld) -> TableOrder:
    [order] = orders(world.commit(part(A, 1)))
    return order


def result(order: TableOrder, refused: str | None = None) -> TableResult:
    return TableResult(order.task_id, TABLE, order.action, refused, "w", 0, {"after": 1})


def test_one_order_at_a_time_and_the_next_after_the_interval(ready: PlannerWorld) -> None:
    order = asked(ready)
    assert (order.action, order.reason, order.numbers["head"]) == (EveryHour.name, "many", 2)
    assert ready.topics[-1] == "table-tasks"
    assert orders(ready.commit(part(A, 1))) == []
    assert ready.state().actions == {EveryHour.name: "in_flight"}
    assert orders(ready.take(result(order))) == []
    assert ready.effects.outcomes == ["done"]
    assert ready.state().actions == {EveryHour.name: "cooling"}
    assert orders(ready.tick(HOUR_MS - 10_000)) == []
    ready.restart()
    [again] = orders(ready.tick(10_000))
    assert again.task_id != order.task_id


def test_a_lost_order_is_sent_again_after_its_deadline(ready: PlannerWorld) -> None:
    order = asked(ready)
    assert orders(ready.tick(DEADLINE_MS - 1)) == []
    assert orders(ready.tick(1)) == [order.__class__(**{  # the same task
        **{name: getattr(order, name) for name in order.__struct_fields__},
        "ordered_at_ms": ready.now_ms, "deadline_ms": ready.now_ms + DEADLINE_MS,
    })]  # fmt: skip


def test_what_did_nothing_is_asked_for_ever_more_rarely(ready: PlannerWorld) -> None:
    order = asked(ready)
    told = TaskFailed(
        order.task_id, TABLE, "main", None, order.action, 1, "w", "unreachable", "", True, 0
    )
    ready.take(told)
    assert ready.effects.outcomes == ["failed"]
    assert ready.state().actions == {EveryHour.name: "unreachable"}
    [second] = orders(ready.tick(2 * HOUR_MS))
    ready.take(result(second, "gc_disabled"))
    assert ready.effects.outcomes == ["refused"]
    assert orders(ready.tick(2 * HOUR_MS)) == []
    assert len(orders(ready.tick(2 * HOUR_MS))) == 1


def test_a_result_that_is_reported_again_changes_nothing(ready: PlannerWorld) -> None:
    order = asked(ready)
    ready.take(result(order))
    ready.take(result(order, "late"))
    assert ready.state().actions == {EveryHour.name: "cooling"}


def test_a_pause_keeps_it_back(ready: PlannerWorld) -> None:
    ready.take(PauseMaintenance(TABLE, "", "ops", ready.now_ms))
    assert orders(ready.commit(part(A, 1))) == []
    assert ready.state().actions == {EveryHour.name: "paused"}


def test_an_action_that_nobody_knows_is_poison(ready: PlannerWorld) -> None:
    with pytest.raises(PoisonousRecord, match="vacuum"):
        ready.take(TableResult("t", TABLE, "vacuum", None, "w", 0))


def test_what_orders_take_is_learned_once_of_each_that_was_carried_out(ready: PlannerWorld) -> None:
    order = asked(ready)
    assert order.numbers["price_pace"] == 1.0
    took = replace(result(order), worked_ms=4_000_000, expected_s=1.0)
    ready.take(replace(took, task_id="another"))
    ready.take(took)
    ready.take(took)
    [again] = orders(ready.tick(HOUR_MS))
    assert again.numbers["price_pace"] == pytest.approx(1.149, abs=0.001)
    assert again.numbers["price_cpu_s"] == pytest.approx(1.149 * order.numbers["price_cpu_s"], 0.01)
    ready.take(replace(result(again, "not_now"), worked_ms=4_000_000, expected_s=1.0))
    assert dict(ready.bucket.price_factors) == {EveryHour.name: pytest.approx(1.149, abs=0.001)}

    def shown() -> float | None:
        return REGISTRY.get_sample_value("firnline_price_factor", {"of": EveryHour.name})

    meters.set_gauges([ready.bucket])
    assert shown() == pytest.approx(1.149, abs=0.001)
    meters.set_gauges([])
    assert shown() == 1.0
