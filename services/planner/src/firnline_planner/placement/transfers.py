"""How a table goes from its home to another bucket, and back (decision 0022).

Each step is one transaction with the state, and all that goes between buckets stands on
`table-handovers` in the order in which it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from firnline_adapters.records import encode
from firnline_domain.identity import MAIN, bucket_of
from firnline_domain.records.assignments import HANDOVERS, TOPIC, Board, Route, next_epoch
from firnline_domain.records.events import KeptPair, RecordForwarded, TableAssigned, TableHanded
from firnline_domain.records.orders import RecallTable
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from firnline_planner.effects import Output, Step
from firnline_planner.state.bucket_state import State
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


@dataclass
class Turn:
    """One record: what it is handled with, and what it comes to."""

    state: State
    defaults: Thresholds
    now_ms: int
    step: Step


class Transfers:
    """Of one bucket: as the home of tables, and as another one's guest house."""

    def __init__(self, bucket: int, buckets: int, board: Board) -> None:
        self._bucket = bucket
        self._buckets = buckets
        self._board = board

    def home(self, uuid: str) -> int:
        """The bucket of a table's hash."""
        return bucket_of(uuid, self._buckets)

    def is_over(self, uuid: str, epoch: int) -> bool:
        """True of what was said under an assignment that is known not to be the newest."""
        newest = self._board.assigned(uuid)
        return bool(epoch) and newest is not None and newest.epoch > epoch

    def forward(self, uuid: str, record: Any, epoch: int, to: int, turn: Turn) -> None:
        """Send a record on to another bucket."""
        sent = RecordForwarded(uuid, epoch, encode(record))
        turn.step.outputs.append(Output(HANDOVERS, uuid, sent, to))

    def assign_here(self, uuid: str, turn: Turn) -> None:
        """Say that a table is counted here, at home."""
        self._say(uuid, Route(self._next_epoch(uuid, turn)), turn)

    def hand_over(self, uuid: str, to: int, turn: Turn) -> Route:
        """Send a table with all that is known of it to another bucket, which counts it now."""
        route = Route(self._next_epoch(uuid, turn), to)
        self._send(uuid, handed(turn.state, uuid, route.epoch), to, turn)
        self._say(uuid, route, turn)
        return route

    def recall(self, uuid: str, route: Route, wanted_in: int, turn: Turn) -> None:
        """Ask a table back; what comes for it waits until it is here."""
        turn.state.routes.put(uuid, replace(route, recalled_for=wanted_in))
        order = RecallTable(uuid, route.epoch)
        turn.step.outputs.append(Output(HANDOVERS, uuid, order, route.bucket))

    def put_waiting(self, uuid: str, route: Route, record: Any, turn: Turn) -> None:
        """Keep a record for a table that was asked back."""
        turn.state.routes.put_waiting(uuid, route.waiting, encode(record))
        turn.state.routes.put(uuid, replace(route, waiting=route.waiting + 1))

    def _next_epoch(self, uuid: str, turn: Turn) -> int:
        route, said = turn.state.routes.of(uuid), self._board.assigned(uuid)
        last = max(route.epoch if route else 0, said.epoch if said else 0)
        return next_epoch(last, turn.now_ms)

    def _say(self, uuid: str, route: Route, turn: Turn) -> None:
        bucket = self._bucket if route.bucket is None else route.bucket
        turn.state.routes.put(uuid, route)
        said = TableAssigned(uuid, bucket, route.epoch, turn.now_ms)
        turn.step.outputs.append(Output(TOPIC, uuid, said))
        self._board.expect(uuid, bucket, turn.now_ms)

    def _send(self, uuid: str, records: Iterable[TableHanded], to: int, turn: Turn) -> None:
        turn.step.send(Output(HANDOVERS, uuid, one, to) for one in records)

    def received(self, record: TableHanded, turn: Turn) -> list[bytes]:
        """Take in a part of a table: a guest's, or of one that comes home. With the last part of
        that one come the records that have waited for it, the first one first."""
        if self.home(record.table_uuid) == self._bucket:
            return self._returned(record, turn)
        self._taken_in(record, turn)
        return []

    def _taken_in(self, record: TableHanded, turn: Turn) -> None:
        uuid = record.table_uuid
        route = turn.state.routes.of(uuid)
        if self.is_over(uuid, record.epoch) or (route and route.epoch > record.epoch):
            return
        if take_in(turn.state, record):
            turn.state.routes.put(uuid, Route(record.epoch, is_guest=True))

    def _returned(self, record: TableHanded, turn: Turn) -> list[bytes]:
        uuid, state = record.table_uuid, turn.state
        route = state.routes.of(uuid)
        if route is None or route.bucket is None or route.epoch != record.epoch:
            return []
        if not take_in(state, record):
            return []
        if route.recalled_for is None:  # forgotten there
            self._not_assigned(uuid, turn)
            return []
        waiting = state.routes.take_waiting(uuid, route.waiting)
        state.routes.put(uuid, replace(route, bucket=None, recalled_for=None, waiting=0))
        if route.recalled_for != self._bucket:
            self.hand_over(uuid, route.recalled_for, turn)
        else:
            self.assign_here(uuid, turn)
        return waiting

    def recalled(self, order: RecallTable, turn: Turn) -> None:
        """Send a guest home."""
        uuid = order.table_uuid
        route = turn.state.routes.of(uuid)
        if route is None or not route.is_guest or route.epoch != order.epoch:
            return  # it is on its way back
        turn.state.routes.drop(uuid)
        self._send(uuid, handed(turn.state, uuid, order.epoch), self.home(uuid), turn)

    def forgotten(self, uuid: str, turn: Turn) -> None:
        """A table is no more: nothing is assigned, and a guest's home is told."""
        route = turn.state.routes.of(uuid)
        if route is None:
            return
        if not route.is_guest:
            self._not_assigned(uuid, turn)
            return
        turn.state.routes.drop(uuid)
        self._send(uuid, [TableHanded(uuid, route.epoch, ())], self.home(uuid), turn)

    def _not_assigned(self, uuid: str, turn: Turn) -> None:
        turn.state.routes.drop(uuid)
        turn.step.outputs.append(Output(TOPIC, uuid, None))


CHUNK_BYTES = 512 * 1024  # brokers take 1 MB unless told otherwise; a table may have 0.4 MB itself


def handed(state: State, uuid: str, epoch: int) -> list[TableHanded]:
    """All that is kept of a table; it is not kept here any more. One empty chunk where there is
    nothing: the table's new place is to hear of it all the same."""
    chunks = list(_chunks(_pairs(state, uuid))) or [()]
    _drop(state, uuid)
    return [
        TableHanded(uuid, epoch, pairs, number, len(chunks)) for number, pairs in enumerate(chunks)
    ]


def take_in(state: State, record: TableHanded) -> bool:
    """Keep a chunk; True if it was the last one. The table itself is the last pair of all, so
    nothing looks at it before."""
    if record.chunk == 0 and record.pairs:
        _drop(state, record.table_uuid)
    for pair in record.pairs:
        _install(state, record.table_uuid, pair)
    return record.chunk == record.chunks - 1


def _pairs(state: State, uuid: str) -> Iterator[KeptPair]:
    if pause := state.switches.of(uuid):
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


def _drop(state: State, uuid: str) -> None:
    for one in list(state.partitions(uuid, MAIN)):
        state.drop_partition(uuid, MAIN, one.counters.scope)
    if table := state.table(uuid, MAIN):
        state.drop_table(table)
    state.switches.drop(uuid)


def _install(state: State, uuid: str, pair: KeptPair) -> None:
    if pair.key.startswith(PAUSE):
        state.switches.put(uuid, pause_from(pair.value))
    elif pair.key.startswith(PARTITION):
        state.put_partition(uuid, MAIN, partition_from(pair.value))
    elif pair.key.startswith(TABLE) and table_uuid(pair.key) == uuid:
        state.put_table(replace(table_from(pair.value), pause=state.switches.holding(uuid)))
