"""Move a table from its default bucket to another bucket, and back (decision 0022).

Each step is one transaction with the state, and all that goes between buckets is on
`table-handovers` in the order in which it was sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from firnline_adapters.records.codec import encode_record
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import MAIN, bucket_of
from firnline_domain.records.assignments import HANDOVERS, TOPIC, Board, BucketRoute, next_epoch
from firnline_domain.records.events import KeptPair, RecordForwarded, TableAssigned, TableHanded
from firnline_domain.records.orders import RecallTable

from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.effects import Output
from firnline_planner.state.encoding import (
    PARTITION,
    PAUSE,
    TABLE,
    UnknownVersion,
    UnreadableValue,
    partition_from,
    partition_key,
    pause_from,
    pause_key,
    ref_key,
    table_from,
    table_key_in,
    to_bytes,
)
from firnline_planner.state.table_context import TableContext


class Transfers:
    """Transfers of one bucket: as the default bucket of its tables, and as the assigned bucket of
    others."""

    def __init__(self, bucket: int, board: Board) -> None:
        self._bucket = bucket
        self._board = board

    def default_bucket(self, table_key: str) -> int:
        """Return the default bucket of a table, by its hash."""
        return bucket_of(table_key, self._board.homes)

    def is_over(self, table_key: str, epoch: int) -> bool:
        """Return True for a record of an assignment that is known not to be the newest."""
        newest = self._board.assignment_of(table_key)
        return bool(epoch) and newest is not None and newest.epoch > epoch

    def forward_record(
        self, table_key: str, record: Any, epoch: int, to: int, context: TableContext
    ) -> None:
        """Send a record on to another bucket."""
        sent = RecordForwarded(table_key, epoch, encode_record(record))
        context.effects.outputs.append(Output(HANDOVERS, table_key, sent, to))

    def assign_here(self, table_key: str, reason: str, context: TableContext) -> None:
        """Announce that a table is counted here, in its default bucket."""
        self._announce_assignment(
            table_key, BucketRoute(self._next_epoch(table_key, context)), reason, context
        )

    def hand_over(self, table_key: str, to: int, reason: str, context: TableContext) -> BucketRoute:
        """Send a table with all that is known of it to another bucket, which counts it now."""
        route = BucketRoute(self._next_epoch(table_key, context), to)
        self._send_chunks(
            table_key, table_chunks(context.state, table_key, route.epoch), to, context
        )
        self._announce_assignment(table_key, route, reason, context)
        return route

    def recall_table(
        self, table_key: str, route: BucketRoute, wanted_in: int, reason: str, context: TableContext
    ) -> None:
        """Request a table back; its records wait until it has returned."""
        context.state.put_route(table_key, replace(route, recalled_for=wanted_in, reason=reason))
        order = RecallTable(table_key, route.epoch)
        context.effects.outputs.append(Output(HANDOVERS, table_key, order, route.bucket))

    def put_waiting(
        self, table_key: str, route: BucketRoute, record: Any, context: TableContext
    ) -> None:
        """Keep a record for a table that was asked back."""
        context.state.put_waiting(table_key, route.waiting, encode_record(record))
        context.state.put_route(table_key, replace(route, waiting=route.waiting + 1))

    def _next_epoch(self, table_key: str, context: TableContext) -> int:
        route, said = context.state.route(table_key), self._board.assignment_of(table_key)
        last = max(route.epoch if route else 0, said.epoch if said else 0)
        return next_epoch(last, context.now_ms)

    def _announce_assignment(
        self, table_key: str, route: BucketRoute, reason: str, context: TableContext
    ) -> None:
        bucket = self._bucket if route.bucket is None else route.bucket
        context.state.put_route(table_key, route)
        said = TableAssigned(table_key, bucket, route.epoch, context.now_ms, reason)
        context.effects.outputs.append(Output(TOPIC, table_key, said))
        self._board.expect_table(table_key, bucket, context.now_ms)

    def _send_chunks(
        self, table_key: str, records: Iterable[TableHanded], to: int, context: TableContext
    ) -> None:
        context.effects.add_outputs(Output(HANDOVERS, table_key, one, to) for one in records)

    def receive_chunk(self, record: TableHanded, context: TableContext) -> list[bytes]:
        """Install a chunk of a table that is assigned to this bucket or that returns to its default
        bucket. With the last chunk of a returned table, return the records that have waited for it,
        in order."""
        if self.default_bucket(record.table_key) == self._bucket:
            return self._install_returned(record, context)
        self._install_assigned(record, context)
        return []

    def _install_assigned(self, record: TableHanded, context: TableContext) -> None:
        table_key = record.table_key
        route = context.state.route(table_key)
        if self.is_over(table_key, record.epoch) or (route and route.epoch > record.epoch):
            return
        if install_chunk(context.state, record):
            context.state.put_route(table_key, BucketRoute(record.epoch, is_assigned_here=True))

    def _install_returned(self, record: TableHanded, context: TableContext) -> list[bytes]:
        table_key, state = record.table_key, context.state
        route = state.route(table_key)
        if route is None or route.bucket is None or route.epoch != record.epoch:
            return []
        if not install_chunk(state, record):
            return []
        if route.recalled_for is None:  # forgotten there
            self._withdraw_assignment(table_key, context)
            return []
        waiting = state.take_waiting(table_key, route.waiting)
        state.put_route(table_key, BucketRoute(route.epoch))
        if route.recalled_for != self._bucket:
            self.hand_over(table_key, route.recalled_for, route.reason, context)
        else:
            self.assign_here(table_key, route.reason, context)
        return waiting

    def return_table(self, order: RecallTable, context: TableContext) -> None:
        """Send a table that is assigned to this bucket to its default bucket."""
        table_key = order.table_key
        route = context.state.route(table_key)
        if route is None or not route.is_assigned_here or route.epoch != order.epoch:
            return  # it is on its way back
        context.state.drop_route(table_key)
        self._send_chunks(
            table_key,
            table_chunks(context.state, table_key, order.epoch),
            self.default_bucket(table_key),
            context,
        )

    def end_assignment(self, table_key: str, context: TableContext) -> None:
        """End the assignment of a removed table and notify its default bucket."""
        route = context.state.route(table_key)
        if route is None:
            return
        if not route.is_assigned_here:
            self._withdraw_assignment(table_key, context)
            return
        context.state.drop_route(table_key)
        self._send_chunks(
            table_key,
            [TableHanded(table_key, route.epoch, ())],
            self.default_bucket(table_key),
            context,
        )

    def _withdraw_assignment(self, table_key: str, context: TableContext) -> None:
        context.state.drop_route(table_key)
        context.effects.outputs.append(Output(TOPIC, table_key, None))


CHUNK_BYTES = 512 * 1024  # brokers take 1 MB by default; a table may have 0.4 MB itself


def table_chunks(state: BucketState, table_key: str, epoch: int) -> list[TableHanded]:
    """Remove a table's state from this bucket and return it in chunks. One empty chunk without a
    state: the table's new bucket still needs a record."""
    chunks = list(_split_chunks(_state_pairs(state, table_key))) or [()]
    _drop_state(state, table_key)
    return [
        TableHanded(table_key, epoch, pairs, number, len(chunks))
        for number, pairs in enumerate(chunks)
    ]


def install_chunk(state: BucketState, record: TableHanded) -> bool:
    """Keep a chunk; True if it was the last one. The table itself is the last pair of all, so
    nothing finds it before. Raises PoisonousRecord for a chunk that this version cannot read: the
    table is requested again with its next record, and counted anew."""
    if record.chunk == 0 and record.pairs:
        _drop_state(state, record.table_key)
    try:
        for pair in record.pairs:
            _install_pair(state, record.table_key, pair)
    except (UnknownVersion, UnreadableValue, msgspec.MsgspecError) as error:
        text = f"{record.table_key} is counted anew, and a pause of it must be set again: {error}"
        raise PoisonousRecord("unreadable_handover", text) from error
    return record.chunk == record.chunks - 1


def _state_pairs(state: BucketState, table_key: str) -> Iterator[KeptPair]:
    if pause := state.pause_of(table_key):
        yield KeptPair(pause_key(table_key), to_bytes(pause))
    for one in state.partitions(table_key, MAIN):
        yield KeptPair(partition_key(table_key, MAIN, one.counters.scope), to_bytes(one))
    if table := state.table(table_key, MAIN):
        yield KeptPair(ref_key(table_key, MAIN), to_bytes(table))


def _split_chunks(pairs: Iterable[KeptPair]) -> Iterator[tuple[KeptPair, ...]]:
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


def _drop_state(state: BucketState, table_key: str) -> None:
    for one in list(state.partitions(table_key, MAIN)):
        state.drop_partition(table_key, MAIN, one.counters.scope)
    if table := state.table(table_key, MAIN):
        state.drop_table(table)
    state.put_pause(table_key, None)


def _install_pair(state: BucketState, table_key: str, pair: KeptPair) -> None:
    if pair.key.startswith(PAUSE):
        state.put_pause(table_key, pause_from(pair.value))
    elif pair.key.startswith(PARTITION):
        state.put_partition(table_key, MAIN, partition_from(pair.value))
    elif pair.key.startswith(TABLE) and table_key_in(pair.key) == table_key:
        state.put_table(replace(table_from(pair.value), pause=state.pause_in_force(table_key)))
