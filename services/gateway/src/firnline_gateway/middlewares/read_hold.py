"""Reads wait so that no statement begins from a snapshot that is about to be replaced
(docs/decisions/0013)."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from cachetools import FIFOCache
from firnline_domain.commits.hold_header import HOLD_READS

from firnline_gateway.middlewares.call_hold import CallHold
from firnline_gateway.proxy.exchange import Exchange

MAX_READERS = 10_000  # peers whose statements are followed; a forgotten one waits a second
LAST_READ_S = 0.1  # Iceberg's clients read the table once more when their commit was answered
Peer = Hashable  # a connection: a client's statement mostly keeps to one


class ReadHold(CallHold):
    """Delays of reads, half of the time at the most: only the first read of a statement waits. A
    client that has read the table and not committed since is in the middle of a statement, or only
    reads. Its next read may be the refresh of its commit, which has to come before Firnline's."""

    kind = "read"
    word = HOLD_READS
    share = 1.0
    rests = 1

    def __init__(self, max_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(max_ms, now_s)
        self._reading = FIFOCache[tuple[Hashable, Peer], None](MAX_READERS)
        self._committed = FIFOCache[tuple[Hashable, Peer], float](MAX_READERS)

    async def before(self, exchange: Exchange) -> None:
        if exchange.load is not None and not exchange.is_by_committer:
            await self.wait_to_read(exchange.table, _connection_of(exchange))

    def finish(self, exchange: Exchange) -> None:
        super().finish(exchange)
        if exchange.change and exchange.table is not None and not exchange.is_by_committer:
            self.end_statement(exchange.table, _connection_of(exchange))

    async def wait_to_read(self, table: Hashable, peer: Peer) -> None:
        """Return when the peer may read the table."""
        at = table, peer
        if self._now_s() - self._committed.get(at, -LAST_READ_S) < LAST_READ_S:
            return
        if at not in self._reading:
            await self.wait_for_release(table)
        self._reading[at] = None

    def end_statement(self, table: Hashable, peer: Peer) -> None:
        """End the peer's statement, successful or not; its next read begins another."""
        self._reading.pop((table, peer), None)
        self._committed[table, peer] = self._now_s()


def _connection_of(exchange: Exchange) -> Peer:
    transport = exchange.request.transport
    return transport.get_extra_info("peername") if transport else None
