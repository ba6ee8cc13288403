"""The fleet's totals and its oldest orders as gauges: what the read model holds of all tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from firnline_adapters.observability import metrics
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.records.results import DeleteKind
from firnline_domain.records.states import TABLE_STATUSES
from firnline_domain.settings.groups import shown_name

from firnline_console.read_model.listing import Query
from firnline_console.read_model.port import ReadModel, ViewLost
from firnline_console.views.capacity import WorkerCapacity
from firnline_console.views.workers import demand_by_group

PAUSE_S = 15.0  # as often as Prometheus asks, unless it is told otherwise
MAX_ORDERS = 5_000  # that are looked at; a document of 2 kB each
LARGEST = 20  # tables and namespaces that have series of their own
TOTALS = {
    "fleet_tables_waiting": "tables_waiting",
    "fleet_data_files": "data_files",
    "fleet_data_bytes": "data_bytes",
    "fleet_debt_files": "debt_files",
    "fleet_partitions_parked": "partitions_parked",
}
DELETES = {
    DeleteKind.EQUALITY: "equality_deletes",
    DeleteKind.POSITION: "position_deletes",
    DeleteKind.DELETION_VECTOR: "deletion_vectors",
}
OF_NAMESPACES = {
    "fleet_namespace_debt_files": "debt",
    "fleet_namespace_data_bytes": "size",
    "fleet_namespace_delete_files": "deletes",
}
OF_TABLES = "fleet_table_debt_files"


class Gauges:
    """The fleet's gauges; `groups` are the groups of the fleet."""

    def __init__(self, model: ReadModel, groups: Collection[str]) -> None:
        self._model = model
        self._groups = set(groups)
        self._largest: dict[str, dict[tuple[str, ...], float]] = {
            name: {} for name in (OF_TABLES, *OF_NAMESPACES)
        }

    def set(self, now_ms: int) -> None:
        """Set all gauges once. Raises RetryLater, ViewLost."""
        totals = self._model.read_totals(now_ms)
        for name, total in TOTALS.items():
            metrics.gauge(name, totals.get(total, 0))
        for kind, total in DELETES.items():
            metrics.gauge("fleet_delete_files", totals.get(total, 0), kind=kind)
        self._set_largest()
        tasks = self._model.list_open_tasks(MAX_ORDERS)
        demands = demand_by_group(tasks, WorkerCapacity(), self._groups, now_ms)
        self._groups |= set(demands)  # shown once, a group falls back to 0
        for group, lanes in demands.items():
            for lane in Lane:
                demand = lanes[lane]
                name, oldest_s = shown_name(group), demand.oldest_s
                metrics.gauge("fleet_orders", demand.orders, group=name, lane=lane)
                metrics.gauge("fleet_workers_wanted", demand.wanted, group=name, lane=lane)
                metrics.gauge("fleet_oldest_order_seconds", oldest_s, group=name, lane=lane)

    def _set_largest(self) -> None:
        page, tables = self._model.list_tables(Query(limit=LARGEST))
        for status in TABLE_STATUSES:
            metrics.gauge("fleet_tables", page.statuses.get(status, 0), status=status)
        self._largest[OF_TABLES] = {
            (one.table.full_name,): one.debt_files for one in tables if one.debt_files
        }
        namespaces = self._model.list_namespaces(LARGEST)
        for name, of in OF_NAMESPACES.items():
            self._largest[name] = {(one.name,): getattr(one, of) for one in namespaces}

    @contextmanager
    def show_largest(self) -> Iterator[None]:
        """Show the largest tables and namespaces meanwhile; what is among them no longer has no
        series."""
        with ExitStack() as stack:
            for name in self._largest:
                measure = partial(self._largest.__getitem__, name)
                stack.enter_context(metrics.measure_at_scrape(name, measure))
            yield

    async def keep_set(self, now_ms: Callable[[], int]) -> None:
        """Set the gauges repeatedly; while Redis is away they keep their values."""
        with self.show_largest():
            while True:
                with suppress(RetryLater, ViewLost):
                    await asyncio.to_thread(self.set, now_ms())
                await asyncio.sleep(PAUSE_S)
