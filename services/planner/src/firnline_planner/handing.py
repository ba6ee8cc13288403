"""A table's state, out of one bucket and into another: as it is, with its orders and its pauses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firnline_domain.events import KeptPair, TableHanded
from firnline_domain.identity import MAIN
from firnline_domain.values import replace

from firnline_planner.state import State
from firnline_planner.values import (
    PARTITION,
    PAUSE,
    TABLE,
    partition_from,
    partition_key,
    pause_from,
    pause_key,
    pause_to_bytes,
    table_from,
    table_key,
    table_uuid,
    to_bytes,
)

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
        yield KeptPair(pause_key(uuid), pause_to_bytes(pause))
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
