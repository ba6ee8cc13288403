"""How many workers are wanted now, for an autoscaler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from firnline_domain.crew import Hands, Waiting, crews
from firnline_domain.lanes import Lane, lane_told
from firnline_domain.values import to_plain

from firnline_console.tasks import TaskView

EXPIRY_CPU_S = 2.0  # a commit by Iceberg's action; more where it deletes many files


def workers_json(tasks: Iterable[TaskView], hands: Hands, now_ms: int) -> dict[str, Any]:
    """By lane: `wanted`, and the orders, CPU seconds and waiting time that it comes from."""
    found = crews(_waiting(tasks, now_ms), hands, now_ms)
    return {lane.value: to_plain(crew) for lane, crew in found.items()}


def _waiting(tasks: Iterable[TaskView], now_ms: int) -> Iterator[Waiting]:
    """Overdue orders are nobody's any more: the planner sends others."""
    for task in tasks:
        order = task.order
        if order is None or order.deadline_ms < now_ms:
            continue
        if task.kind == "expiry":
            yield Waiting(Lane.ORDINARY, EXPIRY_CPU_S, order.ordered_at_ms)
        else:
            cpu_s = order.numbers.get("rewrite_cpu_s", 0.0)
            yield Waiting(lane_told(order.numbers), cpu_s, order.ordered_at_ms)
