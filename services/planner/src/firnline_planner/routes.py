"""Where one bucket's tables are, and the records that wait for one to be back (decision 0022)."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.assignments import Route

from firnline_planner.pairs import Pairs
from firnline_planner.staged import Staged
from firnline_planner.values import ROUTE, route_from, route_key, waiting_key


class Routes:
    """Those that are kept, and what is staged of them."""

    def __init__(self, pairs: Pairs, staged: Staged) -> None:
        self._pairs = pairs
        self._staged = staged

    def of(self, uuid: str) -> Route | None:
        """Where a table is; None = where it always was, at home."""
        key = route_key(uuid)
        if key in self._staged:
            staged = self._staged[key]
            return staged if isinstance(staged, Route) else None
        data = self._pairs.get(key)
        return None if data is None else route_from(data)

    def put(self, uuid: str, route: Route) -> None:
        """Keep where a table is."""
        self._staged[route_key(uuid)] = route

    def drop(self, uuid: str) -> None:
        """A table is at home, or no more."""
        self._staged[route_key(uuid)] = None

    def kept(self) -> Iterator[Route]:
        """All, without what is staged."""
        return (route_from(data) for _, data in self._pairs.scan(ROUTE))

    def put_waiting(self, uuid: str, number: int, record: bytes) -> None:
        """Keep a record until its table is back."""
        self._staged[waiting_key(uuid, number)] = record

    def take_waiting(self, uuid: str, count: int) -> list[bytes]:
        """The records kept so, the first one first; they are no longer kept."""
        keys = [waiting_key(uuid, number) for number in range(count)]
        staged = self._staged
        found = [staged[key] if key in staged else self._pairs.get(key) for key in keys]
        staged.update(dict.fromkeys(keys))
        return [one for one in found if isinstance(one, bytes)]
