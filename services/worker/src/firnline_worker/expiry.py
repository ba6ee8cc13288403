"""Expires snapshots through Iceberg's own action, which finds unreachable files by reachability.

An order is only an order: what table and namespace say is read again, and every file that the table
retains is looked at before the first one goes. What was read once is not read again
(`external_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.policy.expiry import configured_retention, refusal
from firnline_domain.policy.expiry_reasons import ExpiryReason
from firnline_domain.records.orders import ExpireSnapshots
from firnline_domain.records.results import Going, SnapshotsExpired
from firnline_domain.settings.in_force import with_namespace
from firnline_domain.values import replace
from firnline_iceberg.avro import MetadataFileGone
from firnline_iceberg.expiring import expiring, going
from firnline_iceberg.external_files import ExternalFiles
from firnline_iceberg.reachability import refuse_if_hidden
from firnline_iceberg.tables import LoadedTable, Tables
from py4j.protocol import Py4JJavaError
from pyiceberg.table.refs import SnapshotRefType

from firnline_worker.java import JavaTables

# In one commit: a fleet that was adopted has tables with 125,000 of them, and their ids alone are
# more than a record may hold. The planner orders the next round after its pause.
MAX_SNAPSHOTS = 5_000
FILE_GONE = "org.apache.iceberg.exceptions.NotFoundException"

Protected = Callable[[str], Iterable[int]]
"""table key -> snapshots from which running tasks started. May raise: then nothing expires."""


def cut_off_ms(table: LoadedTable, older_than_ms: int, protected: Iterable[int]) -> int:
    """Iceberg keeps every snapshot that is not older than the cut-off: so it is drawn no later
    than the oldest protected snapshot. Raises TaskRefused where a branch has an age limit of its
    own, which would overrule the cut-off."""
    times = [table.snapshot(one).timestamp_ms for one in protected if table.retains(one)]
    if not times or min(times) > older_than_ms:
        return older_than_ms
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH and ref.max_snapshot_age_ms is not None:
            raise TaskRefused("branch_age_limit", f"{name}: a task is running", retryable=True)
    return min(times)


def agreed_ms(order: ExpireSnapshots, now_ms: int) -> int:
    """Snapshots older than that are as old as the order asks for, by the planner's clock and by
    ours: one clock that is ahead expires nothing too early."""
    age_ms = order.ordered_at_ms - order.older_than_ms
    return min(order.older_than_ms, now_ms - age_ms)


@dataclass(frozen=True)
class Expirer:
    """Turns `ExpireSnapshots` into `SnapshotsExpired`."""

    tables: Tables
    java: JavaTables
    protected: Protected
    worker: str
    now_ms: Callable[[], int]
    external_files: ExternalFiles = field(default_factory=ExternalFiles)

    def expire(self, order: ExpireSnapshots) -> SnapshotsExpired:
        """Raises TaskRefused, RetryLater.

        The Spark action deletes what no retained snapshot of any ref reaches; the incremental
        clean-up of the plain API deleted live files where several refs existed (#13568).
        """
        table = self.tables.load(order.table)
        self._refuse_if_hidden(table)
        settings = with_namespace(
            table.properties, self.tables.namespace_properties(order.table.namespace)
        )
        if reason := refusal(order, settings, self.now_ms()) or self._has_external_files(table):
            return self._result(order, table, table, 0, reason)
        retention_ms, least = configured_retention(settings)
        order = replace(order, retain_last=max(order.retain_last, least))
        if order.begins_at_ms is not None:
            older_than_ms = min(order.older_than_ms, order.begins_at_ms - retention_ms)
            gone = expiring(table, older_than_ms, order.retain_last, order.begins_at_ms)
            return self._announced(order, table, going(table, gone))
        keep = {*order.protected_snapshot_ids, *self.protected(order.table.key)}
        older_than_ms = min(agreed_ms(order, self.now_ms()), self.now_ms() - retention_ms)
        gone = expiring(table, older_than_ms, order.retain_last, self.now_ms())
        if len(gone) > MAX_SNAPSHOTS:
            older_than_ms = min(older_than_ms, gone[MAX_SNAPSHOTS].timestamp_ms)
        cut_off = cut_off_ms(table, older_than_ms, keep)
        if all(one.timestamp_ms >= cut_off for one in table.snapshots):
            return self._result(order, table, table, 0, None)
        deleted = self._run(order, cut_off)
        return self._result(order, table, self.tables.load(order.table), deleted, None)

    def _refuse_if_hidden(self, table: LoadedTable) -> None:
        """Iceberg's action believes what the catalog tells of; a snapshot that is left out loses
        its files. Raises TaskRefused, RetryLater."""
        try:
            refuse_if_hidden(table)
        except MetadataFileGone as error:
            raise RetryLater(f"expired meanwhile: {error}") from error

    def _has_external_files(self, table: LoadedTable) -> str | None:
        """Files of others, unless the table itself says that they may go. Raises RetryLater."""
        return ExpiryReason.EXTERNAL_FILES if self.external_files.keep_back(table) else None

    def _announced(
        self, order: ExpireSnapshots, table: LoadedTable, what: Going
    ) -> SnapshotsExpired:
        result = self._result(order, table, table, 0, None)
        return replace(
            result,
            begins_at_ms=order.begins_at_ms,
            going_snapshots=what.snapshots,
            going_files=what.files,
            going_bytes=what.bytes,
        )

    def _run(self, order: ExpireSnapshots, cut_off: int) -> int:
        actions = self.java.iceberg.spark.actions.SparkActions.get(self.java.session)
        action = actions.expireSnapshots(self.java.load(order.table).java)
        try:
            done = action.expireOlderThan(cut_off).retainLast(max(1, order.retain_last)).execute()
        except Py4JJavaError as error:
            if FILE_GONE not in str(error.java_exception):
                raise
            text = "another expiry of the table runs at this moment"
            raise TaskRefused("metadata_file_gone", text, retryable=True) from error
        counts = (
            done.deletedDataFilesCount(),
            done.deletedEqualityDeleteFilesCount(),
            done.deletedPositionDeleteFilesCount(),
            done.deletedManifestsCount(),
            done.deletedManifestListsCount(),
        )
        return int(sum(counts))

    def _result(
        self,
        order: ExpireSnapshots,
        before: LoadedTable,
        after: LoadedTable,
        deleted: int,
        reason: str | None,
    ) -> SnapshotsExpired:
        times = [snapshot.timestamp_ms for snapshot in after.snapshots]
        return SnapshotsExpired(
            task_id=order.task_id,
            table=order.table,
            action=order.action,
            expired=sum(not after.retains(one.snapshot_id) for one in before.snapshots),
            remaining=len(times),
            oldest_snapshot_ms=min(times, default=None),
            deleted_files=deleted,
            refused_reason=reason,
            worker=self.worker,
            finished_at_ms=self.now_ms(),
        )
