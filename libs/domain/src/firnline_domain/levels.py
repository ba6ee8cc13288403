"""Small files are merged level by level: L0 (fragments) into L1 or L2, L1 (undersized) into L2.

Hysteresis: what a merge leaves below the target takes part again only when it fills a file of the
target size together with what came since. So a byte is written once per level, not once per merge.
Large files take no part in any.
"""

from __future__ import annotations

from firnline_domain.tallies import FileTally, Tally

NONE = Tally()
MOST_BYTES = 16 << 30  # of a merge: a quarter of an hour on two cores, half of an order's deadline


def taken_by_merge(holds: FileTally, target_bytes: int) -> Tally:
    """The files that the next merge takes; nothing where it would change nothing."""
    small = holds.fragments + holds.undersized
    if fills(holds, target_bytes):
        return small
    return holds.fragments if holds.fragments.files > 1 else NONE


def fills(holds: FileTally, target_bytes: int) -> bool:
    """Whether small files make up a file of the target size, and of the undersized two fit into
    one: two of 70 % would come back as one of 100 % and one of 40 %, and again, and again."""
    small, under = holds.fragments + holds.undersized, holds.undersized
    pairs = under.files > 0 and 2 * under.bytes < target_bytes * under.files
    return small.files > 1 and small.bytes >= target_bytes and (under.files == 0 or pairs)


def undersized_debt(holds: FileTally, target_bytes: int) -> int:
    """Undersized files that a merge would take; 0 where they wait for more."""
    files = holds.undersized.files
    return files if files and fills(holds, target_bytes) else 0


def spared_by_merge(holds: FileTally, target_bytes: int) -> int:
    """Files fewer after it."""
    taken = taken_by_merge(holds, target_bytes)
    return max(taken.files - -(-taken.bytes // max(target_bytes, 1)), 0)
