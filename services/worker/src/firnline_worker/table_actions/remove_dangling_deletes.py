"""Takes delete files that apply to nothing out of a table, in one commit of metadata alone: no data
file and no delete file is read or written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firnline_domain.policy.table_action.remove_dangling_deletes import DanglingDeletes
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult, table_result
from firnline_iceberg.commit.java_commits import TableCommits
from firnline_iceberg.metadata.entries import DeleteFileEntry
from firnline_iceberg.scan.dangling_deletes import dangling_deletes
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_worker.table_actions.commit_removals import PlannedRemoval, commit_removal
from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out


@dataclass(frozen=True)
class DanglingDeleteRemover:
    """The remover of dangling deletes. The commit is pinned to the head that was examined: after a
    rollback an older data file may be back, and its deletes with it."""

    tables: Tables
    commits: TableCommits
    worker: str
    now_ms: Callable[[], int]

    def remove(self, order: TableOrder) -> TableResult:
        """Carry out an order. Raises TaskRefused, RetryLater."""

        def find_removal(table: LoadedTable, head: int) -> PlannedRemoval:
            found = dangling_deletes(table, head)
            return PlannedRemoval(found, self._result(order, found))

        return commit_removal(
            self.tables, self.commits, order, find_removal, self._result(order, ())
        )

    def _result(self, order: TableOrder, found: Sequence[DeleteFileEntry]) -> TableResult:
        numbers = {
            "removed_delete_files": float(len(found)),
            "removed_deletes": float(sum(one.records for one in found)),
            "removed_bytes": float(sum(one.bytes for one in found)),
        }
        return table_result(order, self.worker, self.now_ms(), numbers)


@carries_out(DanglingDeletes.name)
def build_dangling_delete_remover(tools: ActionTools) -> CarryOut:
    return DanglingDeleteRemover(tools.tables, tools.commits, tools.worker, tools.now_ms).remove
