"""Where a history counts as hidden."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_iceberg.commit.hidden_history import hides_history
from firnline_iceberg.metadata.manifest_reader import ManifestFile
from pyiceberg.table.snapshots import Snapshot


@dataclass
class Shown:
    """What a catalog shows of a table: (id, parent, number, who wrote its manifests)."""

    rows: list[tuple[int, int | None, int, tuple[int, ...]]]
    read: int = field(default=0)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(
            Snapshot.model_validate(
                {
                    "snapshot-id": number,
                    "parent-snapshot-id": parent,
                    "sequence-number": sequence,
                    "timestamp-ms": 0,
                    "manifest-list": str(number),
                }
            )
            for number, parent, sequence, _ in self.rows
        )

    def snapshot(self, number: int) -> Snapshot:
        return next(one for one in self.snapshots if one.snapshot_id == number)

    def ancestors(self, number: int | None) -> Any:
        known = {one.snapshot_id: one for one in self.snapshots}
        while number in known:
            yield known[number]
            number = known[number].parent_snapshot_id

    def manifests_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        makers = next(made for number, _, _, made in self.rows if number == snapshot.snapshot_id)
        return [
            ManifestFile(path=f"{one}", length=1, spec_id=0, added_snapshot_id=one)
            for one in makers
        ]


@pytest.mark.parametrize(
    ("rows", "hidden"),
    [
        ([(1, None, 1, (1,))], False),  # the first one
        ([(1, None, 1, (1,)), (2, 1, 2, (1, 2))], False),
        ([(3, 2, 3, (1, 2, 3))], False),  # its parent is expired
        ([(3, None, 3, (1, 2, 3))], True),  # Nessie
        ([(3, None, 3, (3,))], True),  # the same, after everything was rewritten
        ([(3, None, 0, (1, 3))], True),  # v1 gives no numbers
        # CREATE OR REPLACE: what was there before is retained, and no ancestor
        ([(1, None, 1, (1,)), (2, None, 2, (2,))], False),
    ],
)
def test_a_history_is_hidden_where_the_oldest_shown_is_not_the_first(
    rows: list[tuple[int, int | None, int, tuple[int, ...]]], hidden: bool
) -> None:
    table: Any = Shown(rows)
    assert hides_history(table, rows[-1][0]) is hidden
