"""Is a table's oldest snapshot old enough to expire: a pure function of values."""

from __future__ import annotations

from enum import StrEnum

from firnline_domain.commands import ExpireSnapshots
from firnline_domain.holds import HoldReason, hold_of
from firnline_domain.identity import MAIN, task_id
from firnline_domain.progress import ExpiryWork, Table
from firnline_domain.thresholds import DAY_MS, Thresholds
from firnline_domain.values import Value, replace

EXPIRE = "expire"
DEADLINE_MS = 3_600_000  # an order without an answer counts as lost then


class ExpiryReason(StrEnum):
    """Why expiry was, or was not, ordered."""

    OLD_SNAPSHOTS = "old_snapshots"  # ordered
    IN_FLIGHT = "expiry_in_flight"
    GC_DISABLED = "gc_disabled"  # gc.enabled=false: the table's owner forbids it
    DISABLED = "disabled"
    NOTHING_OLD_ENOUGH = "nothing_old_enough"
    TOO_FEW = "too_few_snapshots"  # no more than min-snapshots-to-keep
    TOO_SOON = "too_soon"  # the last one was less than the interval ago
    HELD_BY_TASK = "held_by_task"  # a task in flight may read everything that is old enough
    PAUSED = HoldReason.PAUSED.value
    BLACKOUT = HoldReason.BLACKOUT.value
    OUTSIDE_WINDOW = HoldReason.OUTSIDE_WINDOW.value
    UNREADABLE_WINDOW = HoldReason.UNREADABLE_WINDOW.value
    SHADOW = HoldReason.SHADOW.value
    UNKNOWN = "snapshots_unknown"
    REMOVED = "removed"


class ExpiryDecision(Value):
    """`until_ms`: when time alone may change it."""

    reason: ExpiryReason
    until_ms: int | None = None
    older_than_ms: int | None = None  # set where ordered


def decide_expiry(table: Table, limits: Thresholds, now_ms: int) -> ExpiryDecision:
    """Whether to expire snapshots now."""
    if barred := _barred(table, limits, now_ms):
        return barred
    oldest = table.counters.oldest_snapshot_ms
    assert oldest is not None  # else barred
    due = oldest + limits.retention_ms + 1  # "older than" leaves out the moment itself
    if now_ms < due:
        return ExpiryDecision(ExpiryReason.NOTHING_OLD_ENOUGH, due)
    if (again := _again_ms(table.work.expiry, limits, now_ms)) > now_ms:
        return ExpiryDecision(ExpiryReason.TOO_SOON, again)
    ordered = (task.ordered_at_ms for task in table.work.running)
    older_than = min(now_ms - limits.retention_ms, *ordered, now_ms)
    if oldest >= older_than:
        return ExpiryDecision(ExpiryReason.HELD_BY_TASK)
    if hold := hold_of(table, limits, now_ms):
        return ExpiryDecision(ExpiryReason(hold.reason), hold.until_ms)
    return ExpiryDecision(ExpiryReason.OLD_SNAPSHOTS, now_ms + DEADLINE_MS, older_than)


def _barred(table: Table, limits: Thresholds, now_ms: int) -> ExpiryDecision | None:
    counters, expiry = table.counters, table.work.expiry
    if counters.removed:
        return ExpiryDecision(ExpiryReason.REMOVED)
    if not limits.enabled:
        return ExpiryDecision(ExpiryReason.DISABLED)
    if not limits.gc_enabled:
        return ExpiryDecision(ExpiryReason.GC_DISABLED)
    if expiry.task_id and now_ms < expiry.deadline_ms:
        return ExpiryDecision(ExpiryReason.IN_FLIGHT, expiry.deadline_ms)
    if counters.oldest_snapshot_ms is None or counters.head_snapshot_id is None:
        return ExpiryDecision(ExpiryReason.UNKNOWN)
    count = counters.snapshot_count
    if count is not None and count <= max(limits.min_snapshots, 1):
        return ExpiryDecision(ExpiryReason.TOO_FEW)
    return None


def _again_ms(expiry: ExpiryWork, limits: Thresholds, now_ms: int) -> int:
    """A round that expired nothing (all held by refs) is repeated ever more rarely."""
    if expiry.finished_ms is None or expiry.finished_ms > now_ms:  # the clock was set back since
        return 0
    pause = limits.expire_interval_ms << min(expiry.fruitless, 12)
    return expiry.finished_ms + min(pause, max(DAY_MS, limits.expire_interval_ms))


def expiry_order(
    table: Table, decision: ExpiryDecision, limits: Thresholds, now_ms: int
) -> tuple[ExpireSnapshots, ExpiryWork]:
    """The order, and what the planner keeps of it.

    A task in flight plans from the head that it finds, which is its trigger or was committed
    after the order: protected by name, or by age.
    """
    counters, work = table.counters, table.work
    assert decision.older_than_ms is not None
    assert counters.head_snapshot_id is not None
    identity = task_id(
        counters.table.uuid, MAIN, str(work.expiry.rounds), EXPIRE, counters.head_snapshot_id
    )
    order = ExpireSnapshots(
        task_id=identity,
        table=counters.table,
        older_than_ms=decision.older_than_ms,
        retain_last=max(limits.min_snapshots, 1),
        protected_snapshot_ids=tuple(sorted({t.trigger_snapshot_id for t in work.running})),
        reason=decision.reason,
        trigger_snapshot_id=counters.head_snapshot_id,
        attempt=1,
        ordered_at_ms=now_ms,
    )
    return order, replace(work.expiry, task_id=identity, deadline_ms=now_ms + DEADLINE_MS)


def expiry_ended(expiry: ExpiryWork, expired: int, refused: str, now_ms: int) -> ExpiryWork:
    """An expiry came back: what it did, or why it was refused."""
    return ExpiryWork(
        rounds=expiry.rounds + 1,
        finished_ms=now_ms,
        fruitless=0 if expired else expiry.fruitless + 1,
        refused=refused,
        untold=expiry.untold + expired,
    )


def after_expired(table: Table, snapshots: int) -> Table:
    """A commit expired so many snapshots: our own expiry, told by its result as well, or another.

    How many are left after another's is not known here: unknown is safe, for the next order is
    then refused by nothing but age, and its result brings the number.
    """
    expiry = table.work.expiry
    told = replace(expiry, untold=expiry.untold - snapshots)
    ours = expiry.task_id is not None or told.untold >= 0
    if ours:
        return replace(table, work=replace(table.work, expiry=told))
    return replace(table, counters=replace(table.counters, snapshot_count=None))
