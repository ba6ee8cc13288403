"""Output files of refused results: removed only where no snapshot can have them, now or later."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from firnline_adapters import metrics
from firnline_adapters.logs import Log
from firnline_domain.conflicts import LASTING, Conflict, judge
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.results import RewriteFinished, RewriteGroup
from firnline_iceberg import output_lists
from firnline_iceberg.avro import MetadataFileGone
from firnline_iceberg.heads import pinned
from firnline_iceberg.one_try import Attempt, unreachable
from firnline_iceberg.tables import LoadedTable, Tables

from firnline_committer.settlement import settled


class Outputs:
    """Looks for output files and deletes them."""

    def __init__(self, tables: Tables, log: Log) -> None:
        self._tables = tables
        self._log = log

    def lost(self, table: LoadedTable, group: RewriteGroup) -> str | None:
        """The first output that does not exist (another committer refused and swept it).
        Raises RetryLater where the storage does not answer."""
        paths = (file.path for file in group.outputs)
        try:
            return next((path for path in paths if not table.io.new_input(path).exists()), None)
        except OSError as error:
            raise RetryLater(f"storage: {error}") from error

    def clear(self, table: LoadedTable, result: RewriteFinished, lost: Collection[int]) -> None:
        """After its commit: the outputs of groups that were lost, which no committer will commit
        any more, the row map and the write-ahead list, which goes last."""
        dead = [file for number in lost for file in result.groups[number].outputs]
        paths = [*(file.path for file in dead), result.row_map, result.output_list]
        self._remove(table, result, [path for path in paths if path is not None])

    def forget(
        self, name: TableName, ref: str, attempts: Sequence[tuple[int, Attempt]]
    ) -> list[tuple[int, Attempt]]:
        """Remove metadata files of refused commits that are in no retained snapshot. Those whose
        pin is still the head of the ref are returned: a copy of their request may yet be applied.
        """
        try:
            table = self._tables.load(name)
            over = [one for one in attempts if one[0] != table.head_id(ref)]
            for _, attempt in over:
                output_lists.remove(table.io, unreachable(table, attempt))
        except (RetryLater, TaskRefused, MetadataFileGone, OSError) as error:
            self._log.warning("not_removed", table=name.dotted, why=error)
            return list(attempts)
        return [one for one in attempts if one not in over]

    def _remove(self, table: LoadedTable, result: RewriteFinished, paths: Sequence[str]) -> None:
        """What cannot be removed now is the sweep's."""
        try:
            metrics.count("outputs_deleted", output_lists.remove(table.io, paths))
        except OSError as error:
            self._log.warning("not_removed", task=result.task_id, why=error)

    def sweep(self, result: RewriteFinished, conflict: Conflict) -> None:
        """Delete the outputs where the refusal is a lasting one and the table, read once more,
        says so too. What is left over stays on the worker's write-ahead list."""
        if conflict.reason not in LASTING:
            return
        try:
            table = self._tables.load(result.table)
            if not settled(table, [result]) and self._refused_still(table, result):
                self._delete(table, result)
        except (RetryLater, TaskRefused, OSError) as error:
            self._log.warning("not_swept", task=result.task_id, why=error)

    def _refused_still(self, table: LoadedTable, result: RewriteFinished) -> bool:
        """No group is fit, and none ever will be."""
        verdict = judge(result, pinned(table, result.ref).head)
        found = {**verdict.touched, **verdict.lost}
        lasting = all(conflict.reason in LASTING for conflict in found.values())
        return lasting and len(found) == len(result.groups)

    def _delete(self, table: LoadedTable, result: RewriteFinished) -> None:
        self.clear(table, result, range(len(result.groups)))
        self._log.info("swept", table=result.table.dotted, task=result.task_id)
