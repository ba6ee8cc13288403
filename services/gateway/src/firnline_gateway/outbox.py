"""What the gateway must not forget: calls under way, and events not yet on the broker.

A call's life: `open` while it is upstream; then `settle` with the events of an accepted one (none
for a refused one), or `doubt` where the answer does not say. Events leave with `sent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from firnline_gateway.calls import Call


@dataclass(frozen=True)
class Waiting:
    """An event on its way to the broker: `payload` is its wire form, positions only grow."""

    position: int
    payload: bytes
    accepted_ms: int


class Outbox(Protocol):
    """Not thread-safe. Methods of the durable form may block on the disk and raise OSError or
    sqlite3.Error; nothing is kept before `transaction` ends."""

    def transaction(self) -> AbstractContextManager[object]:
        """All calls inside are kept together or not at all."""

    def open(self, call: Call) -> None:
        """Remember a call that is about to go upstream."""

    def holds(self, call_id: str) -> bool:
        """True while the call is remembered."""

    def settle(self, call_id: str, payloads: Sequence[bytes], now_ms: int) -> None:
        """Forget the call (an unknown one too) and append its events."""

    def doubt(self, call: Call) -> None:
        """The call's outcome must be read from its tables."""

    def doubts(self) -> list[Call]:
        """Calls to be read, oldest first; after a restart also every call that was open."""

    def waiting(self, limit: int) -> list[Waiting]:
        """The oldest events, in the order of `settle`."""

    def sent(self, positions: Sequence[int]) -> None:
        """The broker has these."""

    def depth(self) -> tuple[int, int | None]:
        """How many events wait, and since when (ms) the oldest does."""


class MemoryOutbox:
    """The durable outbox's twin; it also stands in while the disk fails."""

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._doubts: dict[str, Call] = {}
        self._events: list[Waiting] = []
        self._last = 0

    def transaction(self) -> AbstractContextManager[object]:
        """See `Outbox.transaction`; nothing here can fail half-way."""
        return nullcontext()

    def open(self, call: Call) -> None:
        """See `Outbox.open`."""
        self._open[call.call_id] = call

    def holds(self, call_id: str) -> bool:
        """See `Outbox.holds`."""
        return call_id in self._open or call_id in self._doubts

    def settle(self, call_id: str, payloads: Sequence[bytes], now_ms: int) -> None:
        """See `Outbox.settle`."""
        self._open.pop(call_id, None)
        self._doubts.pop(call_id, None)
        for payload in payloads:
            self._last += 1
            self._events.append(Waiting(self._last, payload, now_ms))

    def doubt(self, call: Call) -> None:
        """See `Outbox.doubt`."""
        self._open.pop(call.call_id, None)
        self._doubts[call.call_id] = call

    def doubts(self) -> list[Call]:
        """See `Outbox.doubts`."""
        return sorted(self._doubts.values(), key=lambda call: call.received_ms)

    def waiting(self, limit: int) -> list[Waiting]:
        """See `Outbox.waiting`."""
        return self._events[:limit]

    def sent(self, positions: Sequence[int]) -> None:
        """See `Outbox.sent`."""
        gone = set(positions)
        self._events = [event for event in self._events if event.position not in gone]

    def depth(self) -> tuple[int, int | None]:
        """See `Outbox.depth`."""
        return len(self._events), self._events[0].accepted_ms if self._events else None
