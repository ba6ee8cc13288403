"""The fleet's totals as gauges: what the read model holds of all tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from firnline_adapters import metrics
from firnline_domain.errors import RetryLater

from firnline_console.readmodel import ReadModel, ViewLost

PAUSE_S = 15.0  # as often as Prometheus asks, unless it is told otherwise
TOTALS = {
    "fleet_tables": "tables",
    "fleet_tables_waiting": "tables_waiting",
    "fleet_data_files": "data_files",
    "fleet_data_bytes": "data_bytes",
    "fleet_debt_files": "debt_files",
    "fleet_partitions_parked": "partitions_parked",
}


def set_totals(model: ReadModel, now_ms: int) -> None:
    """Set them once. Raises RetryLater, ViewLost."""
    totals = model.totals(now_ms)
    for name, total in TOTALS.items():
        metrics.gauge(name, totals.get(total, 0))


async def keep_set(model: ReadModel, now_ms: Callable[[], int]) -> None:
    """Set them again and again; while Redis is away they stay as they were."""
    while True:
        with suppress(RetryLater, ViewLost):
            await asyncio.to_thread(set_totals, model, now_ms())
        await asyncio.sleep(PAUSE_S)
