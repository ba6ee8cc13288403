"""Number of workers that are needed now, for an autoscaler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from firnline_domain.base.values import to_plain
from firnline_domain.policy.fleet.lanes import Lane, lane_of_order
from firnline_domain.settings.groups import DEFAULT

from firnline_console.views.capacity import (
    WaitingOrder,
    WorkerCapacity,
    WorkerDemand,
    demand_by_lane,
)
from firnline_console.views.tasks import REWRITE, TaskView

EXPIRY_CPU_S = 2.0  # a commit by Iceberg's action; more where it deletes many files


def workers_json(
    tasks: Iterable[TaskView], capacity: WorkerCapacity, groups: Collection[str], now_ms: int
) -> dict[str, Any]:
    """Return by lane: `wanted`, and the tasks, CPU seconds and waiting time from which it was
    computed; `both` for workers that take both lanes. These are the default group's. `groups`
    contains the others, if the deployment has any, or if tasks wait in a group that it no longer
    has."""
    demands = demand_by_group(tasks, capacity, groups, now_ms)
    answer = _by_lane(demands.pop(DEFAULT))
    if demands:
        answer["groups"] = {name: _by_lane(demands[name]) for name in sorted(demands)}
    return answer


def _by_lane(demands: Mapping[str, WorkerDemand]) -> dict[str, Any]:
    return {lane: to_plain(demand) for lane, demand in demands.items()}


def demand_by_group(
    tasks: Iterable[TaskView], capacity: WorkerCapacity, groups: Collection[str], now_ms: int
) -> dict[str, dict[str, WorkerDemand]]:
    """Return the demand of the default group, of every other one, and of those that tasks still
    name."""
    waiting = _waiting_tasks(tasks, now_ms)
    names = {DEFAULT, *groups, *waiting}
    return {name: demand_by_lane(waiting.get(name, []), capacity, now_ms) for name in names}


def _waiting_tasks(tasks: Iterable[TaskView], now_ms: int) -> dict[str, list[WaitingOrder]]:
    """Return the waiting tasks by group, without overdue ones: the planner sends others."""
    found = defaultdict[str, list[WaitingOrder]](list)
    for task in tasks:
        order = task.order
        if order is None or order.deadline_ms < now_ms:
            continue
        if task.kind != REWRITE:
            lane, cpu_s = Lane.ORDINARY, EXPIRY_CPU_S
        else:
            lane, cpu_s = lane_of_order(order.numbers), order.numbers.get("rewrite_cpu_s", 0.0)
        one = WaitingOrder(lane, cpu_s, order.ordered_at_ms, task.is_begun)
        found[order.group].append(one)
    return found
