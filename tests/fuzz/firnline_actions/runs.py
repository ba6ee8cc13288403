"""`firnline run TABLE ACTION` in this process: what `firnline_cli.running.local_run` does, on a
Spark session and a small JVM that are there already."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from firnline_adapters.observability.logs import Log
from firnline_cli.forecast.catalog import Forecasts, Unread
from firnline_cli.running.tasks import choose_tasks
from firnline_domain.base.times import HOUR_MS
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.errors import RetryLater
from firnline_domain.identity import TableName
from firnline_domain.policy.operator_requests import Order, RequestedAction
from firnline_domain.policy.table_action.create_tags import TagCreation
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.table.catalog_client import Tables
from firnline_standalone.bootstrap import assemble_engine
from firnline_standalone.runs import TaskBatches, is_fine
from firnline_standalone.settings import StandaloneSettings
from firnline_worker.delete_sets.cache import DeleteSetCache


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass
class Told:
    """What became of each order, as a `Report`."""

    events: list[Any] = field(default_factory=list)

    def on_start(self, orders: Sequence[Order], left: int) -> None: ...
    def on_progress(self, done: int, total: int) -> None: ...
    def on_result(self, result: Any) -> None: ...
    def on_comparison(self, outcome: Any) -> None: ...

    def on_end(self, order: Order, event: Any, again: bool) -> None:
        self.events.append(event)


@dataclass
class Runner:
    """Each run has parts of its own, as a process has: nothing is left of one that was killed but
    what it has stored."""

    connection: CatalogConnection
    jvm: Any
    spark: Any
    iceberg_jar: Path
    scratch: Path
    runs: int = 0

    def run(self, table: TableName, requested: RequestedAction) -> list[Any]:
        """What became of its orders. Raises Crash, TaskRefused, RetryLater."""
        self.sweep(table)
        tables = Tables(self.connection)
        found = Forecasts(tables, Thresholds(), {}).forecast_table(
            (*table.namespace, table.name), now_ms()
        )
        if isinstance(found, Unread):
            raise RetryLater(found.why)
        orders = choose_tasks(found, requested).orders
        told = Told()
        is_later = HOUR_MS * (requested.action == TagCreation.name)  # when the hour is over

        def later(*_: Any) -> int:
            return now_ms() + is_later

        # all of them: one alone is not believed
        clocks = "firnline_iceberg.removal.catalog_and_storage_clocks"
        with (
            patch("firnline_worker.bootstrap.now_ms", later),
            patch(f"{clocks}.storage_now_ms", later),
            patch(f"{clocks}.catalog_now_ms", later),
        ):
            if orders:
                self._carry_out(orders, told)
        return told.events

    def sweep(self, table: TableName, later_ms: int = 0) -> None:
        """What killed runs have left, as a run begins; or as one that comes later does."""
        tables = Tables(self.connection)
        named = tables.load_named(table.namespace, table.name).identity

        def later(*_: Any) -> int:
            return now_ms() + later_ms

        OutputSweeper(tables, later, Lifetimes().sweep_ms, later).sweep(named)

    def _carry_out(self, orders: Sequence[Order], told: Told) -> None:
        self.runs += 1
        state, log, stop = self.scratch / f"run{self.runs}", Log("run"), threading.Event()
        reached = self.connection
        settings = StandaloneSettings(reached, {reached.name: reached}, self.iceberg_jar, state)
        cache = DeleteSetCache(state)
        with ThreadPoolExecutor(1) as executor:
            engine = assemble_engine(settings, log, stop, self.jvm, self.spark, cache, executor)
            try:
                TaskBatches(engine, told, now_ms).execute(orders)
            finally:
                cache.close()
                shutil.rmtree(state, ignore_errors=True)


def all_fine(events: Sequence[Any]) -> bool:
    return all(is_fine(one) for one in events)
