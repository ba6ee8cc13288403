"""The sweep rings for every table and every listing at times of its own, and finds what nobody has
told: a busy table is asked often, a dormant one rarely."""

from __future__ import annotations

import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from firnline_adapters import clock
from firnline_adapters.observability import metrics

from firnline_listener.core.known_tables import KnownTables, Place, place_of
from firnline_listener.port import Doorbell

CHANGED_SHARE = 0.1  # of the time since a table's last change: then it is asked again
LISTING_SHARE = 0.1  # of the calls, for listings
CALLS_OF_LISTING = 2  # tables, and namespaces below
JITTER = 0.1
MAX_OPEN = 100  # doorbells that are not dealt with: the order of all others stays here
PLAN_S = 1.0  # from one search for tables that are known since to the next
WAIT_S = 0.1


@dataclass(frozen=True)
class SweepTimes:
    """How often one catalog is asked. `shortest_s`, `longest_s`: for a table. `listing_s`: for a
    listing, at the least."""

    calls_per_minute: float
    shortest_s: float = 10.0
    longest_s: float = 3600.0
    listing_s: float = 15.0

    def table_s(self, unchanged_s: float) -> float:
        """Return the time between two looks at a table."""
        return min(max(unchanged_s * CHANGED_SHARE, self.shortest_s), self.longest_s)

    def listings_s(self, namespaces: int) -> float:
        """Return the time between two looks at a listing of so many."""
        calls = namespaces * CALLS_OF_LISTING
        return max(calls * 60 / (self.calls_per_minute * LISTING_SHARE), self.listing_s)


class Sweep:
    """A `DoorbellSource` for one catalog. What it rings for is planned anew at once, and again when
    the answer is known."""

    def __init__(
        self,
        catalog: str,
        prefixes: Sequence[str],
        known: KnownTables,
        times: SweepTimes,
        is_mine: Callable[[Place], bool] = lambda _: True,
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = clock.now_ms,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Sweep the tables and listings that are `is_mine`. `prefixes`: of the catalog besides its
        own. `jitter`: returns a number in [0, 1)."""
        self._catalog, self._known, self._times = catalog, known, times
        self._roots = [Place("/".join(filter(None, (catalog, one)))) for one in ("", *prefixes)]
        self._is_mine = is_mine
        self._now, self._now_ms = now, now_ms
        self._sleep, self._jitter = sleep, jitter
        self._due: list[tuple[float, int, str | Place]] = []  # keys of tables, and listings
        self._planned: dict[str | Place, float] = {}  # when each is due; other entries are void
        self._open: deque[tuple[int, str | Place]] = deque()  # doorbells by number
        self._number = 0
        self._plan_at = float("-inf")

    def poll(self, timeout_s: float) -> Sequence[Doorbell]:
        if self._now() >= self._plan_at:
            self._plan_at = self._now() + PLAN_S
            self._plan_new()
        found = list(self._take_due())
        late_s = max(self._now() - self._due[0][0], 0.0) if self._due else 0.0
        metrics.gauge("sweep_late_seconds", late_s, catalog=self._catalog)
        if not found:
            self._sleep(min(timeout_s, WAIT_S))
        return found

    def settle(self, position: int) -> None:
        while self._open and self._open[0][0] <= position:
            _, one = self._open.popleft()
            after_s = self._interval_s(one)  # less than before if a change was found
            if self._now() + after_s < self._planned.get(one, 0.0):
                self._plan(one, after_s)

    def close(self) -> None:
        """Hold nothing."""

    def _plan_new(self) -> None:
        listings = {*self._roots, *filter(self._is_of_catalog, self._known.namespaces)}
        tables = self._known.by_key.keys() - self._planned.keys()
        known = {key: self._known.by_key.get(key) for key in tables}
        ours = {key for key, one in known.items() if one and one.table.catalog == self._catalog}
        for one in (listings - self._planned.keys()) | ours:
            after_s = 0.0 if one in self._roots else self._jitter() * self._interval_s(one)
            self._plan(one, after_s)

    def _is_of_catalog(self, place: Place) -> bool:
        return place.catalog.partition("/")[0] == self._catalog

    def _take_due(self) -> Iterator[Doorbell]:
        while self._due and self._due[0][0] <= self._now() and len(self._open) < MAX_OPEN:
            due, _, one = heapq.heappop(self._due)
            if self._planned.get(one) != due:
                continue  # planned anew since
            place = self._find_place(one)
            if place is None:
                del self._planned[one]
                continue
            self._plan(one, self._interval_s(one) * (1 + JITTER * (2 * self._jitter() - 1)))
            if self._is_mine(place):
                self._open.append((self._number, one))
                yield Doorbell(place.catalog, place.namespace, place.name, position=self._number)

    def _find_place(self, one: str | Place) -> Place | None:
        if isinstance(one, Place):
            return one if one in self._known.namespaces or one in self._roots else None
        known = self._known.by_key.get(one)
        return None if known is None else place_of(known.table)

    def _interval_s(self, one: str | Place) -> float:
        if isinstance(one, Place):
            return self._times.listings_s(len(self._known.namespaces) + 1)
        known = self._known.by_key.get(one)
        changed_ms = self._now_ms() if known is None else known.changed_ms
        return self._times.table_s((self._now_ms() - changed_ms) / 1000)

    def _plan(self, one: str | Place, after_s: float) -> None:
        self._number += 1
        self._planned[one] = self._now() + after_s
        heapq.heappush(self._due, (self._planned[one], self._number, one))
