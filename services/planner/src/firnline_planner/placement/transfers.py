"""How a table goes from its home to another bucket, and back (decision 0022).

Each step is one transaction with the state, and all that goes between buckets is on
`table-handovers` in the order in which it was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from firnline_adapters.records import encode
from firnline_domain.identity import MAIN, bucket_of
from firnline_domain.records.assignments import HANDOVERS, TOPIC, Board, Route, next_epoch
from firnline_domain.records.events import KeptPair, RecordForwarded, TableAssigned, TableHanded
from firnline_domain.records.orders import RecallTable
from firnline_domain.values import replace

from firnline_planner.effects import Output
from firnline_planner.reconcile.context import TableContext
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.encoding import (
    PARTITION,
    PAUSE,
    TABLE,
    partition_from,
    partition_key,
    pause_from,
    pause_key,
    table_from,
    table_key,
    table_uuid,
    to_bytes,
)


class Transfers:
    """Of one bucket: as the home of tables, and as the assigned bucket of others'."""

    def __init__(self, bucket: int, board: Board) -> None:
        self._bucket = bucket
        self._board = board

    def home(self, uuid: str) -> int:
        """The bucket of a table's hash."""
        return bucket_of(uuid, self._board.homes)

    def is_over(self, uuid: str, epoch: int) -> bool:
        """True of what was said under an assignment that is known not to be the newest."""
        newest = self._board.assigned(uuid)
        return bool(epoch) and newest is not None and newest.epoch > epoch

    def forward(self, uuid: str, record: Any, epoch: int, to: int, context: TableContext) -> None:
        """Send a record on to another bucket."""
        sent = RecordForwarded(uuid, epoch, encode(record))
        context.effects.outputs.append(Output(HANDOVERS, uuid, sent, to))

    def assign_here(self, uuid: str, reason: str, context: TableContext) -> None:
        """Say that a table is counted here, at home."""
        self._announce(uuid, Route(self._next_epoch(uuid, context)), reason, context)

    def hand_over(self, uuid: str, to: int, reason: str, context: TableContext) -> Route:
        """Send a table with all that is known of it to another bucket, which counts it now."""
        route = Route(self._next_epoch(uuid, context), to)
        self._send(uuid, table_chunks(context.state, uuid, route.epoch), to, context)
        self._announce(uuid, route, reason, context)
        return route

    def recall(
        self, uuid: str, route: Route, wanted_in: int, reason: str, context: TableContext
    ) -> None:
        """Ask a table back; what comes for it waits until it is here."""
        context.state.put_route(uuid, replace(route, recalled_for=wanted_in, reason=reason))
        order = RecallTable(uuid, route.epoch)
        context.effects.outputs.append(Output(HANDOVERS, uuid, order, route.bucket))

    def put_waiting(self, uuid: str, route: Route, record: Any, context: TableContext) -> None:
        """Keep a record for a table that was asked back."""
        context.state.put_waiting(uuid, route.waiting, encode(record))
        context.state.put_route(uuid, replace(route, waiting=route.waiting + 1))

    def _next_epoch(self, uuid: str, context: TableContext) -> int:
        route, said = context.state.route(uuid), self._board.assigned(uuid)
        last = max(route.epoch if route else 0, said.epoch if said else 0)
        return next_epoch(last, context.now_ms)

    def _announce(self, uuid: str, route: Route, reason: str, context: TableContext) -> None:
        bucket = self._bucket if route.bucket is None else route.bucket
        context.state.put_route(uuid, route)
        said = TableAssigned(uuid, bucket, route.epoch, context.now_ms, reason)
        context.effects.outputs.append(Output(TOPIC, uuid, said))
        self._board.expect(uuid, bucket, context.now_ms)

    def _send(
        self, uuid: str, records: Iterable[TableHanded], to: int, context: TableContext
    ) -> None:
        context.effects.send(Output(HANDOVERS, uuid, one, to) for one in records)

    def received(self, record: TableHanded, context: TableContext) -> list[bytes]:
        """Install a chunk of a table: of one that is assigned to this bucket, or of one that comes
        home. With the last chunk of that one come the records that have waited for it, the first
        one first."""
        if self.home(record.table_uuid) == self._bucket:
            return self._install_returned(record, context)
        self._install_assigned(record, context)
        return []

    def _install_assigned(self, record: TableHanded, context: TableContext) -> None:
        uuid = record.table_uuid
        route = context.state.route(uuid)
        if self.is_over(uuid, record.epoch) or (route and route.epoch > record.epoch):
            return
        if install_chunk(context.state, record):
            context.state.put_route(uuid, Route(record.epoch, is_assigned_here=True))

    def _install_returned(self, record: TableHanded, context: TableContext) -> list[bytes]:
        uuid, state = record.table_uuid, context.state
        route = state.route(uuid)
        if route is None or route.bucket is None or route.epoch != record.epoch:
            return []
        if not install_chunk(state, record):
            return []
        if route.recalled_for is None:  # forgotten there
            self._withdraw(uuid, context)
            return []
        waiting = state.take_waiting(uuid, route.waiting)
        state.put_route(uuid, Route(route.epoch))
        if route.recalled_for != self._bucket:
            self.hand_over(uuid, route.recalled_for, route.reason, context)
        else:
            self.assign_here(uuid, route.reason, context)
        return waiting

    def recalled(self, order: RecallTable, context: TableContext) -> None:
        """Send a table that is assigned to this bucket home."""
        uuid = order.table_uuid
        route = context.state.route(uuid)
        if route is None or not route.is_assigned_here or route.epoch != order.epoch:
            return  # it is on its way back
        context.state.drop_route(uuid)
        self._send(uuid, table_chunks(context.state, uuid, order.epoch), self.home(uuid), context)

    def forgotten(self, uuid: str, context: TableContext) -> None:
        """A table is no more: its assignment ends, and its home hears of it."""
        route = context.state.route(uuid)
        if route is None:
            return
        if not route.is_assigned_here:
            self._withdraw(uuid, context)
            return
        context.state.drop_route(uuid)
        self._send(uuid, [TableHanded(uuid, route.epoch, ())], self.home(uuid), context)

    def _withdraw(self, uuid: str, context: TableContext) -> None:
        context.state.drop_route(uuid)
        context.effects.outputs.append(Output(TOPIC, uuid, None))


CHUNK_BYTES = 512 * 1024  # brokers take 1 MB by default; a table may have 0.4 MB itself


def table_chunks(state: BucketState, uuid: str, epoch: int) -> list[TableHanded]:
    """All that is kept of a table; it is not kept here any more. One empty chunk where there is
    nothing: the table's new bucket is to hear of it all the same."""
    chunks = list(_chunks(_pairs(state, uuid))) or [()]
    _drop(state, uuid)
    return [
        TableHanded(uuid, epoch, pairs, number, len(chunks)) for number, pairs in enumerate(chunks)
    ]


def install_chunk(state: BucketState, record: TableHanded) -> bool:
    """Keep a chunk; True if it was the last one. The table itself is the last pair of all, so
    nothing finds it before."""
    if record.chunk == 0 and record.pairs:
        _drop(state, record.table_uuid)
    for pair in record.pairs:
        _install(state, record.table_uuid, pair)
    return record.chunk == record.chunks - 1


def _pairs(state: BucketState, uuid: str) -> Iterator[KeptPair]:
    if pause := state.pause_of(uuid):
        yield KeptPair(pause_key(uuid), to_bytes(pause))
    for one in state.partitions(uuid, MAIN):
        yield KeptPair(partition_key(uuid, MAIN, one.counters.scope), to_bytes(one))
    if table := state.table(uuid, MAIN):
        yield KeptPair(table_key(uuid, MAIN), to_bytes(table))


def _chunks(pairs: Iterable[KeptPair]) -> Iterator[tuple[KeptPair, ...]]:
    chunk: list[KeptPair] = []
    size = 0
    for pair in pairs:
        if chunk and size + len(pair.value) > CHUNK_BYTES:
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(pair)
        size += len(pair.key) + len(pair.value)
    if chunk:
        yield tuple(chunk)


def _drop(state: BucketState, uuid: str) -> None:
    for one in list(state.partitions(uuid, MAIN)):
        state.drop_partition(uuid, MAIN, one.counters.scope)
    if table := state.table(uuid, MAIN):
        state.drop_table(table)
    state.put_pause(uuid, None)


def _install(state: BucketState, uuid: str, pair: KeptPair) -> None:
    if pair.key.startswith(PAUSE):
        state.put_pause(uuid, pause_from(pair.value))
    elif pair.key.startswith(PARTITION):
        state.put_partition(uuid, MAIN, partition_from(pair.value))
    elif pair.key.startswith(TABLE) and table_uuid(pair.key) == uuid:
        state.put_table(replace(table_from(pair.value), pause=state.pause_in_force(uuid)))
