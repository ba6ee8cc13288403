"""Recent snapshots, each with its parent, as bytes.

A planner reads a table from its state for each commit of a fleet that does not fit into memory: 64
snapshots as numbers are 64 objects to make and to drop again, as bytes they are one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from firnline_domain.base.values import Value

SNAPSHOTS = 64  # redeliveries are seconds old; an older duplicate costs one resync
_ID = struct.Struct("<q")
_MOST_BYTES = (SNAPSHOTS + 1) * _ID.size
# No catalog gives these out: ids are positive, and -1 is "no snapshot" (spec, "Table Metadata").
_FORK, _NO_PARENT = -(2**63), 1 - 2**63
_FORK_BYTES = _ID.pack(_FORK)


class Lineage(Value):
    """The newest snapshots, in the order in which they came.

    `chain` is ids of 8 bytes, little-endian: the oldest one's parent, the oldest, ..., the newest.
    A snapshot's parent is the one before it; where it is not, a mark and the parent come first, so
    with forks there is room for fewer than SNAPSHOTS. What is cut off takes no notice of marks.
    """

    chain: bytes = b""

    @staticmethod
    def from_links(links: Iterable[tuple[int, int | None]]) -> Lineage:
        """Build a lineage of snapshots with their parents, the newest last."""
        lineage = Lineage()
        for snapshot_id, parent_id in links:
            lineage = lineage.followed_by(snapshot_id, parent_id)
        return lineage

    def has_snapshot(self, snapshot_id: int) -> bool:
        """Return True if the snapshot is one of them; as another's parent alone it is not."""
        wanted, size = _ID.pack(snapshot_id), _ID.size
        at = self.chain.find(wanted, size)
        while at >= 0 and (at % size or self.chain.startswith(_FORK_BYTES, at - size)):
            at = self.chain.find(wanted, at + 1)
        return at >= 0

    def followed_by(self, snapshot_id: int, parent_id: int | None) -> Lineage:
        """Add one more snapshot; the oldest may have to go for it."""
        parent = _ID.pack(_NO_PARENT if parent_id is None else parent_id)
        added = _ID.pack(snapshot_id)
        if not self.chain.endswith(parent):
            added = (_FORK_BYTES if self.chain else b"") + parent + added
        return Lineage((self.chain + added)[-_MOST_BYTES:])

    def parent_by_id(self) -> dict[int, int | None]:
        """Return snapshot id -> parent id for the snapshots in the lineage; None = the snapshot has
        no parent."""
        parents: dict[int, int | None] = {}
        before = _FORK
        for (one,) in _ID.iter_unpack(self.chain):
            if before != _FORK and one != _FORK:
                parents[one] = None if before == _NO_PARENT else before
            before = one
        return parents
