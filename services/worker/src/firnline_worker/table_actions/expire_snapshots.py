"""Expires snapshots: a commit takes them out of the metadata, and what no retained snapshot
reaches is removed (`expiry.file_cleanup`), without Spark.

An order is only an order: what table and namespace say is read again, and every file that the table
retains is looked at before the first one goes. What was read once is not read again
(`external_files`, `expiry.manifest_cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock

from cachetools import FIFOCache
from firnline_adapters.observability.logs import Log
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import moment_near, replace
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.snapshot_retention import (
    EXPIRE,
    ExpiryReason,
    configured_metadata_versions,
    configured_ref_rules,
    configured_retention,
    owner_agrees,
    refusal_reason,
)
from firnline_domain.records.orders import ExpireSnapshots
from firnline_domain.records.results import ExpiryPreview, SnapshotsExpired
from firnline_domain.records.signing import Keyring
from firnline_iceberg.commit.retries import CommitLost, commit_with_retries
from firnline_iceberg.expiry.file_cleanup import (
    Cleaned,
    ExpiredLists,
    named_by_snapshots,
    remove_unneeded,
)
from firnline_iceberg.expiry.journal import ExpiryJournal, end_journal, read_journal, write_journal
from firnline_iceberg.expiry.manifest_cache import ManifestCache
from firnline_iceberg.expiry.metadata_files import (
    changed_properties,
    cleanup_settings,
    remove_unlogged,
)
from firnline_iceberg.expiry.refs import NO_REFS, OldRefs, find_old_refs, remove_refs
from firnline_iceberg.expiry.snapshot_selection import (
    expired_ref_names,
    expiring_snapshots,
    keep_for_streams,
    preview_expiry,
)
from firnline_iceberg.expiry.unused_schemas import Unused, unused_metadata
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED
from firnline_iceberg.removal.catalog_and_storage_clocks import Ask, ask_clocks, table_now
from firnline_iceberg.removal.file_ownership import refuse_other_logs
from firnline_iceberg.removal.removal import shares_files
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.external_files import ExternalFiles
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import refuse_links
from firnline_iceberg.table.reachability import refuse_if_hidden
from firnline_iceberg.table.shared_locations import outside_rule, refuse_shared
from py4j.protocol import Py4JJavaError
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    TableUpdate,
)

from firnline_worker.spark.java_api import JavaTables
from firnline_worker.table_actions.registry import ActionTools, CarryOut, Protected, carries_out

# In one commit: a fleet that was adopted has tables with 125,000 of them, and their ids alone are
# more than a record may hold.
MAX_SNAPSHOTS = 5_000
# In one order, which reads the lists of all that stay once: 10 MB of journal. The planner orders
# the next round after its pause.
MAX_COMMITS = 10

SHOWN = 20  # lines of a run's log about files that stay

MOST_LOOKED = 10_000  # tables; of more, some are listed again

NOTHING: Mapping[str, int] = {}


def cut_off_ms(table: LoadedTable, older_than_ms: int, protected: Iterable[int]) -> int:
    """Return the cut-off, no later than the oldest protected snapshot: Iceberg keeps every snapshot
    that is not older than the cut-off. Raises TaskRefused if a branch has an age limit of its own,
    which would overrule the cut-off."""
    times = [table.snapshot(one).timestamp_ms for one in protected if table.retains(one)]
    if not times or min(times) > older_than_ms:
        return older_than_ms
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH and ref.max_snapshot_age_ms is not None:
            raise TaskRefused("branch_age_limit", f"{name}: a task is running", retryable=True)
    return min(times)


def agreed_ms(order: ExpireSnapshots, now_ms: int) -> int:
    """Return the time before which snapshots are as old as the order requires, by the planner's
    clock and by ours: one clock that is ahead expires nothing too early."""
    age_ms = order.ordered_at_ms - order.older_than_ms
    return min(order.older_than_ms, now_ms - age_ms)


def _asked_ms(order: ExpireSnapshots, now_ms: int) -> int:
    """Return the time by which a ref has to be old: by the planner's clock and by ours; by both at
    the time when an announced expiry begins."""
    if order.begins_at_ms is not None:
        return order.begins_at_ms
    return min(order.ordered_at_ms, now_ms)


@dataclass
class Looked:
    """Times of the last scan of tables' folders, the latest at the end. Thread-safe: all tasks of
    a worker share it, and the cache alone is not."""

    at_ms: FIFOCache[str, int] = field(default_factory=lambda: FIFOCache(MOST_LOOKED))
    _lock: Lock = field(default_factory=Lock)

    def is_due(self, key: str, now_ms: int) -> bool:
        """Return True if the table's folders were not scanned within a day, or in the future by
        this clock."""
        with self._lock:
            return not now_ms - DAY_MS < self.at_ms.get(key, 0) <= now_ms

    def note_scan(self, key: str, now_ms: int) -> None:
        with self._lock:
            self.at_ms[key] = now_ms


@dataclass(frozen=True)
class Expirer:
    """Carries out `ExpireSnapshots`, with `SnapshotsExpired` as its result."""

    tables: Tables
    java: JavaTables
    protected: Protected
    worker: str
    now_ms: Callable[[], int]
    external_files: ExternalFiles = field(default_factory=ExternalFiles)
    cache: ManifestCache = field(default_factory=ManifestCache)
    keys: Keyring = UNSIGNED
    looked: Looked = field(default_factory=Looked)
    log: Log = field(default_factory=lambda: Log("worker"))
    ask: Ask = ask_clocks

    def expire(self, order: ExpireSnapshots) -> SnapshotsExpired:
        """Carry out an order, always by reachability: the incremental clean-up of Iceberg's API
        deleted live files if several refs existed (#13568). Raises TaskRefused, RetryLater."""
        table = self.tables.load(order.table)
        refuse_links(table)
        self._refuse_if_hidden(table)
        settings = settings_of(self.tables, table, order.policies)
        now_ms = table_now(table, self.now_ms, order.ordered_at_ms, self.ask)
        if reason := refusal_reason(order, settings, now_ms) or self._has_external_files(table):
            return self._result(order, table, table, 0, reason)
        refuse_shared(self.tables, table)
        refuse_other_logs(table)
        retention_ms, least = configured_retention(settings)
        order = replace(order, retain_last=max(order.retain_last, least))
        refs = find_old_refs(table, configured_ref_rules(settings), _asked_ms(order, now_ms))
        if order.begins_at_ms is not None:
            older_than_ms = keep_for_streams(
                table, settings, min(order.older_than_ms, order.begins_at_ms - retention_ms)
            )
            gone = expiring_snapshots(
                table, older_than_ms, order.retain_last, order.begins_at_ms, refs.ref_names
            )
            return self._announce(order, table, preview_expiry(table, gone))
        keep = {*order.protected_snapshot_ids, *self.protected(order.table.key)}
        older_than_ms = keep_for_streams(
            table, settings, min(agreed_ms(order, now_ms), now_ms - retention_ms)
        )
        table, refs = self._remove_old_refs(table, order, refs)
        gone = expiring_snapshots(table, older_than_ms, order.retain_last, now_ms)
        if len(gone) > (most := MAX_COMMITS * MAX_SNAPSHOTS):
            older_than_ms = min(older_than_ms, gone[most].timestamp_ms)
        cut_off = cut_off_ms(table, older_than_ms, keep)
        deleted = self._clean_up_after_another(table)
        numbers = {"tags_removed": len(refs.tags), "branches_removed": len(refs.branches)}
        numbers["files_left"] = len(deleted.left)
        if all(one.timestamp_ms >= cut_off for one in table.snapshots):
            numbers |= self._keep_few(order, table, configured_metadata_versions(settings))
            return self._result(order, table, table, deleted.files, None, numbers)
        cleaned, unused = self._expire_and_clean(order, table, cut_off, now_ms, keep)
        numbers["files_left"] += len(cleaned.left)
        after = self.tables.load(order.table)
        numbers |= self._keep_few(order, after, configured_metadata_versions(settings))
        deleted_files = deleted.files + cleaned.files
        return self._result(order, table, after, deleted_files, None, {**numbers, **unused})

    def _remove_old_refs(
        self, table: LoadedTable, order: ExpireSnapshots, refs: OldRefs
    ) -> tuple[LoadedTable, OldRefs]:
        """Remove refs that the owner's rules no longer keep. Return the table, and the removed
        refs: none if one of them has moved; the next expiry tries again."""
        if not refs.ref_names:
            return table, refs
        removed = remove_refs(self.tables, table, refs.ref_names)
        return self.tables.load(order.table), refs if removed else NO_REFS

    def _refuse_if_hidden(self, table: LoadedTable) -> None:
        """Refuse a table with hidden history: Iceberg's action trusts the catalog; a snapshot that
        is left out loses its files. Raises TaskRefused, RetryLater."""
        try:
            refuse_if_hidden(table)
        except MetadataFileGone as error:
            raise RetryLater(f"expired meanwhile: {error}") from error

    def _has_external_files(self, table: LoadedTable) -> str | None:
        """Return the reason if the table has external files, unless the table itself allows their
        removal. Raises RetryLater."""
        kept = self.external_files.keep_back(table, self.cache.manifests)
        return ExpiryReason.EXTERNAL_FILES if kept else None

    def _announce(
        self, order: ExpireSnapshots, table: LoadedTable, what: ExpiryPreview
    ) -> SnapshotsExpired:
        result = self._result(order, table, table, 0, None)
        return replace(
            result,
            begins_at_ms=order.begins_at_ms,
            going_snapshots=what.snapshots,
            going_files=what.files,
            going_bytes=what.bytes,
        )

    def _expire_and_clean(
        self,
        order: ExpireSnapshots,
        table: LoadedTable,
        cut_off: int,
        now_ms: int,
        keep: Container[int],
    ) -> tuple[Cleaned, Mapping[str, int]]:
        """Expire snapshots but those to `keep`, which an age limit of their branch lets go. Return
        the files that were removed, and what else was removed."""
        gone = expiring_snapshots(table, cut_off, max(1, order.retain_last), now_ms)
        most = MAX_COMMITS * MAX_SNAPSHOTS
        ids = tuple(one.snapshot_id for one in gone[:most] if one.snapshot_id not in keep)
        named = named_by_snapshots(table, ids)
        journal = ExpiryJournal(order.table.key, ids, named.lists, named.statistics)
        self.java.load(order.table)  # refuses properties that would load a class
        write_journal(table, journal, self.now_ms(), self.keys)
        known = frozenset(ids)  # in the journal
        for _ in range(0, max(len(ids), 1), MAX_SNAPSHOTS):
            commit_with_retries(lambda: self._commit_expiry(order, known, cut_off, now_ms))
        unused = self._clean_metadata(order)
        after = self.tables.load(order.table)
        went = (one.snapshot_id for one in table.snapshots if not after.retains(one.snapshot_id))
        return self._clean(after, named_by_snapshots(table, went)), unused

    def _commit_expiry(
        self, order: ExpireSnapshots, ids: frozenset[int], cut_off: int, now_ms: int
    ) -> CommitLost | None:
        """Remove the oldest of these snapshots and refs beyond Iceberg's own age limit from the
        metadata, in one commit. Every ref that exists must be where it was: a catalog removes a
        branch along with its head, and Iceberg's own expiry asks for no head (1.12,
        `UpdateRequirements`), so a rollback to an expired snapshot at that moment lost the branch.
        Raises TaskRefused; RetryLater: perhaps it is made, and the next try reads the journal."""
        table = self.tables.load(order.table)
        if shares_files(table):
            raise TaskRefused(
                ExpiryReason.GC_DISABLED, "gc.enabled=false was set meanwhile", retryable=True
            )
        gone = expiring_snapshots(table, cut_off, max(1, order.retain_last), now_ms)
        removed = [one.snapshot_id for one in gone if one.snapshot_id in ids][:MAX_SNAPSHOTS]
        ended = expired_ref_names(table, now_ms)
        if not removed and not ended:
            return None
        updates = tuple(_removals(table, ended, removed))
        made = self.tables.commit_changes(order.table, updates, _all_heads(table))
        return None if made else CommitLost()

    def _clean_metadata(self, order: ExpireSnapshots) -> Mapping[str, int]:
        """Remove schemas and specs that no retained snapshot needs, in a commit of their own: a
        busy table may lose it (it asks for the heads of all refs), some catalogs do not support it,
        and neither is worth an expiry. The next one tries again. Iceberg's own clean-up would
        expire snapshots by the branches' age limits, too."""
        table = self.tables.load(order.table)
        try:
            unused = unused_metadata(table)
            if not unused.schemas and not unused.specs:
                return {}
            made = self._commit_unused(order, table, unused)
        except (RetryLater, MetadataFileGone):
            made = False
        if not made:
            return {"unused_metadata_left": 1}
        return {"schemas_removed": len(unused.schemas), "specs_removed": len(unused.specs)}

    def _commit_unused(self, order: ExpireSnapshots, table: LoadedTable, unused: Unused) -> bool:
        metadata, updates = table.metadata, list[TableUpdate]()
        if unused.specs:
            updates.append(
                RemovePartitionSpecsUpdate.model_validate({"spec-ids": list(unused.specs)})
            )
        if unused.schemas:
            updates.append(RemoveSchemasUpdate.model_validate({"schema-ids": list(unused.schemas)}))
        return self.tables.commit_changes(
            order.table,
            tuple(updates),
            _all_heads(table),
            AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
            AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
        )

    def _keep_few(
        self, order: ExpireSnapshots, table: LoadedTable, versions: int
    ) -> Mapping[str, int]:
        """Remove old metadata files if the owner has set how many are kept. From then on the
        catalog removes them with each commit, so older leftovers are listed once a day at most.
        They are removed before the properties are set: if the worker dies in between, the next
        order tries again."""
        if not versions:
            return NOTHING
        wanted, removed = changed_properties(table, cleanup_settings(versions)), 0
        if wanted or self.looked.is_due(order.table.key, self.now_ms()):
            removed = remove_unlogged(table)
            self.looked.note_scan(order.table.key, self.now_ms())
        if wanted:
            try:
                change = self.java.load(order.table).java.updateProperties()
                for name, text in wanted.items():
                    change.set(name, text)
                change.commit()
            except Py4JJavaError:
                return {"metadata_files_removed": removed, "metadata_settings_left": 1}
        return {"metadata_files_removed": removed}

    def _clean_up_after_another(self, table: LoadedTable) -> Cleaned:
        """Remove the files left by a worker that died between its commit and the end of its
        clean-up."""
        journal = read_journal(table, self.keys)
        if journal is None or all(table.retains(one) for one in journal.snapshot_ids):
            return Cleaned()
        return self._clean(table, journal.named_lists)

    def _clean(self, table: LoadedTable, expired: ExpiredLists) -> Cleaned:
        """Remove expired files. Files that stay are logged: no later expiry finds them. Raises
        TaskRefused `metadata_file_gone` if another expiry has removed what was retained a moment
        ago, or if a table shares files that was made meanwhile: the journal stays for the next
        one."""
        refuse_shared(self.tables, table)
        try:
            outside = None
            if owner_agrees(table.properties):
                outside = outside_rule(self.tables, table, self.tables.for_table(table.identity))
            known = self.cache.manifests, self.cache.file_names
            cleaned = remove_unneeded(table, expired, outside, *known)
        except MetadataFileGone as error:
            text = f"another expiry of the table runs at this moment: {error}"
            raise TaskRefused(error.reason, text, retryable=True) from error
        end_journal(table)
        self.cache.keep(table, {one.manifest_list for one in table.snapshots})
        for path, why in islice(cleaned.left.items(), SHOWN):
            self.log.warning("file_left", table=table.identity, path=path, why=why)
        return cleaned

    def _result(
        self,
        order: ExpireSnapshots,
        before: LoadedTable,
        after: LoadedTable,
        deleted: int,
        reason: str | None,
        numbers: Mapping[str, int] = NOTHING,
    ) -> SnapshotsExpired:
        times = [moment_near(snapshot.timestamp_ms) for snapshot in after.snapshots]
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
            numbers={name: float(number) for name, number in numbers.items() if number},
        )


@carries_out(EXPIRE)
def build_expirer(tools: ActionTools) -> CarryOut:
    return Expirer(
        tools.tables, tools.java, tools.protected, tools.worker, tools.now_ms, keys=tools.keys
    ).expire


def _all_heads(table: LoadedTable) -> Mapping[str, int | None]:
    return {MAIN: None, **{name: ref.snapshot_id for name, ref in table.metadata.refs.items()}}


def _removals(
    table: LoadedTable, refs: Iterable[str], snapshot_ids: Sequence[int]
) -> Iterator[TableUpdate]:
    """Yield the updates that remove refs, then statistics of snapshots, which not every catalog
    removes along with them, then the snapshots. As Iceberg's Java client does, one by one: older
    catalogs refuse more than one ID in an update."""
    gone = frozenset(snapshot_ids)
    for name in refs:
        yield RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
    for one in {each.snapshot_id for each in table.metadata.statistics} & gone:
        yield RemoveStatisticsUpdate.model_validate({"snapshot-id": one})
    for one in {each.snapshot_id for each in table.metadata.partition_statistics} & gone:
        yield RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": one})
    for one in snapshot_ids:
        yield RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [one]})
