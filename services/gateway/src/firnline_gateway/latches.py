"""Reads of a table that wait until a commit of Firnline's has ended (docs/decisions/0017)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from firnline_adapters import metrics

from firnline_gateway.gates import Gates

MOST_READERS = 10_000  # peers whose statements are followed; a forgotten one waits a second
RESTS = 1  # times as long as it was latched a table rests: half of the time at the most
LAST_LOOK_S = 0.1  # Iceberg's clients read the table once more when their commit was answered
K = TypeVar("K")
V = TypeVar("V")
Peer = Hashable  # a connection: a client's statement mostly keeps to one


class Latches:
    """Of one gateway; a table is told by any hashable name. A wish: a read waits once, and never
    longer than `most_ms`; a table is latched for half of the time at the most.

    Only the first read of a statement waits. Who has read the table and not committed since is in
    the middle of one (or only reads): what it reads next may be the refresh of its commit, which
    has to come before ours.
    """

    def __init__(self, most_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """`most_ms`: 0 = none is ever latched."""
        self._gates = Gates(most_ms, RESTS, now_s)
        self._now_s = now_s
        self._reading: OrderedDict[tuple[Hashable, Peer], None] = OrderedDict()
        self._committed: OrderedDict[tuple[Hashable, Peer], float] = OrderedDict()

    def begin(self, table: Hashable) -> None:
        """First reads of the table wait from now on, if it has had its rest."""
        if self._gates.close(table):
            metrics.count("gateway_read_holds")

    def end(self, table: Hashable) -> None:
        """Release whoever waits."""
        self._gates.open(table)

    async def read(self, table: Hashable, peer: Peer) -> None:
        """Return when the peer may read the table."""
        at = table, peer
        if self._now_s() - self._committed.get(at, -LAST_LOOK_S) < LAST_LOOK_S:
            return
        if at not in self._reading:
            await self._wait(table)
        _put(self._reading, at, None)

    async def _wait(self, table: Hashable) -> None:
        if (waited_s := await self._gates.passed(table)) is not None:
            metrics.observe("gateway_read_hold_seconds", waited_s)

    def committed(self, table: Hashable, peer: Peer) -> None:
        """The peer's statement has ended, well or not; what it reads next begins another."""
        self._reading.pop((table, peer), None)
        _put(self._committed, (table, peer), self._now_s())


def _put(into: OrderedDict[K, V], key: K, value: V) -> None:
    into[key] = value
    into.move_to_end(key)
    if len(into) > MOST_READERS:
        into.popitem(last=False)
