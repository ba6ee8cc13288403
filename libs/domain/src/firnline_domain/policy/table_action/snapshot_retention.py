"""Is a table's oldest snapshot old enough to expire: a pure function of values.

Unless firnline.expire.enabled=true says that it may, an expiry is announced first: a worker finds
out what would go, people are told, and nothing goes before the grace period is over. A table with
files outside its own locations is left alone (docs/decisions/0018).
"""

from __future__ import annotations

from collections.abc import Mapping

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.work import ExpiryWork, Table
from firnline_domain.identity import MAIN, task_id
from firnline_domain.policy.fleet.holds import find_hold
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.base import DEADLINE_MS, again_ms, end_round
from firnline_domain.records.orders import ExpireSnapshots
from firnline_domain.records.results import GRACE_PERIOD, ExpiryPreview, SnapshotsExpired
from firnline_domain.settings.policies import split_policies
from firnline_domain.settings.ref_rules import parse_ref_rules
from firnline_domain.settings.rule_lists import find_problem
from firnline_domain.settings.thresholds import (
    EXPIRE_ENABLED,
    ExpiryMode,
    Thresholds,
    resolve_thresholds,
)


class ExpiryReason(ReasonCode):
    """Reasons why expiry was, or was not, ordered, that are of no other action."""

    OLD_SNAPSHOTS = (
        "old_snapshots",
        "Snapshots are older than the retention: an expiry is scheduled.",
        "snapshots are older than the retention",
    )
    ANNOUNCED = (
        "expiry_announced",
        "A worker counts the files that would be deleted, for the announcement.",
        "counting files that would be deleted, for the announcement",
    )
    IN_FLIGHT = (
        "expiry_in_flight",
        "An expiry is scheduled or running.",
        "an expiry is scheduled or running",
    )
    GC_DISABLED = (
        "gc_disabled",
        "`gc.enabled=false`: another table may share the files.",
        "disabled by gc.enabled=false",
    )
    NEVER = (
        "expire_disabled",
        "`firnline.expire.enabled=false` is set.",
        "switched off (firnline.expire.enabled=false)",
    )
    EXTERNAL_FILES = (
        "external_files",
        "The table has, or had, files outside its own locations, which other tables may use. "
        "`firnline.expire.enabled=true` on the table itself permits expiry.",
        "the table has, or had, files outside its own locations; firnline.expire.enabled=true "
        "on the table permits expiry",
    )
    UNREADABLE_RULES = (
        "unreadable_rules",
        "`firnline.expire.tags` or `firnline.expire.branches` cannot be parsed. Nothing "
        "expires until it is corrected.",
        "firnline.expire.tags or firnline.expire.branches cannot be read; waits until it is "
        "corrected",
    )
    GRACE_PERIOD = (
        GRACE_PERIOD,
        "The expiry was announced and starts after `firnline.expire.grace-ms`.",
        "announced, starts after firnline.expire.grace-ms; firnline.expire.enabled=false stops "
        "it, =true starts it now",
    )
    NOTHING_OLD_ENOUGH = (
        "nothing_old_enough",
        "No snapshot is older than the retention.",
        "no snapshot is old enough",
    )
    TOO_FEW = (
        "too_few_snapshots",
        "The table has no more snapshots than `history.expire.min-snapshots-to-keep`.",
        "no more snapshots than the table keeps (history.expire.min-snapshots-to-keep)",
    )
    TOO_SOON = (
        "too_soon",
        "The last expiry was less than `firnline.expire.min-interval-ms` ago.",
        "the last expiry was recent (firnline.expire.min-interval-ms)",
    )
    HELD_BY_TASK = (
        "held_by_task",
        "A running task may still read every snapshot that is old enough.",
        "a running task may still read the old snapshots",
    )
    UNKNOWN = (
        "snapshots_unknown",
        "The number of snapshots is unknown after an expiry by another program or a commit to "
        "another branch.",
        "the number of snapshots is not known yet",
    )


EXPIRE = "expire"


GC_ENABLED = "gc.enabled"  # as Java reads it: whatever is not `true` is false
SHARED_BY = ("migrated", "snapshot")  # properties of tables made from the files of others


def may_share_files(settings: Mapping[str, str]) -> bool:
    """Return True if Iceberg's `migrate` or `snapshot` created the table, by the properties that
    they set."""
    said = [settings[name] for name in SHARED_BY if name in settings]
    return any(value.strip().lower() == "true" for value in said) if said else False


def owner_agrees(settings: Mapping[str, str]) -> bool:
    """Return True if the table's own property is firnline.expire.enabled=true: for files outside
    its locations neither the namespace's setting nor the deployment's is enough."""
    return settings.get(EXPIRE_ENABLED, "").strip().lower() == ExpiryMode.ALWAYS


def refusal_reason(order: ExpireSnapshots, settings: Mapping[str, str], now_ms: int) -> str | None:
    """Return why an expiry is not carried out, by the current properties of table and namespace
    (`with_namespace`), else None: the task may have waited for hours."""
    expire = ExpiryMode.ALWAYS if order.agreed else ExpiryMode.CAREFUL
    limits = resolve_thresholds(settings, Thresholds(expire=expire, expire_grace_ms=order.grace_ms))
    if not limits.enabled:
        return Reason.DISABLED
    if not limits.gc_enabled or settings.get(GC_ENABLED, "true").strip().lower() != "true":
        return ExpiryReason.GC_DISABLED  # files are shared: snapshot(), migrate()
    if limits.expire is ExpiryMode.NEVER:
        return ExpiryReason.NEVER
    if may_share_files(settings) and not owner_agrees(settings):
        return ExpiryReason.EXTERNAL_FILES
    if find_problem(parse_ref_rules, limits.expire_tags) or find_problem(
        parse_ref_rules, limits.expire_branches
    ):
        return ExpiryReason.UNREADABLE_RULES
    announcing = order.begins_at_ms is not None
    if limits.expire is ExpiryMode.CAREFUL and not announcing:
        announced = order.announced_at_ms
        if announced is None or not announced <= now_ms - limits.expire_grace_ms:
            return ExpiryReason.GRACE_PERIOD
    return None


def configured_retention(settings: Mapping[str, str]) -> tuple[int, int]:
    """Return how long snapshots are to be kept, and how many, by table and namespace; 0 and 1 where
    they are not set."""
    silent = Thresholds(expire=ExpiryMode.ALWAYS, max_snapshot_age_ms=0)
    limits = resolve_thresholds(settings, silent)
    return limits.retention_ms, max(limits.min_snapshots, 1)


def configured_ref_rules(settings: Mapping[str, str]) -> tuple[str, str]:
    """Return what table and namespace set for tags, and for branches (`parse_ref_rules`)."""
    limits = resolve_thresholds(settings)
    return limits.expire_tags, limits.expire_branches


def configured_metadata_versions(settings: Mapping[str, str]) -> int:
    """Return how many old metadata files table or namespace want to be kept; 0 where it is not
    set."""
    return resolve_thresholds(settings).metadata_versions


class ExpiryDecision(Value):
    """`until_ms`: when time alone may change it."""

    reason: ReasonCode
    until_ms: int | None = None
    older_than_ms: int | None = None  # set where ordered
    begins_ms: int | None = None  # set where it is to be announced


def decide_expiry(given: TableInput) -> ExpiryDecision:
    """Decide whether to expire snapshots now, or to announce it."""
    if barred := _blocking_decision(given):
        return barred
    table, settings, now_ms = given.table, given.settings, given.now_ms
    oldest, expiry = table.counters.oldest_snapshot_ms, table.work.expiry
    assert oldest is not None  # else barred
    careful = settings.expire is ExpiryMode.CAREFUL
    announcing = careful and not expiry.is_announced(now_ms)
    begins = begins_ms(given)
    if careful and not announcing and now_ms < _grace_end_ms(given):
        return ExpiryDecision(ExpiryReason.GRACE_PERIOD, begins)
    due = oldest + settings.retention_ms + 1  # "older than" leaves out the moment itself
    from_ms = due - settings.expire_grace_ms if announcing else due
    if now_ms < from_ms:
        return ExpiryDecision(ExpiryReason.NOTHING_OLD_ENOUGH, from_ms)
    if (again := again_ms(expiry, settings.expire_interval_ms, now_ms)) > now_ms:
        return ExpiryDecision(ExpiryReason.TOO_SOON, again)
    if announcing:
        return _decide_announcement(given, begins)
    older_than = older_than_ms(given)
    if oldest >= older_than:
        return ExpiryDecision(ExpiryReason.HELD_BY_TASK)
    if hold := find_hold(given):
        return ExpiryDecision(Reason(hold.reason), hold.until_ms)
    return ExpiryDecision(ExpiryReason.OLD_SNAPSHOTS, now_ms + DEADLINE_MS, older_than)


def older_than_ms(given: TableInput) -> int:
    """Return before when snapshots may expire, in ms since 1970: not those that a running task
    started from."""
    running = (task.ordered_at_ms for task in given.table.work.running)
    return min(given.now_ms - given.settings.retention_ms, *running, given.now_ms)


def begins_ms(given: TableInput) -> int:
    """Return when snapshots begin to go, as far as it is known now: old enough, and the grace
    period over since the announcement, which is made now where it is still to come."""
    oldest, settings = given.table.counters.oldest_snapshot_ms, given.settings
    due = (given.now_ms if oldest is None else oldest) + settings.retention_ms + 1
    return due if settings.expire is ExpiryMode.ALWAYS else max(due, _grace_end_ms(given))


def _grace_end_ms(given: TableInput) -> int:
    """Return when the grace period is over."""
    expiry, now_ms = given.table.work.expiry, given.now_ms
    announced = expiry.announced_ms if expiry.is_announced(now_ms) else now_ms
    return (announced or 0) + given.settings.expire_grace_ms


def _decide_announcement(given: TableInput, begins: int) -> ExpiryDecision:
    """Decide on an announcement. Nothing is deleted, so windows do not matter; a pause and the
    shadow do."""
    if given.table.pause is not None:
        return ExpiryDecision(Reason.PAUSED)
    if given.settings.shadow:
        return ExpiryDecision(Reason.SHADOW)
    older_than = begins - given.settings.retention_ms
    return ExpiryDecision(ExpiryReason.ANNOUNCED, given.now_ms + DEADLINE_MS, older_than, begins)


def _blocking_decision(given: TableInput) -> ExpiryDecision | None:
    settings, counters, expiry = given.settings, given.table.counters, given.table.work.expiry
    if counters.removed:
        return ExpiryDecision(Reason.REMOVED)
    if not settings.enabled:
        return ExpiryDecision(Reason.DISABLED)
    if not settings.gc_enabled:
        return ExpiryDecision(ExpiryReason.GC_DISABLED)
    if settings.expire is ExpiryMode.NEVER:
        return ExpiryDecision(ExpiryReason.NEVER)
    external = counters.has_external_files or may_share_files(counters.settings)
    if external and not owner_agrees(counters.settings):
        return ExpiryDecision(ExpiryReason.EXTERNAL_FILES)
    if expiry.task_id and given.now_ms < expiry.deadline_ms:
        return ExpiryDecision(ExpiryReason.IN_FLIGHT, expiry.deadline_ms)
    if counters.oldest_snapshot_ms is None or counters.head_snapshot_id is None:
        return ExpiryDecision(ExpiryReason.UNKNOWN)
    count = counters.snapshot_count
    if count is not None and count <= max(settings.min_snapshots, 1):
        return ExpiryDecision(ExpiryReason.TOO_FEW)
    return None


def expiry_order(given: TableInput, decision: ExpiryDecision) -> tuple[ExpireSnapshots, ExpiryWork]:
    """Build the task, and the planner's record of it.

    A running task plans from the head that it finds, which is its trigger or was committed after
    this task was sent: protected by name, or by age."""
    counters, work = given.table.counters, given.table.work
    settings, now_ms = given.settings, given.now_ms
    assert decision.older_than_ms is not None
    assert counters.head_snapshot_id is not None
    identity = task_id(
        counters.table.key, MAIN, str(work.expiry.rounds), EXPIRE, counters.head_snapshot_id
    )
    order = ExpireSnapshots(
        task_id=identity,
        table=counters.table,
        action=EXPIRE,
        reason=decision.reason,
        trigger_snapshot_id=counters.head_snapshot_id,
        attempt=1,
        ordered_at_ms=now_ms,
        deadline_ms=now_ms + DEADLINE_MS,
        older_than_ms=decision.older_than_ms,
        retain_last=max(settings.min_snapshots, 1),
        protected_snapshot_ids=tuple(sorted({t.trigger_snapshot_id for t in work.running})),
        begins_at_ms=decision.begins_ms,
        agreed=settings.expire is ExpiryMode.ALWAYS,
        announced_at_ms=work.expiry.announced_ms,
        grace_ms=settings.expire_grace_ms,
        policies=split_policies(counters.settings),
    )
    return order, replace(work.expiry, task_id=identity, deadline_ms=order.deadline_ms)


def expiry_ended(expiry: ExpiryWork, expired: int, refused: str, now_ms: int) -> ExpiryWork:
    """Return the work after an expiry with its result, or the reason of its refusal."""
    after = end_round(expiry, expired > 0, refused, now_ms)
    return replace(after, unobserved=expiry.unobserved + expired)


def retry_allowed(expiry: ExpiryWork) -> ExpiryWork:
    """Return the work after a change of the table's settings: a refused expiry may be repeated at
    once."""
    if not expiry.refused:
        return expiry
    return replace(expiry, refused="", finished_ms=None, fruitless=0)


def after_announcement(expiry: ExpiryWork, outcome: SnapshotsExpired, now_ms: int) -> ExpiryWork:
    """Record an announcement: what would go is known, and published: the grace period begins."""
    return ExpiryWork(
        rounds=expiry.rounds + 1,
        unobserved=expiry.unobserved,
        announced_ms=now_ms,
        going=ExpiryPreview(outcome.going_snapshots, outcome.going_files, outcome.going_bytes),
    )


def after_expired(table: Table, snapshots: int) -> Table:
    """Return the table after a commit that expired snapshots: Firnline's own, also reported by its
    result, or another's.

    How many are left after another's is unknown here. That is safe: the next task is then limited
    only by age, and its result contains the number."""
    expiry = table.work.expiry
    reported = replace(expiry, unobserved=expiry.unobserved - snapshots)
    ours = expiry.task_id is not None or reported.unobserved >= 0
    if ours:
        return replace(table, work=replace(table.work, expiry=reported))
    return replace(table, counters=replace(table.counters, snapshot_count=None))
