"""What is new in a table since it was last published, oldest first: from two readings alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from firnline_domain.base.values import Value, amount_of, moment_near, replace
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.events import (
    RefMoved,
    SnapshotAdded,
    TableChange,
    TableCommitted,
    commit_event_id,
)
from firnline_domain.settings.thresholds import NAMESPACE
from firnline_iceberg.table.catalog_client import StoredMetadata
from firnline_iceberg.table.metadata_json import Metadata, branch_heads, snapshot_in

from firnline_listener.core.known_tables import KnownTable

MAX_CHAIN = 500  # snapshots; beyond, the planner counts the table once
SOURCE = "listener"
_SETTINGS = ("firnline.", "write.", "history.expire.", "commit.", "gc.")
_OUTLINE = (
    *("format-version", "location", "current-schema-id", "default-spec-id"),
    *("default-sort-order-id", "properties"),
)


class Found(Value):
    """What a reading of a table led to."""

    events: tuple[TableCommitted, ...]
    known: KnownTable


def find_changes(
    known: KnownTable | None, table: TableName, stored: StoredMetadata, now_ms: int
) -> Found:
    """Return the events that lead from what was last published to what the catalog shows. Raises
    KeyError, TypeError, ValueError for metadata that are none."""
    metadata = stored.metadata
    after = KnownTable(
        table,
        branch_heads(metadata),
        None if known is None else known.folded,
        moment_near(int(metadata.get("last-updated-ms") or now_ms)),
        outline=_digest(metadata),
        retained=len(metadata.get("snapshots") or ()),
        location=stored.location,
        etag=stored.etag,
    )
    events = _first_sight(after, now_ms) if known is None else _news(known, after, metadata, now_ms)
    size = amount_of(stored.size_bytes)
    return Found(tuple(replace(one, metadata_bytes=size) for one in events), after)


def drop_event(known: KnownTable, now_ms: int) -> TableCommitted:
    """Return the event of a table that the catalog has no more."""
    return _event(known.table, TableChange.DROPPED, now_ms)


def rename_event(old: TableName, new: TableName, now_ms: int) -> TableCommitted:
    """Return the event of a table that has another name now."""
    event = _event(new, TableChange.RENAMED, now_ms, metadata_changed=True)
    return replace(event, renamed_from=old.path)


def _first_sight(after: KnownTable, now_ms: int) -> list[TableCommitted]:
    """Return one event that makes the planner count the whole table."""
    change = TableChange.REGISTERED if after.heads.get(MAIN) else TableChange.CREATED
    return [_event(after.table, change, now_ms, metadata_changed=True)]


def _news(
    known: KnownTable, after: KnownTable, metadata: Metadata, now_ms: int
) -> list[TableCommitted]:
    events = [
        _event(after.table, TableChange.COMMITTED, now_ms, snapshots, refs)
        for snapshots, refs in _moves(known, after, metadata)
    ]
    added = {one.snapshot_id for event in events for one in event.snapshots}
    expired = _count_expired(known, after, len(added))
    changed = _is_changed(known, after, metadata.get("properties") or {})
    if not events and (expired or changed):
        return [_event(after.table, TableChange.COMMITTED, now_ms, (), (), changed, expired)]
    if events:
        events[0] = replace(events[0], metadata_changed=changed)
        events[-1] = replace(events[-1], expired_snapshots=expired)
    return events


def _is_changed(known: KnownTable, after: KnownTable, properties: Mapping[str, str]) -> bool:
    """Return whether schema, spec or properties changed. After a restart, whether the properties
    are others than the planner's."""
    if known.is_read:
        return known.outline != after.outline
    own = {name: one for name, one in known.settings.items() if not name.startswith(NAMESPACE)}
    return any(properties.get(name) != one for name, one in own.items()) or any(
        name.startswith(_SETTINGS) and name not in own for name in properties
    )


def _count_expired(known: KnownTable, after: KnownTable, added: int) -> int:
    """Return how many snapshots were removed since."""
    if known.retained is None or after.retained is None:
        return 0
    return max(known.retained + added - after.retained, 0)


def _moves(
    known: KnownTable, after: KnownTable, metadata: Metadata
) -> Iterator[tuple[tuple[SnapshotAdded, ...], tuple[RefMoved, ...]]]:
    """Yield the snapshots and the moves of each event: of `main` first, one snapshot each."""
    kept = {one["snapshot-id"]: one for one in metadata.get("snapshots") or ()}
    published: set[int | None] = {
        head for head in (*known.heads.values(), known.folded) if head is not None
    }
    for ref in sorted(after.heads, key=lambda ref: (ref != MAIN, ref)):
        head = after.heads[ref]
        if head == known.heads.get(ref) or (ref == MAIN and head == known.folded):
            continue
        if ref != MAIN and not known.is_read and after.changed_ms <= known.changed_ms:
            continue  # as old as the planner's state
        stops = {known.heads.get(MAIN), known.folded} - {None} if ref == MAIN else published
        chain = _chain_between(head, stops, kept)
        for sent in chain:
            added = snapshot_in(sent)
            move = RefMoved(ref, "branch", added.snapshot_id, added.parent_snapshot_id)
            yield (added,), (move,)
        if not chain:
            yield (), (RefMoved(ref, "branch", head),)
        published |= {one["snapshot-id"] for one in chain} | {head}
    for ref in known.heads.keys() - after.heads.keys():
        yield (), (RefMoved(ref, "branch", None),)


def _chain_between(
    head: int | None, stops: Collection[int | None], kept: dict[Any, Metadata]
) -> list[Metadata]:
    """Return the snapshots from a published one up to the head, oldest first; empty if none leads
    there: after a rollback, an expiry of what is between, or too many commits."""
    chain: list[Metadata] = []
    at = head
    while at in kept and at not in stops and len(chain) < MAX_CHAIN:
        chain.append(kept[at])
        at = kept[at].get("parent-snapshot-id")
    is_connected = at in stops or (at is None and not stops)
    return chain[::-1] if is_connected else []


def _event(
    table: TableName,
    change: TableChange,
    now_ms: int,
    snapshots: tuple[SnapshotAdded, ...] = (),
    refs: tuple[RefMoved, ...] = (),
    metadata_changed: bool = False,
    expired: int = 0,
) -> TableCommitted:
    return TableCommitted(
        event_id=commit_event_id(table.key, change, snapshots, refs, f"{SOURCE} {now_ms}"),
        table=table,
        change=change,
        snapshots=snapshots,
        refs=refs,
        expired_snapshot_ids=(),
        metadata_changed=metadata_changed,
        committed_at_ms=snapshots[-1].timestamp_ms if snapshots else moment_near(now_ms),
        source=SOURCE,
        expired_snapshots=expired,
    )


def _digest(metadata: Metadata) -> bytes:
    """Return a digest of what a reader must know of a table besides its snapshots."""
    told = json.dumps([metadata.get(one) for one in _OUTLINE], sort_keys=True, default=str)
    return hashlib.sha256(told.encode(errors="replace")).digest()[:16]
