"""The fleet's totals and its oldest orders as gauges: what the read model holds of all tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from firnline_adapters.observability import metrics
from firnline_domain.errors import RetryLater
from firnline_domain.settings.groups import shown_name

from firnline_console.read_model.port import ReadModel, ViewLost
from firnline_console.views.capacity import WorkerCapacity
from firnline_console.views.workers import demand_by_group

PAUSE_S = 15.0  # as often as Prometheus asks, unless it is told otherwise
MAX_ORDERS = 5_000  # that are looked at; a document of 2 kB each
TOTALS = {
    "fleet_tables": "tables",
    "fleet_tables_waiting": "tables_waiting",
    "fleet_data_files": "data_files",
    "fleet_data_bytes": "data_bytes",
    "fleet_debt_files": "debt_files",
    "fleet_partitions_parked": "partitions_parked",
}


class Gauges:
    """The fleet's gauges; `groups` are the groups of the fleet."""

    def __init__(self, model: ReadModel, groups: Collection[str]) -> None:
        self._model = model
        self._groups = set(groups)

    def set(self, now_ms: int) -> None:
        """Set all gauges once. Raises RetryLater, ViewLost."""
        totals = self._model.read_totals(now_ms)
        for name, total in TOTALS.items():
            metrics.gauge(name, totals.get(total, 0))
        tasks = self._model.list_open_tasks(MAX_ORDERS)
        demands = demand_by_group(tasks, WorkerCapacity(), self._groups, now_ms)
        self._groups |= set(demands)  # shown once, a group falls back to 0
        for group, lanes in demands.items():
            for lane, demand in lanes.items():
                name, oldest_s = shown_name(group), demand.oldest_s
                metrics.gauge("fleet_orders", demand.orders, group=name, lane=lane)
                metrics.gauge("fleet_oldest_order_seconds", oldest_s, group=name, lane=lane)

    async def keep_set(self, now_ms: Callable[[], int]) -> None:
        """Set the gauges repeatedly; while Redis is away they keep their values."""
        while True:
            with suppress(RetryLater, ViewLost):
                await asyncio.to_thread(self.set, now_ms())
            await asyncio.sleep(PAUSE_S)
