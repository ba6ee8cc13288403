"""What a partition's debt alone asks for, whatever else is under way. Pure."""

from __future__ import annotations

from firnline_domain.counters.debts import Debt
from firnline_domain.counters.sizes import mendable_error, size_error
from firnline_domain.counters.work import Partition
from firnline_domain.policy.cost_benefit import (
    FAR_MS,
    Action,
    CostBenefit,
    weigh_conversion,
    weigh_merge,
    weigh_positions,
)
from firnline_domain.policy.decisions import NO_FILE, Assessment, Decision, Reason
from firnline_domain.policy.heat import hot_until_ms
from firnline_domain.policy.slices import unfinished_of
from firnline_domain.records.slices import Slice
from firnline_domain.settings.thresholds import Conversions, Thresholds
from firnline_domain.times import earliest
from firnline_domain.values import replace

PRESSING = 2  # at so many times a threshold, a hot partition is not left to cool any longer
CALM = frozenset({Reason.HEALTHY, Reason.FIXED_POINT, Reason.ACCUMULATING, Reason.MINIMUM_GAIN})


def demand_of(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    """An order's reason, or why none is wanted and when time may change that. A compaction, or a
    conversion where that spares more for what it costs, goes before a merge. A pass that has begun
    goes on, whatever is left of its debt."""
    if (after := unfinished_of(partition, limits)) is not None:
        return _next_slice(partition, after, assessment, limits, now_ms)
    compaction = _of_deletes(partition, assessment, limits, now_ms)
    _, grown, _ = assessment
    if not grown.undersized or limits.max_size_error <= 0 or compaction.reason not in CALM:
        return compaction
    merge = weigh_merge(partition, limits)
    return compaction if merge is None else _merge(partition, compaction, merge, limits, now_ms)


def _next_slice(
    partition: Partition, after: Slice, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    """At once; only writers that change rows of its files go before."""
    if hot_until := hot_until_ms(partition.work, limits, now_ms):
        return Decision(Reason.HOT, until_ms=hot_until)
    rank, action = assessment[2].paid_back(now_ms), Action(after.action)
    ratio = after.min_dead_ratio
    return Decision(Reason(after.reason), rank=rank, action=action, min_dead_ratio=ratio)


def _of_deletes(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    debt, grown, compaction = assessment
    asked = limits.convert is Conversions.ALWAYS
    conversion = weigh_conversion(partition, limits, debt, grown)
    if conversion is not None and (asked or conversion.gain > compaction.gain):
        wanted = _compaction(partition, (debt, grown, conversion), limits, now_ms)
        decision = replace(wanted, action=Action.CONVERT, min_dead_ratio=NO_FILE)
    else:
        decision = _compaction(partition, assessment, limits, now_ms)
    positions = weigh_positions(partition, limits)
    if positions is None or decision.reason not in CALM:
        return decision
    return _positions(partition, decision, positions, limits, now_ms)


def _positions(
    partition: Partition, idle: Decision, weighed: CostBenefit, limits: Thresholds, now_ms: int
) -> Decision:
    """What conversions have left is compacted when readers have paid for it; where it is many
    files, when it has waited for long enough; at the latest after the retention, or what was
    deleted would never leave the storage."""
    marks = partition.counters.holds.positional_files
    many = marks >= max(limits.min_position_deletes, 1)
    reason, due_ms = Reason.POSITION_DELETES, weighed.from_ms if many else weighed.paid_ms
    recycled_ms = weighed.since_ms + limits.retention_ms
    if marks and limits.gc_enabled and recycled_ms < due_ms:
        reason, due_ms = Reason.RECYCLING, recycled_ms
    if now_ms < due_ms:
        known_ms = due_ms if due_ms < FAR_MS else None
        return replace(idle, until_ms=earliest(idle.until_ms, known_ms))
    waits_until_ms = weighed.since_ms + limits.max_wait_ms
    if restless := _recently_written(partition, limits, now_ms, waits_until_ms):
        return Decision(restless[0], until_ms=restless[1])
    return Decision(reason, rank=weighed.paid_back(now_ms))


def _merge(
    partition: Partition, compaction: Decision, merge: CostBenefit, limits: Thresholds, now_ms: int
) -> Decision:
    if now_ms < merge.from_ms:
        until_ms = earliest(compaction.until_ms, merge.from_ms)
        if compaction.reason in (Reason.HEALTHY, Reason.FIXED_POINT):
            return Decision(Reason.MINIMUM_GAIN, until_ms=until_ms, action=Action.MERGE)
        return replace(compaction, until_ms=until_ms)
    waits_until_ms = merge.since_ms + limits.max_wait_ms
    if restless := _recently_written(partition, limits, now_ms, waits_until_ms):
        return Decision(restless[0], until_ms=restless[1])
    return Decision(
        Reason.UNDERSIZED,
        rank=merge.paid_back(now_ms),
        action=Action.MERGE,
        min_dead_ratio=NO_FILE,
    )


def _compaction(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    debt, grown, weighed = assessment
    reason = _due(partition, debt, grown, limits, now_ms)
    if reason is None and weighed.paid_ms <= now_ms:
        reason = Reason.READ_DEBT
    if reason is None:
        until_ms = earliest(_aging_until(partition, debt, grown, limits), weighed.paid_at)
        return Decision(_idle(debt, grown, limits), until_ms=until_ms)
    if now_ms < weighed.from_ms:
        return Decision(Reason.MINIMUM_GAIN, until_ms=weighed.from_ms)
    pressing = _over_threshold(_part(grown, PRESSING), limits) is not None
    since_ms = partition.work.debt_since_ms
    waits_until_ms = None if since_ms is None else since_ms + limits.max_wait_ms
    if restless := _recently_written(partition, limits, now_ms, waits_until_ms, pressing):
        return Decision(restless[0], until_ms=restless[1])
    return Decision(reason, rank=weighed.paid_back(now_ms))


def _recently_written(
    partition: Partition,
    limits: Thresholds,
    now_ms: int,
    waits_until_ms: int | None,
    pressing: bool = False,
) -> tuple[Reason, int] | None:
    """Writers are at work in it, and until when it is left to them: not longer than the debt may
    wait, or a writer that never rests would keep its partition from ever being rewritten."""
    if waits_until_ms is not None and waits_until_ms <= now_ms:
        return None
    quiet_at = partition.counters.changed_ms + limits.quiet_ms
    if now_ms < quiet_at and not pressing:
        return Reason.QUIET_PERIOD, min(quiet_at, waits_until_ms or quiet_at)
    if hot_until := hot_until_ms(partition.work, limits, now_ms):
        return Reason.HOT, min(hot_until, waits_until_ms or hot_until)
    return None


def _due(
    partition: Partition, debt: Debt, grown: Debt, limits: Thresholds, now_ms: int
) -> Reason | None:
    """What counts, sizes and age ask for, whatever the price."""
    if reason := _over_threshold(grown, limits):
        return reason
    if grown.fragments > 0 and _ill_sized(partition, limits):
        return Reason.SIZE_ERROR
    old_ms = _aging_until(partition, debt, grown, limits)
    if old_ms is not None and now_ms >= old_ms:
        return Reason.OLD_DEBT
    return None


def _over_threshold(debt: Debt, limits: Thresholds) -> Reason | None:
    if debt.equality_deletes >= max(limits.min_equality_deletes, 1):
        return Reason.EQUALITY_DELETES
    if debt.position_deletes >= max(limits.min_position_deletes, 1):
        return Reason.POSITION_DELETES
    if debt.fragments >= max(limits.min_fragments, 2):
        return Reason.FRAGMENTS
    if debt.global_deletes >= max(limits.min_equality_deletes, 1):
        return Reason.GLOBAL_DELETES
    return None


def _worth_it(debt: Debt, grown: Debt) -> bool:
    """A lone fragment has nothing to be merged with; any delete file can be applied."""
    deletes = grown.equality_deletes + grown.position_deletes + grown.global_deletes
    return deletes > 0 or (grown.fragments > 0 and debt.fragments > 1)


def _idle(debt: Debt, grown: Debt, limits: Thresholds) -> Reason:
    if any(grown.compactable):
        return Reason.ACCUMULATING
    left = debt.undersized > 0 or _over_threshold(debt, limits)
    return Reason.FIXED_POINT if left else Reason.HEALTHY


def _aging_until(partition: Partition, debt: Debt, grown: Debt, limits: Thresholds) -> int | None:
    since = partition.work.debt_since_ms
    if since is None or not _worth_it(debt, grown):
        return None
    return since + int(limits.max_age_ms * (1 - partition.work.head_start))


def _ill_sized(partition: Partition, limits: Thresholds) -> bool:
    """The partition is off its target, and a merge brings what it takes nearer by as much."""
    holds, target, most = partition.counters.holds, limits.target_bytes, limits.max_size_error
    return 0 < most <= mendable_error(holds, target) and most <= size_error(holds, target)


def _part(debt: Debt, divisor: int) -> Debt:
    return Debt(*(count // divisor for count in debt.counts))
