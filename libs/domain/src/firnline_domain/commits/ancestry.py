"""Find the snapshots behind a head where the catalog does not show its parents.

Some catalogs show the current snapshot alone, without its parent (Nessie). But a commit takes its
manifests from its parent's list and from nowhere else, and every manifest, and every entry in one,
names the snapshot that wrote it, for as long as it is carried on. So whatever the head lists with a
snapshot's id has come from there, commit by commit: that snapshot is an ancestor
(docs/decisions/0014). What has left nothing behind cannot be told from what was rolled back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from firnline_domain.base.values import Value

MAX_HEADS = 32  # that are remembered of one table; 100 ids each are 200 KB


class ListedManifest(Protocol):
    """A row of a manifest list."""

    @property
    def added_snapshot_id(self) -> int | None: ...


class ListedFile(Protocol):
    """An entry of a manifest, of any status: the snapshot that added the file, or took it out."""

    @property
    def snapshot_id(self) -> int | None: ...


def traced_snapshots(
    manifests: Iterable[ListedManifest], files: Iterable[ListedFile] = ()
) -> frozenset[int]:
    """Return the ids of snapshots that a head's list, and some of its manifests, contain something
    of."""
    found = {one.added_snapshot_id for one in manifests} | {one.snapshot_id for one in files}
    return frozenset(number for number in found if number is not None)


class KnownAncestry(Value):
    """Ancestry that the heads of one table have shown, each when it was read: by the head's id, the
    snapshots behind it. An ancestor's ancestors are ancestors, and this never changes, whatever is
    rolled back. So a snapshot whose last file a later commit has taken out is still known."""

    behind: Mapping[int, frozenset[int]] = {}  # the one looked at last at the end

    def ancestors_of(self, seen: frozenset[int]) -> frozenset[int]:
        """Return the ancestors of a head that has traces of `seen`: these, and all that is known to
        be behind them."""
        found, left = set[int](), set(seen)
        while left:
            found |= left
            left = {one for near in left for one in self.behind.get(near, ())} - found
        return frozenset(found)

    def with_head(self, head: int, seen: frozenset[int]) -> KnownAncestry:
        """Return the ancestry with one more head and the snapshots behind it, `seen`. Above
        MAX_HEADS the oldest head is removed."""
        kept = {number: ids for number, ids in self.behind.items() if number != head}
        kept[head] = self.behind.get(head, frozenset()) | seen
        for oldest in list(kept)[:-MAX_HEADS]:
            del kept[oldest]
        return KnownAncestry(kept)
