"""Where a commit moved the table's branches, and over which snapshots of its own."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_domain.records.events import SnapshotAdded, TableCommitted


@dataclass(frozen=True)
class BranchMove:
    """A branch after a commit. `snapshot_id` None = the branch was removed.

    `added` are the snapshots of this commit that lead to the new head, oldest first; where it
    is empty the branch moved to a snapshot that was there before (rollback, fast-forward).
    """

    ref: str
    snapshot_id: int | None
    previous_snapshot_id: int | None  # as the writer expected it; None = not said, or new
    added: tuple[SnapshotAdded, ...]


def branch_moves(event: TableCommitted) -> tuple[BranchMove, ...]:
    """Moves in the order of the request; a branch set several times moved once, to the last.

    Tags hold no counters and are left out.
    """
    last = {moved.ref: moved for moved in event.refs if moved.kind != "tag"}
    snapshots = {added.snapshot_id: added for added in event.snapshots}
    return tuple(
        BranchMove(
            moved.ref,
            moved.snapshot_id,
            moved.expected_snapshot_id,
            _chain(moved.snapshot_id, snapshots),
        )
        for moved in last.values()
    )


def _chain(head: int | None, snapshots: dict[int, SnapshotAdded]) -> tuple[SnapshotAdded, ...]:
    """Several results of one table may come in one transaction (H6), each onto the other."""
    chain: list[SnapshotAdded] = []
    while head is not None and head in snapshots and snapshots[head] not in chain:
        chain.append(snapshots[head])
        head = snapshots[head].parent_snapshot_id
    return tuple(reversed(chain))
