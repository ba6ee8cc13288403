"""What ought to be visible: a model of rows that knows no file, no sequence number and no product.

Every row that was ever written has a version of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

MAIN = "main"
Place = tuple[int, str]  # spec id, partition text: where a row lies for ever
Rows = frozenset["Row"]


class Row(NamedTuple):
    """One row of (id, v, p)."""

    version: int
    key: int
    p: str
    place: Place

    @property
    def shown(self) -> tuple[int, int, str]:
        """As a reader sees it."""
        return self.key, self.version, self.p


@dataclass(frozen=True)
class Model:
    """Visible rows of every branch, and of every snapshot that was ever made."""

    refs: dict[str, Rows] = field(default_factory=dict)
    at: dict[int, Rows] = field(default_factory=dict)

    def moved(self, ref: str, snapshot_id: int, rows: Iterable[Row]) -> Model:
        """A branch shows other rows; snapshot ids are only names for states to come back to."""
        seen = frozenset(rows)
        return replace(self, refs={**self.refs, ref: seen}, at={**self.at, snapshot_id: seen})


def without_keys(rows: Rows, keys: Iterable[int], place: Place) -> Rows:
    """After an equality delete: of one partition, or of all where its spec has none."""
    everywhere = place[1] == "[]"
    dead = set(keys)
    return frozenset(
        row for row in rows if not (row.key in dead and (everywhere or row.place == place))
    )
