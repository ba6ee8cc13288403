"""The switches of one bucket's tables, and the whole fleet's: pauses, pulled or let go."""

from __future__ import annotations

from firnline_domain.holds import Pause

from firnline_planner.pairs import Pairs
from firnline_planner.staged import Staged, Switch
from firnline_planner.values import PAUSE, pause_from, pause_key, pause_to_bytes


class Switches:
    """Those that are kept, read once, and what is staged of them."""

    def __init__(self, pairs: Pairs, staged: Staged) -> None:
        self._pairs = pairs
        self._staged = staged
        self._kept = {key: pause_from(data) for key, data in pairs.scan(PAUSE)}

    def holding(self, uuid: str) -> Pause | None:
        """What holds for a table, whether or not it is known: the fleet's switch, or its own."""
        return self.of(None) or self.of(uuid)

    def of(self, uuid: str | None) -> Pause | None:
        """A table's own pause, or (None) the fleet's."""
        if not self._kept and not self._staged:
            return None
        key = pause_key(uuid)
        if key not in self._staged:
            return self._kept.get(key)
        staged = self._staged[key]
        return staged.pause if isinstance(staged, Switch) else None

    def put(self, uuid: str | None, pause: Pause | None) -> None:
        """Pull a table's switch (or, None, the fleet's), or let go of it.

        Never deleted: the fleet's key is in every partition, and Faust deletes a key where it has
        seen it last (its index knows one partition of a key).
        """
        self._staged[pause_key(uuid)] = Switch(pause)

    def drop(self, uuid: str) -> None:
        """Say nothing of a table's own pause any more."""
        self._staged[pause_key(uuid)] = None

    def keep(self, key: bytes, switch: Switch) -> None:
        """One is final."""
        self._kept[key] = switch.pause
        self._pairs.put(key, pause_to_bytes(switch.pause))

    def forget(self, key: bytes) -> None:
        """Of a key that is no longer in the state."""
        self._kept.pop(key, None)
