"""Which table a name means, remembered for a while: reports of readers name no uuid."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from firnline_domain.identity import TableName
from firnline_domain.records.events import TableLayout
from firnline_domain.values import Value

from firnline_gateway.layouts import Loaded

Names = tuple[str, ...]  # as `calls.table_names` gives them
MOST_NAMES = 100_000  # 80 MB of them
KEPT_S = 600.0  # by then the name may mean another table: dropped and created through others
UNKNOWN_S = 60.0  # a table that could not be read is asked for again


class Identity(Value):
    """A table, and how its files were laid out when it was read; None = it did not say."""

    table: TableName
    layout: TableLayout | None = None


class Identities:
    """The newest `most` names that were asked for."""

    def __init__(self, most: int = MOST_NAMES, now_s: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._now_s = now_s
        self._known: OrderedDict[Names, tuple[Identity | None, float]] = OrderedDict()

    def __contains__(self, names: Names) -> bool:
        """True if it is known which table that is, or that nobody can say so."""
        known = self._known.get(names)
        if known is not None and known[1] <= self._now_s():
            del self._known[names]
            return False
        return known is not None

    def __getitem__(self, names: Names) -> Identity | None:
        """The table of names that are known; None = nobody can say."""
        self._known.move_to_end(names)
        return self._known[names][0]

    def learn(self, names: Names, loaded: Loaded | None) -> None:
        """These names mean that table; None = it could not be read."""
        found = None
        if loaded is not None:
            found = Identity(TableName(loaded.uuid, names[1:-1], names[-1]), loaded.layout)
        until_s = self._now_s() + (UNKNOWN_S if found is None else KEPT_S)
        self._known[names] = found, until_s
        self._known.move_to_end(names)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self, names: Names) -> None:
        """They mean another table from now on, or none."""
        self._known.pop(names, None)
