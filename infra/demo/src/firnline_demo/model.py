"""The rows that the tables should contain: plain Python next to the real writers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Row = tuple[object, ...]


@dataclass
class TableModel:
    """The rows of one table that its writer intends; a writer changes it after its commit."""

    name: str
    key: Callable[[Row], Row]
    rows: dict[Row, Counter[Row]] = field(default_factory=dict)
    commits: int = 0
    retries: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows, next to any that have their key."""
        for row in rows:
            self.rows.setdefault(self.key(row), Counter())[row] += 1

    def upsert(self, rows: Iterable[Row]) -> None:
        """Replace the rows that have the same keys; NULL is a key like any other."""
        for row in rows:
            self.rows[self.key(row)] = Counter([row])

    def delete_where(self, doomed: Callable[[Row], bool]) -> int:
        """Remove the rows that match the predicate. Return their number."""
        gone = 0
        for key, held in list(self.rows.items()):
            kept = Counter({row: n for row, n in held.items() if not doomed(row)})
            gone += held.total() - kept.total()
            if kept:
                self.rows[key] = kept
            else:
                del self.rows[key]
        return gone

    def all_rows(self) -> Counter[Row]:
        """Return every row with its count in the table."""
        found: Counter[Row] = Counter()
        for held in self.rows.values():
            found.update(held)
        return found


@dataclass(frozen=True)
class RowDifference:
    """A difference between the rows read and the intended rows."""

    lost: int
    resurrected: int
    examples: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether both are the same."""
        return not self.lost and not self.resurrected


def compare_rows(meant: Counter[Row], read: Counter[Row]) -> RowDifference:
    """Compare rows. Rows that are intended and not read are lost; rows that are read and not
    intended are resurrected."""
    lost, extra = meant - read, read - meant
    examples = [f"lost {row}" for row in list(lost)[:3]]
    examples += [f"resurrected {row}" for row in list(extra)[:3]]
    return RowDifference(lost.total(), extra.total(), tuple(examples))
