"""Which tables of a bucket are to be looked at, and which are to be shown."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_domain.counters.work import Table

from firnline_planner.schedule import Schedule
from firnline_planner.state.encoding import look_ms


@dataclass(frozen=True)
class Due:
    """Keys of tables whose time has come."""

    looks: list[bytes]
    shows: list[bytes]


NOTHING = Due([], [])


class Agenda:
    """Two schedules: orders depend on looks, so those never queue behind what people see."""

    def __init__(self) -> None:
        self._looks: Schedule[bytes] = Schedule()
        self._shows: Schedule[bytes] = Schedule()

    def plan_start(self, key: bytes, due_ms: int | None) -> None:
        """Of a table that was not read yet: its look tells the rest (`follow`)."""
        self._looks.plan(key, due_ms)

    def follow(self, key: bytes, table: Table | None) -> None:
        """The table as it is kept now; None = dropped."""
        self._looks.plan(key, None if table is None else look_ms(table))
        self._shows.plan(key, None if table is None else table.work.show_ms)

    def due(self, now_ms: int, looks: int | None, shows: int | None) -> Due:
        """At most so many of each, those that have waited longest; they are taken off."""
        return Due(self._looks.due(now_ms, looks), self._shows.due(now_ms, shows))

    def repeat(self, due: Due, now_ms: int) -> None:
        """What was taken off came to nothing."""
        for key in due.looks:
            self._looks.plan(key, now_ms)
        for key in due.shows:
            self._shows.plan(key, now_ms)
