"""Output files of refused results: removed only where no snapshot can have them, now or later."""

from __future__ import annotations

from firnline_adapters import metrics
from firnline_adapters.logs import Log
from firnline_domain.conflicts import LASTING, Conflict, examine, outputs
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.results import RewriteFinished
from firnline_iceberg.heads import pinned
from firnline_iceberg.tables import LoadedTable, Tables

from firnline_committer.settlement import settled


class Outputs:
    """Looks for output files and deletes them."""

    def __init__(self, tables: Tables, log: Log) -> None:
        self._tables = tables
        self._log = log

    def lost(self, table: LoadedTable, result: RewriteFinished) -> str | None:
        """The first output that does not exist (another committer refused and swept it).
        Raises RetryLater where the storage does not answer."""
        files = (file.path for file in outputs(result))
        try:
            return next((path for path in files if not table.io.new_input(path).exists()), None)
        except OSError as error:
            raise RetryLater(f"storage: {error}") from error

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
        conflict = examine(result, pinned(table, result.ref).head)
        return conflict is not None and conflict.reason in LASTING

    def _delete(self, table: LoadedTable, result: RewriteFinished) -> None:
        for file in outputs(result):
            table.io.delete(file.path)
            metrics.count("outputs_deleted")
        self._log.info("swept", table=result.table.dotted, task=result.task_id)
