"""Missing changes: hold what came too early, wait a little, then ask the enricher (rule 1)."""

from __future__ import annotations

from enum import StrEnum

from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import MissingChanges, TableCounters
from firnline_domain.records.events import ChangeKind, FilesChanged
from firnline_domain.records.orders import ResyncTable

HELD_CHANGES = 32  # more are dropped: the resync brings them again
HELD_PARTITIONS = 1_000  # over all held changes: 0.4 MB in a changelog record of at most 1 MB
HELD_BYTES = 500_000  # the same where names are long, or settings
PARTITION_BYTES = 330  # of one without its name
PATIENCE_MS = 3_000  # a reordered delivery comes within that; a lost one never
ASK_AGAIN_MS = 10_000  # doubles with each ask
ASK_AGAIN_MAX_MS = 300_000
AHEAD_MS = 60_000  # that clocks of two hosts may differ; a table is never blocked for longer
DELTA_ASKS = 2  # after so many answers that did not help, ask for absolute counters


class ResyncReason(StrEnum):
    """Reasons why a table waits for the enricher."""

    MISSING_PARENT = "missing_parent"  # the snapshot before it has not come
    FIRST_SEEN = "first_seen"  # a table that lived before us
    REPLACED = "replaced"  # a snapshot without a parent on a table that has a head
    REF_MOVED = "ref_moved"  # rollback or fast-forward whose difference is not known
    CHUNK_LOST = "chunk_lost"  # another change came before all chunks of a big one
    OVERFLOW = "overflow"  # too many changes were held
    NEGATIVE = "negative"  # more was removed than was there: the counters are wrong
    MISCOUNTED = "miscounted"  # the partitions do not add up to the table
    OTHER_NAME = "other_name"  # a table of another name has its uuid: is it there yet?


AT_ONCE = frozenset(ResyncReason) - {ResyncReason.MISSING_PARENT, ResyncReason.CHUNK_LOST}
ABSOLUTE_ONLY = frozenset(ResyncReason) - {ResyncReason.MISSING_PARENT, ResyncReason.REF_MOVED}


def wait_for_resync(
    table: TableCounters, reason: ResyncReason, now_ms: int, wanted: int | None = None
) -> TableCounters:
    """Note that something is missing. A graver reason takes over and asks anew."""
    waiting = table.waiting
    absolute = reason in ABSOLUTE_ONLY
    if waiting and (waiting.absolute or not absolute) and reason is not ResyncReason.REF_MOVED:
        return table
    fresh = MissingChanges(
        reason=reason,
        since_ms=now_ms,
        absolute=absolute or bool(waiting and waiting.absolute),
        wanted_snapshot_id=wanted,
    )
    return replace(table, waiting=fresh)


def not_ahead(change: FilesChanged, now_ms: int) -> FilesChanged:
    """Return the change dated now if it is dated later: the observer's clock is ahead, and every
    later answer would be stale for as long."""
    if change.observed_at_ms <= now_ms + AHEAD_MS:
        return change
    return replace(change, observed_at_ms=now_ms)


def hold_change(
    table: TableCounters, change: FilesChanged, reason: ResyncReason, now_ms: int
) -> TableCounters:
    """Keep a change that cannot be folded yet."""
    place = (change.event_id, change.chunk)
    if any((known.event_id, known.chunk) == place for known in table.held):
        return table
    held = (*table.held, not_ahead(change, now_ms))
    partitions = sum(len(change.partitions) for change in held)
    if len(held) > HELD_CHANGES or partitions > HELD_PARTITIONS or _held_bytes(held) > HELD_BYTES:
        return wait_for_resync(replace(table, held=()), ResyncReason.OVERFLOW, now_ms)
    return wait_for_resync(replace(table, held=held), reason, now_ms)


def _held_bytes(held: tuple[FilesChanged, ...]) -> int:
    """Estimate the bytes that held changes take in the state."""
    named = sum(len(p.scope.partition.encode()) for change in held for p in change.partitions)
    said = (one for change in held for one in (*change.settings.items(), *change.facts.items()))
    settings = sum(len(f"{name}{value}".encode()) for name, value in said)
    return PARTITION_BYTES * sum(len(change.partitions) for change in held) + named + settings


def next_held(table: TableCounters) -> FilesChanged | None:
    """Return a held change that follows the head or is already folded, else None."""
    if table.waiting and table.waiting.absolute:
        return None
    for change in table.held:
        if table.open and table.open.snapshot_id != change.snapshot_id:
            continue  # the head does not move before its chunks are complete
        if change.parent_snapshot_id == table.head_snapshot_id or table.has_snapshot(
            change.snapshot_id
        ):
            return change
    return None


def drop_change(table: TableCounters, change: FilesChanged) -> TableCounters:
    """Return the counters without one held change."""
    if not table.held:
        return table
    place = (change.event_id, change.chunk)  # a copy of it may have another time
    held = tuple(one for one in table.held if (one.event_id, one.chunk) != place)
    return replace(table, held=held)


def drop_superseded(table: TableCounters, observed_at_ms: int) -> TableCounters:
    """Drop the held changes that folded absolute counters contain.

    That is every ancestor of the head by the links of held changes, and every change observed
    before the table was read."""
    inside = _known_ancestors(table)
    held = tuple(
        change
        for change in table.held
        if change.snapshot_id not in inside and not 0 < change.observed_at_ms < observed_at_ms
    )
    return replace(table, held=held)


def _known_ancestors(table: TableCounters) -> set[int | None]:
    parents = table.recent.parent_by_id()
    for change in table.held:
        if change.snapshot_id is not None:
            parents[change.snapshot_id] = change.parent_snapshot_id
    ancestors: set[int | None] = set()
    step = table.head_snapshot_id
    while step is not None and step not in ancestors:
        ancestors.add(step)
        step = parents.get(step)
    return ancestors


def settle_waiting(table: TableCounters, now_ms: int) -> TableCounters:
    """Stop waiting where nothing is missing any more; start anew where something still is."""
    waiting = table.waiting
    if table.open and table.open.kind is ChangeKind.ABSOLUTE:
        return wait_for_resync(table, ResyncReason.CHUNK_LOST, now_ms)
    if table.held or table.open:
        return wait_for_resync(table, ResyncReason.MISSING_PARENT, now_ms)
    if waiting is None or waiting.absolute:
        return table
    if waiting.reason == ResyncReason.REF_MOVED and waiting.wanted_snapshot_id != (
        table.head_snapshot_id
    ):
        return table
    return replace(table, waiting=None)


def resync_ms(table: TableCounters) -> int | None:
    """Return when to ask the enricher, next or again; None while nothing is missing."""
    waiting = table.waiting
    if waiting is None:
        return None
    if waiting.asked_ms is None:
        at_once = waiting.reason in AT_ONCE
        return waiting.since_ms if at_once else waiting.since_ms + PATIENCE_MS
    pause = min(ASK_AGAIN_MS << min(waiting.asks - 1, 10), ASK_AGAIN_MAX_MS)
    return waiting.asked_ms + pause


def _not_ahead(table: TableCounters, now_ms: int) -> TableCounters:
    """Return the table with request times no later than now: a clock that was set back must not
    delay the next request."""
    waiting = table.waiting
    if waiting is None or max(waiting.since_ms, waiting.asked_ms or 0) <= now_ms:
        return table
    asked_ms = None if waiting.asked_ms is None else min(waiting.asked_ms, now_ms)
    since_ms = min(waiting.since_ms, now_ms)
    return replace(table, waiting=replace(waiting, since_ms=since_ms, asked_ms=asked_ms))


def resync_request(table: TableCounters, now_ms: int) -> tuple[TableCounters, ResyncTable | None]:
    """Return the request that is due now, or None, and the table with it noted."""
    table = _not_ahead(table, now_ms)
    due, waiting = resync_ms(table), table.waiting
    if waiting is None or due is None or due > now_ms:
        return table, None
    absolute = waiting.absolute or waiting.asks >= DELTA_ASKS or not table.known
    request = ResyncTable(
        table=table.table,
        ref=table.ref,
        known_snapshot_id=None if absolute else table.head_snapshot_id,
        wanted_snapshot_id=None,
        reason=waiting.reason,
        requested_at_ms=now_ms,
    )
    asked = replace(waiting, asked_ms=now_ms, asks=waiting.asks + 1)
    return replace(table, waiting=asked), request
