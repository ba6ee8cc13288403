"""Places to look at: each once, however many doorbells ring for it, and sources in turn.

A source that rings for many places waits for itself and delays another source by one look at a
time. A place that fails rests, and nobody waits for it.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from firnline_listener.core.known_tables import Place
from firnline_listener.core.settlements import Ring

OWN = ""  # the source of looks that the core itself has ordered
FIRST_REST_S = 15.0  # after a failure; doubles
MAX_REST_S = 600.0


@dataclass
class PlaceLook:
    """One look at a place, and the doorbells that wait for it."""

    place: Place
    source: str
    rings: list[Ring] = field(default_factory=list)
    begun_s: float = 0.0

    def settle(self) -> None:
        """Note that the doorbells are dealt with."""
        for ring in self.rings:
            ring.is_done = True
        self.rings.clear()


class LookQueue:
    """Waiting looks at one catalog. Only the core's own thread uses it."""

    def __init__(self) -> None:
        self._waiting: dict[Place, PlaceLook] = {}
        self._turns: dict[str, OrderedDict[Place, None]] = {}  # by source, the next one first
        self._running: dict[Place, PlaceLook] = {}
        self._again: dict[Place, PlaceLook] = {}  # rung for while a look was running
        self._rests: dict[Place, tuple[float, float]] = {}  # not before, and the next rest
        self._later: list[tuple[float, int, Place]] = []  # heap
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> Sequence[PlaceLook]:
        return list(self._running.values())

    def ring(self, place: Place, source: str, ring: Ring | None, now: float) -> None:
        """Order a look. A place that rests is looked at when that is over; the doorbell is dealt
        with."""
        rest = self._rests.get(place)
        if rest is not None and now < rest[0]:
            if ring is not None:
                ring.is_done = True
            return
        if place in self._running:
            look = self._again.setdefault(place, PlaceLook(place, source))
        else:
            look = self._waiting.setdefault(place, PlaceLook(place, source))
            self._turns.setdefault(source, OrderedDict())[place] = None
        if ring is not None:
            look.rings.append(ring)

    def ring_later(self, place: Place, not_before: float) -> None:
        """Order a look that begins at a later time."""
        self._number += 1
        heapq.heappush(self._later, (not_before, self._number, place))

    def next_look(self, now: float) -> PlaceLook | None:
        """Begin a look: of the source whose turn it is. None if nothing waits."""
        while self._later and self._later[0][0] <= now:
            self.ring(heapq.heappop(self._later)[2], OWN, None, now)
        while self._turns:
            source = next(iter(self._turns))
            places = self._turns.pop(source)
            while places:
                place, _ = places.popitem(last=False)
                if (look := self._waiting.pop(place, None)) is None:
                    continue  # begun in another source's turn
                if places:
                    self._turns[source] = places  # behind the others
                look.begun_s = now
                self._running[place] = look
                return look
        return None

    def end_look(self, look: PlaceLook, now: float, failed: bool) -> None:
        """Note that a look is over, and its doorbells are dealt with. After a failure the place
        rests and is looked at again."""
        self._running.pop(look.place, None)
        look.settle()
        again = self._again.pop(look.place, None)
        if failed:
            _, rest_s = self._rests.get(look.place, (0.0, FIRST_REST_S))
            # A place whose looks take long holds a thread for a small share of the time.
            rest_s = max(rest_s, 20 * (now - look.begun_s))
            self._rests[look.place] = (now + rest_s, min(2 * rest_s, MAX_REST_S))
            self.ring_later(look.place, now + rest_s)
            if again is not None:
                again.settle()
            return
        self._rests.pop(look.place, None)
        if again is not None:
            for ring in again.rings:
                self.ring(look.place, again.source, ring, now)
            if not again.rings:
                self.ring(look.place, again.source, None, now)
