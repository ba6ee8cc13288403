"""Takes files out of a table in one commit of metadata alone, pinned to the head that was examined,
and looks again where a writer was faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firnline_domain.base.values import Value
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_iceberg.commit.java_commits import TableCommits
from firnline_iceberg.commit.retries import CommitLost, commit_with_retries
from firnline_iceberg.commit.rewrite import CommitRejected, Committed, Rewrite, task_ids
from firnline_iceberg.java.api import removal_json
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable


class PlannedRemoval(Value):
    """Files to remove; none: nothing is committed. `result`: of the order, once they are
    removed."""

    files: Sequence[DataFileEntry | DeleteFileEntry]
    result: TableResult
    drops: bool = False  # rows leave the table


Look = Callable[[LoadedTable, int], PlannedRemoval]
"""What goes of a table by its head, a snapshot id. May raise MetadataFileGone."""


def commit_removal(
    tables: Tables, commits: TableCommits, order: TableOrder, look: Look, nothing: TableResult
) -> TableResult:
    """Commit a removal. `nothing`: the result if an earlier worker has committed it. Raises
    TaskRefused, RetryLater."""
    result = nothing

    def commit_once() -> TableResult | CommitLost:
        nonlocal result
        table = tables.load(order.table)
        if is_committed(table, order.task_id):
            return result
        head = table.head(MAIN).snapshot_id
        try:
            removal = look(table, head)
        except MetadataFileGone as error:  # expired meanwhile
            return CommitLost(str(error))
        result = removal.result
        if not removal.files:
            return result
        rewrite = _removal_rewrite(order, table, head, removal)
        client = commits.for_table(order.table)
        outcome = client.commit(order.table, MAIN, head, (rewrite,), merges=False)
        if isinstance(outcome, CommitRejected):
            raise TaskRefused(outcome.reason, outcome.detail)
        return result if isinstance(outcome, Committed) else CommitLost(outcome.detail)

    return commit_with_retries(commit_once)


def is_committed(table: LoadedTable, task_id: str) -> bool:
    """Return whether a retained snapshot is this task's: a commit whose answer was lost."""
    uuid = table.identity.uuid
    return any(task_id in task_ids(one.summary, uuid) for one in table.snapshots)


def _removal_rewrite(
    order: TableOrder, table: LoadedTable, head: int, removal: PlannedRemoval
) -> Rewrite:
    fields = {one.spec_id: len(table.spec(one.spec_id).fields) for one in removal.files}
    removed = tuple(removal_json(one, fields[one.spec_id]) for one in removal.files)
    number = table.last_sequence_number
    return Rewrite((order.task_id,), number, head, removed, (), drops=removal.drops)
