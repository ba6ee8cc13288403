"""Takes delete files that apply to nothing out of a table, in one commit of metadata alone: no data
file and no delete file is read or written."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firnline_domain.errors import CatalogUnreachable, TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_iceberg.avro import MetadataFileGone
from firnline_iceberg.commits import JavaCommits
from firnline_iceberg.dangling import dangling_deletes
from firnline_iceberg.files import DeleteFileEntry
from firnline_iceberg.java import removal_json
from firnline_iceberg.rewrites import Landed, Refused, Rewrite, task_ids
from firnline_iceberg.tables import LoadedTable, Tables

TRIES = 6  # a writer that commits every second is between two of them by then
WAIT_S = 0.5  # at the most before the second try, twice as long before each other


@dataclass(frozen=True)
class DanglingDeleteRemover:
    """Turns an order into its result. The commit is pinned to the head that was examined: after a
    rollback an older data file may be back, and its deletes with it."""

    tables: Tables
    commits: JavaCommits
    worker: str
    now_ms: Callable[[], int]

    def remove(self, order: TableOrder) -> TableResult:
        """Raises TaskRefused, RetryLater."""
        found: Sequence[DeleteFileEntry] = ()
        why = ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(random.uniform(0, WAIT_S * 2 ** (attempt - 1)))
            table = self.tables.load(order.table)
            if is_committed(table, order.task_id):
                return self._result(order, found)
            head = table.head(MAIN).snapshot_id
            try:
                found = dangling_deletes(table, head)
            except MetadataFileGone as error:  # expired meanwhile
                why = str(error)
                continue
            if not found:
                return self._result(order, found)
            rewrite = _removal(order, table, head, found)
            outcome = self.commits.commit(order.table, MAIN, head, (rewrite,), merges=False)
            if isinstance(outcome, Landed):
                return self._result(order, found)
            if isinstance(outcome, Refused):
                raise TaskRefused(outcome.reason, outcome.detail)
            why = outcome.detail
        raise CatalogUnreachable(f"{TRIES} tries to commit came to nothing: {why}")

    def _result(self, order: TableOrder, found: Sequence[DeleteFileEntry]) -> TableResult:
        numbers = {
            "removed_delete_files": float(len(found)),
            "removed_deletes": float(sum(one.records for one in found)),
            "removed_bytes": float(sum(one.bytes for one in found)),
        }
        return TableResult(
            order.task_id, order.table, order.action, None, self.worker, self.now_ms(), numbers
        )


def is_committed(table: LoadedTable, task_id: str) -> bool:
    """Whether a retained snapshot is this task's: a commit whose answer was lost."""
    return any(task_id in task_ids(one.summary) for one in table.snapshots)


def _removal(
    order: TableOrder, table: LoadedTable, head: int, found: Sequence[DeleteFileEntry]
) -> Rewrite:
    fields = {one.spec_id: len(table.spec(one.spec_id).fields) for one in found}
    removed = tuple(removal_json(one, fields[one.spec_id]) for one in found)
    return Rewrite((order.task_id,), table.last_sequence_number, head, removed, ())
