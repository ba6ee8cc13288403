"""Commits to a table that wait until a commit of Firnline's has ended (docs/decisions/0035)."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from firnline_adapters import metrics

from firnline_gateway.gates import Gates

RESTS = 3  # times as long as it was held a table is not held again: a quarter of the time at most


class Holds:
    """See `Gates`: here a commit waits."""

    def __init__(self, most_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """`most_ms`: 0 = none ever waits."""
        self._gates = Gates(most_ms, RESTS, now_s)

    def begin(self, table: Hashable) -> None:
        """Commits of others wait from now on, if the table has had its rest."""
        if self._gates.close(table):
            metrics.count("gateway_commit_holds")

    def end(self, table: Hashable) -> None:
        """Release whoever waits."""
        self._gates.open(table)

    async def commit(self, table: Hashable) -> None:
        """Return when another's commit may go on."""
        if (waited_s := await self._gates.passed(table)) is not None:
            metrics.observe("gateway_commit_hold_seconds", waited_s)
