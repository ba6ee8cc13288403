"""Previews of orders, by metadata alone: the worker's own plan, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.identity import MAIN
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.operator_requests import Order
from firnline_domain.policy.table_action.aged_partitions import PartitionArchiving, PartitionExpiry
from firnline_domain.policy.table_action.compute_statistics import Statistics
from firnline_domain.policy.table_action.create_tags import TAG_EXISTS, TagCreation
from firnline_domain.policy.table_action.remove_dangling_deletes import DanglingDeletes
from firnline_domain.policy.table_action.remove_orphans import OrphanRemoval
from firnline_domain.policy.table_action.rewrite_manifests import ManifestRewrite
from firnline_domain.policy.table_action.snapshot_retention import (
    configured_ref_rules,
    configured_retention,
    refusal_reason,
)
from firnline_domain.policy.table_action.upgrade_format import FormatUpgrade
from firnline_domain.policy.triggers.v2_deletes import VECTORS
from firnline_domain.records.orders import ExpireSnapshots, RewriteFiles, TableOrder
from firnline_domain.records.parts.tallies import target_bytes_of
from firnline_domain.records.results import DeleteKind
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_iceberg.expiry.refs import find_old_refs
from firnline_iceberg.expiry.snapshot_selection import (
    expiring_snapshots,
    keep_for_streams,
    preview_expiry,
)
from firnline_iceberg.metadata.entries import DataFileEntry
from firnline_iceberg.removal.orphans import find_orphans, refuse_unclear
from firnline_iceberg.scan.dangling_deletes import dangling_deletes
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import RetainedNames
from firnline_worker.plan.planning import (
    plan,
    refuse_duplicates,
    refuse_unclear_paths,
    time_span_limit,
)
from firnline_worker.plan.sort_plan import sort_plan, sort_wish
from firnline_worker.rewrite.eligibility import unsupported_reasons
from firnline_worker.rewrite.preconditions import yield_to_writers
from firnline_worker.table_actions.archive_partitions import preview_archiving as archive_preview
from firnline_worker.table_actions.compute_statistics import limits_of, wish_of
from firnline_worker.table_actions.create_tags import refusal as refusal_of_tags
from firnline_worker.table_actions.create_tags import wanted_tags
from firnline_worker.table_actions.expire_partitions import old_files, ttl_h
from firnline_worker.table_actions.expire_partitions import refusal as refusal_of_partitions
from firnline_worker.table_actions.remove_orphans import inventory_of
from firnline_worker.table_actions.rewrite_manifests import small_manifests
from firnline_worker.table_actions.upgrade_format import find_obstacle, v2_deletes
from firnline_worker.table_actions.upgrade_format import refusal as refusal_of_upgrade


@dataclass(frozen=True)
class Preview:
    """The preview of an order. `refused`: why it would have no effect. `handed_over`: why Iceberg's
    own action would do it. `files`: of an expiry and of orphans those that would be removed; of a
    manifest rewrite the manifests."""

    files: int = 0
    bytes: int = 0
    converted: int = 0  # files that stay, and get a delete file of their own
    outputs: int = 0  # if no row were dead
    equality_deletes: int = 0
    position_deletes: int = 0
    snapshots: int = 0
    partitions: int = 0  # that lose files, where rows go by their age
    says: str = ""  # of what takes no files: what would be done
    refs: tuple[str, ...] = ()  # tags and branches that go
    handed_over: str | None = None
    refused: str | None = None
    columns: tuple[str, ...] = ()  # whose distinct values would be counted
    verb: str = "remove"  # what is done to the files
    noun: str = "file"  # what `files` counts


def preview(tables: Tables, order: Order, now_ms: int) -> Preview:
    """Preview an order; of a rewrite, all its slices. Raises TaskRefused, RetryLater,
    MetadataFileGone."""
    table = tables.load(order.table)
    if isinstance(order, RewriteFiles):
        return _preview_rewrite(tables, table, order, now_ms)
    if isinstance(order, ExpireSnapshots):
        return _preview_expiry(tables, table, order, now_ms)
    match order.action:
        case DanglingDeletes.name:
            return _preview_dangling(table)
        case ManifestRewrite.name:
            return _preview_manifests(table)
        case OrphanRemoval.name:
            return _preview_orphans(tables, table, order, now_ms)
        case PartitionArchiving.name:
            return _preview_archiving(tables, table, order, now_ms)
        case PartitionExpiry.name:
            return _preview_partitions(tables, table, order, now_ms)
        case FormatUpgrade.name:
            return _preview_upgrade(tables, table, order, now_ms)
        case Statistics.name:
            return _preview_statistics(tables, table, order)
        case TagCreation.name:
            return _preview_tags(tables, table, order, now_ms)
    return Preview(says=f"{order.action} has no preview.")


def _preview_rewrite(
    tables: Tables, table: LoadedTable, order: RewriteFiles, now_ms: int
) -> Preview:
    yield_to_writers(table, order.ref, now_ms)
    live = live_files(table, table.head(order.ref).snapshot_id)
    refuse_duplicates(live)
    refuse_unclear_paths(live)
    target, limit = target_bytes_of(table.properties), time_span_limit(table)
    if order.action == Action.SORT:
        wish = sort_wish(settings_of(tables, table, order.policies))
        chosen, _ = sort_plan(table, live, replace(order, max_bytes=0), wish, target)
    else:
        vectors = table.format_version >= VECTORS
        ratio = order.min_dead_ratio
        chosen = plan(live, order.scope, target, order.action, limit, ratio, vectors=vectors)
    equality = sum(one.kind is DeleteKind.EQUALITY for one in chosen.deletes)
    return Preview(
        files=len(chosen.inputs),
        bytes=_total_bytes(chosen.inputs),
        converted=len(chosen.converted),
        outputs=chosen.outputs,
        equality_deletes=equality,
        position_deletes=len(chosen.deletes) - equality,
        handed_over=next(unsupported_reasons(table, chosen), None)
        if chosen.files_to_read
        else None,
        verb="rewrite",
    )


def _preview_expiry(
    tables: Tables, table: LoadedTable, order: ExpireSnapshots, now_ms: int
) -> Preview:
    settings = settings_of(tables, table, order.policies)
    if why := refusal_reason(order, settings, now_ms):
        return Preview(refused=why)
    retention_ms, least = configured_retention(settings)
    older_than_ms = min(order.older_than_ms, now_ms - retention_ms)
    older_than_ms = keep_for_streams(table, settings, older_than_ms)
    refs = find_old_refs(table, configured_ref_rules(settings), now_ms).ref_names
    found = expiring_snapshots(table, older_than_ms, max(order.retain_last, least), now_ms, refs)
    gone = preview_expiry(table, found)
    return Preview(files=gone.files, bytes=gone.bytes, snapshots=gone.snapshots, refs=refs)


def _preview_dangling(table: LoadedTable) -> Preview:
    found = dangling_deletes(table, table.head(MAIN).snapshot_id)
    equality = sum(one.kind is DeleteKind.EQUALITY for one in found)
    return Preview(
        bytes=sum(one.bytes for one in found),
        equality_deletes=equality,
        position_deletes=len(found) - equality,
    )


def _preview_manifests(table: LoadedTable) -> Preview:
    small = [one for of_spec in small_manifests(table) for one in of_spec]
    taken = sum(one.length for one in small)
    return Preview(files=len(small), bytes=taken, verb="rewrite", noun="manifest")


def _preview_partitions(
    tables: Tables, table: LoadedTable, order: TableOrder, now_ms: int
) -> Preview:
    settings = settings_of(tables, table, order.policies)
    limits = resolve_thresholds(settings, Thresholds(partition_ttl_h=order.numbers["ttl_h"]))
    if why := refusal_of_partitions(order, limits, now_ms):
        return Preview(refused=": ".join(why))
    before_ms = now_ms - int(ttl_h(order, limits) * HOUR_MS)
    found = old_files(table, table.head(MAIN).snapshot_id, limits, before_ms)
    return Preview(
        files=len(found.files), bytes=_total_bytes(found.files), partitions=len(found.scopes)
    )


def _preview_archiving(
    tables: Tables, table: LoadedTable, order: TableOrder, now_ms: int
) -> Preview:
    seen = archive_preview(tables, table, order, now_ms)
    if isinstance(seen, str):
        return Preview(refused=seen)
    waiting = f" {seen.waiting} files wait until their deletes are applied." * bool(seen.waiting)
    return Preview(
        files=len(seen.files),
        bytes=sum(one.bytes for one in seen.files),
        partitions=len({one.scope for one in seen.files}),
        says=f"They would move to {seen.archive}, {seen.state}.{waiting}",
    )


def _preview_tags(tables: Tables, table: LoadedTable, order: TableOrder, now_ms: int) -> Preview:
    limits = resolve_thresholds(settings_of(tables, table, order.policies))
    if why := refusal_of_tags(limits, order.ordered_at_ms, now_ms):
        return Preview(refused=": ".join(why))
    wanted = wanted_tags(table, limits, now_ms)
    if taken := [one.name for one in wanted if one.is_another]:
        return Preview(refused=f"{TAG_EXISTS}: {', '.join(taken)}")
    made = [f"{one.name} at snapshot {one.snapshot_id}" for one in wanted if one.is_missing]
    if made:
        return Preview(says=f"Tags that would be made: {', '.join(made)}.")
    return Preview(says="No tag would be made: they are there, or the state has expired.")


def _preview_upgrade(tables: Tables, table: LoadedTable, order: TableOrder, now_ms: int) -> Preview:
    """Preview a format upgrade, with the delete files that become vectors afterwards."""
    limits = resolve_thresholds(settings_of(tables, table, order.policies))
    if why := refusal_of_upgrade(order, limits, now_ms):
        return Preview(refused=": ".join(why))
    held = v2_deletes(table, table.head(MAIN).snapshot_id)
    if table.format_version < VECTORS and (why := find_obstacle(table, limits, now_ms)):
        return Preview(refused=": ".join(why))
    if table.format_version >= VECTORS:
        return Preview(says=f"It has format version {table.format_version} already.")
    yield_to_writers(table, MAIN, now_ms)
    return Preview(
        says=f"Format version {table.format_version} would become {VECTORS}, by metadata alone. "
        "It cannot be undone: engines that do not know v3 can neither read nor write the table any "
        f"more. It holds {held['equality_delete_files']:,.0f} equality-delete files and "
        f"{held['position_delete_files']:,.0f} position-delete files, in "
        f"{held['partitions_with_v2_deletes']:,.0f} partitions: deletion vectors take their place "
        "afterwards."
    )


def _preview_statistics(tables: Tables, table: LoadedTable, order: TableOrder) -> Preview:
    """Return an upper bound of what would be read: readers skip blocks of files, and columns that
    are not asked for."""
    wish = wish_of(table, order, limits_of(tables, table, order))
    if not wish.columns:
        return Preview(verb="read")
    live = live_files(table, table.head(MAIN).snapshot_id)
    equality = sum(one.kind is DeleteKind.EQUALITY for one in live.deletes)
    return Preview(
        files=len(live.data),
        bytes=_total_bytes(live.data) + sum(one.bytes for one in live.deletes),
        equality_deletes=equality,
        position_deletes=len(live.deletes) - equality,
        columns=wish.columns,
        verb="read",
    )


def _preview_orphans(tables: Tables, table: LoadedTable, order: TableOrder, now_ms: int) -> Preview:
    """Preview the removal of orphans, by this host's clock: reading the storage's clock requires
    writing a file."""
    refuse_unclear(tables, table)
    older_than_ms = now_ms - int(order.numbers["min_age_h"] * HOUR_MS)
    inventory = inventory_of(tables, table, order)
    found = find_orphans(table, RetainedNames(table), Storage(table), older_than_ms, inventory)
    return Preview(files=len(found.files), bytes=found.total_bytes)


def _total_bytes(files: Iterable[DataFileEntry]) -> int:
    return sum(file.bytes for file in files)
