"""Output files, checked before a commit. Those that no commit has taken are left to the sweep,
which knows how old they are: a result that is refused on one head may be committed on another,
after a rollback or an undo, by a committer that examined it in time (docs/decisions/0016)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.commits.conversion_progress import Marks
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.results import RewriteFinished, RewriteGroup
from firnline_iceberg.commit.single_send import WrittenMetadata
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.removal import removal
from firnline_iceberg.storage.errors import storage_error
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_committer.examine.conversion_progress import replaced_by


class Outputs:
    """Checks that output files exist, and deletes them."""

    def __init__(self, tables: Tables, log: Log) -> None:
        self._tables = tables
        self._log = log

    def first_missing(self, table: LoadedTable, group: RewriteGroup) -> str | None:
        """Return the first output that does not exist (another committer refused and swept it).
        Raises RetryLater if the storage does not answer."""
        paths = (file.path for file in group.outputs)
        try:
            return next((path for path in paths if not table.io.new_input(path).exists()), None)
        except OSError as error:
            raise storage_error("storage", error) from error

    def note_sends(self, table: LoadedTable, lists: Collection[str]) -> None:
        """Write a note next to each of these write-ahead lists, before a commit is sent that names
        their files. Raises RetryLater: then it may not be sent."""
        try:
            for path in lists:
                removal.note_sent(table, path)
        except OSError as error:
            raise storage_error("storage", error) from error

    def clear(
        self,
        table: LoadedTable,
        result: RewriteFinished,
        lost: Collection[int],
        marks: Marks | None = None,
    ) -> None:
        """Remove the row map and the write-ahead list of a committed result, the list last. If
        groups were lost both stay, because the list names their outputs. A slice's marks stay until
        the next one has its own, with the list: those of an abandoned pass are left to the sweep.
        `marks`: of the slices before."""
        done = result.slice
        noted = result.output_list if result.sends_noted else None
        own = [result.row_map, noted and removal.sent_path(noted), result.output_list]
        if done is not None and done.marks is not None:
            own[1:] = [done.marks.path, *own[1:]] if done.is_last else []
        try:
            if not lost:
                removal.remove_unneeded(table, result.task_id, own)
            if before := replaced_by(table, marks):
                removal.remove_unneeded(table, *before)
        except OSError as error:  # the sweep's
            self._log.warning("not_removed", task=result.task_id, why=error)

    def remove_metadata(
        self,
        name: TableName,
        refused: Sequence[WrittenMetadata],
        unknown: Sequence[WrittenMetadata] = (),
    ) -> list[WrittenMetadata]:
        """Remove metadata files of refused commits that are in no retained snapshot. Return the
        commits of which a copy may yet be applied. `unknown`: of unknown outcome."""
        try:
            table = self._tables.load(name)
            removed = removal.remove_refused(table, refused, unknown)
            metrics.count("outputs_deleted", removed)
        except (RetryLater, TaskRefused, MetadataFileGone, OSError) as error:
            self._log.warning("not_removed", table=name, why=error)
            return list(refused)
        return [one for one in refused if not removal.is_dead(table, one)]
