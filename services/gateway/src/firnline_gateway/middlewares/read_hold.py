"""Reads wait so that no statement begins from a snapshot that is about to be replaced
(docs/decisions/0013)."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from cachetools import FIFOCache
from firnline_domain.commits.hold_header import HEADER, HOLD_NEXT_READS, HOLD_READS, RELEASE

from firnline_gateway.middlewares.call_hold import CallHold
from firnline_gateway.proxy.exchange import Exchange
from firnline_gateway.reads.table_loads import client_of, is_java_client

MAX_READERS = 10_000  # peers whose statements are followed; a forgotten one waits a second
APPLIED = range(200, 300)  # of a commit's answer


class Peer(NamedTuple):
    """A connection of a client. A client that is not Iceberg's Java library has only this one."""

    client: Hashable
    connection: Hashable


class ReadHold(CallHold):
    """Delays of reads, half of the time at the most: only the first read of a statement waits. A
    connection that has read the table, and whose client has not committed since, is in the middle
    of a statement, or only reads. The refresh of a commit has to come before Firnline's commit. A
    Java session's statements and reports take its connections in turn (seen with Spark 4.1)."""

    kind = "read"
    word = HOLD_READS
    share = 1.0
    rests = 1

    def __init__(self, max_ms: int, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(max_ms, now_s)
        self._reading = FIFOCache[tuple[Hashable, Hashable], float](MAX_READERS)
        self._committed = FIFOCache[tuple[Hashable, Hashable], float](MAX_READERS)
        self._armed = FIFOCache[Hashable, float](MAX_READERS)  # until when, by table

    async def before(self, exchange: Exchange) -> None:
        if exchange.load is None or exchange.is_by_committer or _is_refresh(exchange):
            return
        await self.wait_to_read(exchange.table, _peer_of(exchange))

    async def after(self, exchange: Exchange) -> None:
        """Begin the hold of an armed table before the writer has the answer to its commit: a
        writer without a pause reads again some milliseconds later."""
        await super().after(exchange)
        said = exchange.request.headers.get(HEADER)
        if exchange.is_loaded and said == HOLD_NEXT_READS:
            self.arm_hold(exchange.table)
        elif exchange.is_loaded and said == RELEASE:
            self._armed.pop(exchange.table, None)
        elif _is_writers_commit(exchange):
            self.begin_armed_hold(exchange.table)

    def finish(self, exchange: Exchange) -> None:
        super().finish(exchange)
        if exchange.change is None or exchange.table is None:
            return
        if exchange.is_by_committer:
            self._armed.pop(exchange.table, None)
        else:
            self.end_statement(exchange.table, _peer_of(exchange))

    def arm_hold(self, table: Hashable) -> None:
        """Begin a hold with the next commit of another client, if that comes soon."""
        self._armed[table] = self._now_s() + self._max_s

    def begin_armed_hold(self, table: Hashable) -> None:
        """Begin the hold that a committer has armed."""
        if self._armed.pop(table, 0.0) > self._now_s():
            self.begin_hold(table)

    async def wait_to_read(self, table: Hashable, peer: Peer) -> None:
        """Return when the peer may read the table."""
        at, since_s = (table, peer.connection), self._committed.get((table, peer.client), 0.0)
        if self._reading.get(at, 0.0) <= since_s:
            await self.wait_for_release(table)
        self._reading[at] = self._now_s()

    def end_statement(self, table: Hashable, peer: Peer) -> None:
        """End the peer's statement, successful or not; its next read begins another."""
        self._committed[table, peer.client] = self._now_s()


def _is_refresh(exchange: Exchange) -> bool:
    """Return whether Iceberg's Java library reads the table once more, for a commit or after one:
    its loads say which snapshots they want, its refreshes do not (`RESTTableOperations`, 1.12)."""
    return "snapshots" not in exchange.request.query and is_java_client(exchange.request)


def _is_writers_commit(exchange: Exchange) -> bool:
    if exchange.change is None or exchange.table is None or exchange.is_by_committer:
        return False
    return exchange.upstream is not None and exchange.upstream.status in APPLIED


def _peer_of(exchange: Exchange) -> Peer:
    transport = exchange.request.transport
    connection = transport.get_extra_info("peername") if transport else None
    client = client_of(exchange.request)
    return Peer(client if client.is_java else connection, connection)
