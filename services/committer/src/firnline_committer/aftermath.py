"""The second protocol of iceberg-rules 2.4 (a): what did the commit really remove?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firnline_domain.swaps import Swap
from firnline_iceberg.heads import deletes_removed_by
from firnline_iceberg.tables import LoadedTable


def needed_but_removed(
    table: LoadedTable, snapshot_ids: Iterable[int], swaps: Sequence[Swap]
) -> str | None:
    """Path of an equality delete above the stamp of outputs, or of converted files, that it applies
    to, and which one of the snapshots took out. Raises SnapshotGone, MetadataFileGone, RetryLater.
    """
    return next(
        (
            delete.path
            for snapshot_id in snapshot_ids
            for delete in deletes_removed_by(table, snapshot_id)
            if any(swap.still_needs(delete) for swap in swaps)
        ),
        None,
    )


def newest(table: LoadedTable, snapshot_ids: Iterable[int]) -> int:
    """The one committed last."""
    return max(snapshot_ids, key=lambda one: table.snapshot(one).sequence_number or 0)
