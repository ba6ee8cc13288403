"""Finds partitions that are as Firnline's last rewrite has left them: another one would change
nothing. A planner remembers what a rewrite could not improve (its floor). A process that runs one
action at a time reads it from the table, by the commit that added each file. Else a nightly job
would rewrite the same two files permanently."""

from __future__ import annotations

from collections.abc import Collection

from firnline_domain.identity import MAIN, Scope
from firnline_iceberg.commit.rewrite import claimed_task_ids
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.loaded_table import LoadedTable


def rested_scopes(table: LoadedTable, scopes: Collection[Scope]) -> set[Scope]:
    """Return those of the scopes without a file that another writer's commit has added. A commit
    that is expired counts as another writer's. Raises RetryLater, MetadataFileGone."""
    head = table.head_id(MAIN)
    ours = {one.snapshot_id for one in table.snapshots if claimed_task_ids(one.summary)}
    left = {*scopes} if ours else set()
    if head is None or not left:
        return set()
    for entry in live_entries(table, head, Detail.COUNTS):
        if entry.snapshot_id not in ours:
            left.discard(entry.scope)
            if entry.scope.is_unpartitioned:  # a delete of it may reach every partition
                left.clear()
    return left
