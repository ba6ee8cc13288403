"""The tables that the planner counts now, as it publishes them: the progress of an adoption."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.pauses import HoldReason
from firnline_domain.records.states import TableState

from firnline_cli.shared.topic_reader import BrokerTopics

TOPIC = "table-states"


class Standing(StrEnum):
    """The treatment of a table that Firnline counts. `words` say how to change it."""

    MAINTAINED = "maintained"
    SHADOW = "shadow"
    PAUSED = "paused"
    OFF = "off"

    @property
    def words(self) -> str:
        """Return the text after the number of tables."""
        return _WORDS[self]


_WORDS = {
    Standing.MAINTAINED: "maintained: rewritten and expired when the policy says so",
    Standing.SHADOW: (
        "in shadow mode: nothing is ordered. Set the table property firnline.shadow=false, or for "
        "all tables start the planner without firnline.shadow in FIRNLINE_DEFAULTS"
    ),
    Standing.PAUSED: "paused: nothing is ordered until `firnline resume`",
    Standing.OFF: "switched off: the table or its namespace has firnline.enabled=false",
}


@dataclass(frozen=True, slots=True)
class CountedTable:
    """A table that the planner counts."""

    table: TableName
    standing: Standing = Standing.MAINTAINED
    head_snapshot_id: int | None = None  # of main, as counted

    @property
    def full_name(self) -> tuple[str, ...]:
        """Return catalog, namespace levels and name."""
        return (self.table.catalog_path, *self.table.namespace, self.table.name)


class CountedTables:
    """The tables of the topic `table-states`."""

    def __init__(self, topics: BrokerTopics) -> None:
        self._topics = topics
        self._tables: dict[str, CountedTable] = {}  # by key
        self._names: dict[tuple[str, ...], str] = {}  # full name -> key

    def catch_up(self) -> None:
        """Read the table states that were published since the last call. Raises RetryLater."""
        for key, state in self._topics.new_records(TOPIC, _is_of_main_branch):
            self._update(key.removesuffix(f"/{MAIN}"), state)

    def find_by_key(self, key: str) -> CountedTable | None:
        """Return the table with this key."""
        return self._tables.get(key)

    def find_table(self, name: tuple[str, ...]) -> CountedTable | None:
        """Return the table of that full name, as the planner published it last."""
        return self._tables.get(self._names.get(name, ""))

    def forget(self, key: str) -> None:
        """Treat the table as not counted, until the planner publishes it again."""
        self._update(key, None)

    def _update(self, key: str, state: TableState | None) -> None:
        before = self._tables.pop(key, None)
        if before is not None and self.find_table(before.full_name) is None:
            self._names.pop(before.full_name, None)  # else another table has, or had, the name
        if state is None or state.removed:
            return
        known = known_table(state)
        self._tables[key] = known
        self._names[known.full_name] = key


def _is_of_main_branch(key: str) -> bool:
    """Return True if the key of a table's state is that of its main branch."""
    return key.endswith(f"/{MAIN}")


def known_table(state: Any) -> CountedTable:
    """Return the part of a table's state that matters for an adoption."""
    return CountedTable(state.table, standing_of(state), state.head_snapshot_id)


def standing_of(state: Any) -> Standing:
    """Return whether a table is off, paused, in shadow mode or maintained, by its settings and its
    hold."""
    set_here = {one.name: one.value for one in state.in_force or ()}
    hold = state.hold.reason if state.hold else ""
    if set_here.get("firnline.enabled") == "false":
        return Standing.OFF
    if hold == HoldReason.PAUSED:
        return Standing.PAUSED
    is_shadow = set_here.get("firnline.shadow") == "true" or hold == HoldReason.SHADOW
    return Standing.SHADOW if is_shadow else Standing.MAINTAINED
