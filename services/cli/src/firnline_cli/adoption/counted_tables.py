"""Which tables the planner counts by now, as it shows them: the progress of an adoption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.states import TableState

from firnline_cli._topics import Topics

TOPIC = "table-states"


@dataclass(frozen=True, slots=True)
class CountedTable:
    """`parked` and `failing`: whether any partition is, or waits after a failure."""

    table: TableName
    bytes: int
    parked: bool
    failing: bool

    @property
    def full_name(self) -> tuple[str, ...]:
        """Catalog, namespace levels and name."""
        return (self.table.catalog_path, *self.table.namespace, self.table.name)


class CountedTables:
    """What `table-states` has said. About half a kilobyte for each table."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._tables: dict[str, CountedTable] = {}  # by key
        self._names: dict[tuple[str, ...], str] = {}  # full name -> key

    def __len__(self) -> int:
        return len(self._tables)

    def catch_up(self) -> None:
        """Take in what was shown since. Raises RetryLater."""
        for key, state in self._topics.news(TOPIC, _of_main):
            self._take(key.removesuffix(f"/{MAIN}"), state)

    def of(self, key: str) -> CountedTable | None:
        """The table with this key."""
        return self._tables.get(key)

    def named(self, name: tuple[str, ...]) -> CountedTable | None:
        """The table of that full name, as the planner has heard it last."""
        return self._tables.get(self._names.get(name, ""))

    def _take(self, key: str, state: TableState | None) -> None:
        before = self._tables.pop(key, None)
        if before is not None and self.named(before.full_name) is None:
            self._names.pop(before.full_name)  # else another table has taken the name
        if state is None or state.removed:
            return
        known = known_table(state)
        self._tables[key] = known
        self._names[known.full_name] = key


def _of_main(key: str) -> bool:
    return key.endswith(f"/{MAIN}")


def known_table(state: Any) -> CountedTable:
    """The part of a table's state that matters here."""
    statuses = state.statuses
    holds = state.holds
    deletes = holds.equality_deletes + holds.position_deletes + holds.deletion_vectors
    return CountedTable(
        table=state.table,
        bytes=holds.data.bytes + deletes.bytes,
        parked="parked" in statuses,
        failing="backing_off" in statuses,
    )
