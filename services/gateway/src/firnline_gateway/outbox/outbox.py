"""Keep calls in progress, and records that are not yet on the broker.

A call's life: `open_call` while it is upstream; then `settle_call` with the records of an accepted
one (none for a refused one), or `doubt_call` where the answer does not say. Records leave with
`remove_sent`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from firnline_adapters.kafka.dead_letters import DEAD_LETTERS, dead_letter_key
from firnline_adapters.observability import metrics
from firnline_adapters.records.record_sizes import (
    Unencodable,
    Unsendable,
    dead_letter_of_unsent,
    encode_to_fit,
)
from firnline_domain.base.values import Value

from firnline_gateway.rest.call import Call

TABLE_COMMITS = "table-commits"


class Outgoing(Value):
    """A record in the bytes that the broker gets; `key` is the table's."""

    key: str
    payload: bytes
    topic: str = TABLE_COMMITS
    trace: str = ""


def encode_event(event: Any, at_ms: int, last: bool = False, trace: str = "") -> Outgoing:
    """Encode the event in a form that its topic accepts, else a dead letter about it. `last`: there
    is no later reading. Raises Unencodable before that: then the table itself is read."""
    key = event.table.key
    try:
        return Outgoing(key, encode_to_fit(TABLE_COMMITS, key, event), trace=trace)
    except Unsendable as error:
        if isinstance(error, Unencodable) and not last:
            raise
        metrics.count("dead_letters", reason=error.reason)
        letter = dead_letter_of_unsent(TABLE_COMMITS, -1, key, error, "gateway", at_ms)
        key = dead_letter_key(letter)
        return Outgoing(key, encode_to_fit(DEAD_LETTERS, key, letter), DEAD_LETTERS, trace)


@dataclass(frozen=True)
class QueuedRecord:
    """A record on its way to the broker; positions only grow."""

    position: int
    record: Outgoing
    accepted_ms: int


class Outbox(Protocol):
    """Port of an outbox; not thread-safe. Methods of the durable form may block on the disk and
    raise OSError or sqlite3.Error. Nothing is kept before `transaction` ends."""

    def transaction(self) -> AbstractContextManager[object]:
        """Keep all calls inside together or not at all."""

    def open_call(self, call: Call) -> None:
        """Remember a call that is about to go upstream."""

    def holds(self, call_id: str) -> bool:
        """Return True while the call is remembered."""

    def settle_call(self, call_id: str, records: Sequence[Outgoing], now_ms: int) -> None:
        """Forget the call (an unknown one too) and append its records."""

    def doubt_call(self, call: Call) -> None:
        """Keep the call until its outcome was read from its tables."""

    def doubtful_calls(self) -> list[Call]:
        """Return the calls to be read, oldest first; after a restart also every call that was
        open."""

    def read_waiting(self, limit: int) -> list[QueuedRecord]:
        """Return the oldest records, in the order in which their calls were settled."""

    def remove_sent(self, positions: Sequence[int]) -> None:
        """Remove records that are on the broker."""

    def depth(self) -> tuple[int, int | None]:
        """Return the number of waiting records, and since when (ms) the oldest waits."""


class MemoryOutbox:
    """The durable outbox's twin; it also stands in while the disk fails."""

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._doubts: dict[str, Call] = {}
        self._records: list[QueuedRecord] = []
        self._last = 0

    def transaction(self) -> AbstractContextManager[object]:
        """Return a context that does nothing: no operation here can fail half-way."""
        return nullcontext()

    def open_call(self, call: Call) -> None:
        self._open[call.call_id] = call

    def holds(self, call_id: str) -> bool:
        return call_id in self._open or call_id in self._doubts

    def settle_call(self, call_id: str, records: Sequence[Outgoing], now_ms: int) -> None:
        self._open.pop(call_id, None)
        self._doubts.pop(call_id, None)
        for record in records:
            self._last += 1
            self._records.append(QueuedRecord(self._last, record, now_ms))

    def doubt_call(self, call: Call) -> None:
        self._open.pop(call.call_id, None)
        self._doubts[call.call_id] = call

    def doubtful_calls(self) -> list[Call]:
        return sorted(self._doubts.values(), key=lambda call: call.received_ms)

    def read_waiting(self, limit: int) -> list[QueuedRecord]:
        return self._records[:limit]

    def remove_sent(self, positions: Sequence[int]) -> None:
        gone = set(positions)
        self._records = [one for one in self._records if one.position not in gone]

    def depth(self) -> tuple[int, int | None]:
        return len(self._records), self._records[0].accepted_ms if self._records else None
