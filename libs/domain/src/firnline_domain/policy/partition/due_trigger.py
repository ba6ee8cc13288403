"""Decide what a partition's debt alone asks for, whatever else is under way. Pure."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS, earliest_of
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.file_sizes import mendable_error, size_error
from firnline_domain.counters.state.work import Partition
from firnline_domain.policy.cost.cost_benefit import (
    FAR_MS,
    Action,
    CostBenefit,
    rewrites_everything,
    surplus_positions,
    weigh_merge,
)
from firnline_domain.policy.reasons.partition import (
    EVERY_FILE,
    NO_FILE,
    ORDERS,
    Assessment,
    Decision,
    Reason,
)
from firnline_domain.policy.triggers.dead_files import (
    SURE_RATIO,
    dead_rows_since,
    look_ms,
    ratio_steps,
)
from firnline_domain.policy.triggers.freezing import FREEZE, freezes_at_ms, is_frozen
from firnline_domain.policy.triggers.full_rewrites import full_at_ms
from firnline_domain.policy.triggers.hot_partitions import hot_until_ms
from firnline_domain.policy.triggers.objectives import endangered_ms
from firnline_domain.policy.triggers.slices import slice_max_bytes, unfinished_of
from firnline_domain.policy.triggers.sorting import sort_at_ms
from firnline_domain.records.parts.slices import Slice
from firnline_domain.settings.thresholds import ConversionPolicy, Thresholds

FIRST = 1e9  # a rank that no debt comes to
PRESSING = 2  # at so many times a threshold, a hot partition is not left to cool any longer
CALM = frozenset(
    {Reason.HEALTHY, Reason.FIXED_POINT, Reason.ACCUMULATING, Reason.MINIMUM_GAIN, Reason.FROZEN}
)


def demand_of(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    """An order's reason, or why none is wanted and when time may change that. A pass that has begun
    goes on, whatever is left of its debt. What is frozen asks for nothing. A full rewrite that is
    due goes before all others: it does their work, too."""
    if (after := unfinished_of(partition, limits)) is not None:
        return _next_slice(partition, after, assessment, limits, now_ms)
    if partition.work.requested:
        return as_requested(partition.work.requested)
    if is_frozen(partition, assessment[1].global_deletes, limits, now_ms):
        return _or_sort(Decision(Reason.FROZEN), partition, limits, now_ms)
    freeze_ms = freezes_at_ms(partition, limits)
    if freeze_ms is None:
        return _of_interval(partition, assessment, limits, now_ms)
    if freeze_ms <= now_ms and not assessment[1].global_deletes:
        rank = (now_ms - freeze_ms) / (limits.freeze_after_h * HOUR_MS)
        return Decision(Reason.CLOSED, action=Action.FULL, rank=rank)
    wanted = _of_interval(partition, assessment, limits, now_ms)
    is_later = freeze_ms > now_ms
    return replace(wanted, until_ms=earliest_of(wanted.until_ms, freeze_ms if is_later else None))


def _of_interval(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    if (due_ms := full_at_ms(partition, limits)) is None:
        return _or_sort(_of_debt(partition, assessment, limits, now_ms), partition, limits, now_ms)
    if due_ms <= now_ms:
        recent = recently_written(partition, limits, now_ms, due_ms + limits.max_wait_ms)
        if recent is None:
            rank = (now_ms - due_ms) / limits.full_interval_ms
            return Decision(Reason.FULL_INTERVAL, action=Action.FULL, rank=rank)
        due_ms = recent[1]
    wanted = _of_debt(partition, assessment, limits, now_ms)
    return replace(wanted, until_ms=earliest_of(wanted.until_ms, due_ms))


def _or_sort(wanted: Decision, partition: Partition, limits: Thresholds, now_ms: int) -> Decision:
    """Sort where nothing else is to be done: what is merged, or has its deletes applied, later on
    would be sorted once more."""
    due_ms = sort_at_ms(partition, limits)
    if due_ms is None or wanted.reason not in CALM:
        return wanted
    if due_ms > now_ms:
        return replace(wanted, until_ms=earliest_of(wanted.until_ms, due_ms))
    if recent := recently_written(partition, limits, now_ms, due_ms + limits.max_wait_ms):
        return replace(wanted, until_ms=earliest_of(wanted.until_ms, recent[1]))
    return Decision(Reason.UNSORTED, action=Action.SORT, min_dead_ratio=NO_FILE)


def as_requested(action: str) -> Decision:
    """Return what a user has requested: whatever the debt, and before all that the policy wants."""
    if action == FREEZE:
        return Decision(Reason.CLOSED, rank=FIRST, action=Action.FULL)
    every = action in (Action.COMPACT, Action.FULL)
    ratio = EVERY_FILE if every else NO_FILE
    return Decision(Reason.REQUESTED, rank=FIRST, action=Action(action), min_dead_ratio=ratio)


def _of_debt(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    """Deletes go before a merge."""
    compaction = _due_for_deletes(partition, assessment, limits, now_ms)
    _, grown, _ = assessment
    if not grown.undersized or limits.max_size_error <= 0 or compaction.reason not in CALM:
        return compaction
    merge = weigh_merge(partition, limits)
    return (
        compaction if merge is None else _decide_merge(partition, compaction, merge, limits, now_ms)
    )


def _next_slice(
    partition: Partition, after: Slice, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    """At once; only writers that change rows of its files go before."""
    if hot_until := hot_until_ms(partition.work, limits, now_ms):
        return Decision(Reason.HOT, until_ms=hot_until)
    rank, action = assessment[2].payback_ratio(now_ms), Action(after.action)
    ratio = after.min_dead_ratio
    return Decision(Reason(after.reason), rank=rank, action=action, min_dead_ratio=ratio)


def _due_for_deletes(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    """Decide what deletes and fragments ask for: an order that rewrites every file they reach, or
    one that leaves larger files where they are, but for those with so many dead rows that it
    pays."""
    debt, grown, weighed = assessment
    holds = partition.counters.holds
    decision = _decide_compaction(partition, assessment, limits, now_ms)
    if rewrites_everything(holds, limits, debt):
        if holds.equality_deletes.files or debt.global_deletes:
            return decision
    else:
        joined = min(grown.position_deletes, surplus_positions(holds))
        many = joined >= max(limits.min_position_deletes, 1)  # a few are not joined by the worker
        lesser = (debt, replace(grown, position_deletes=joined if many else 0), weighed)
        decision = _decide_compaction(partition, lesser, limits, now_ms)
        if any(grown.compactable) and decision.reason is Reason.HEALTHY:
            decision = replace(decision, reason=Reason.ACCUMULATING)
        decision = replace(decision, action=_delete_action(limits), min_dead_ratio=NO_FILE)
    return _of_dead_rows(partition, decision, limits, now_ms)


def _delete_action(limits: Thresholds) -> Action:
    return Action.COMPACT if limits.convert is ConversionPolicy.NEVER else Action.CONVERT


def _of_dead_rows(
    partition: Partition, decision: Decision, limits: Thresholds, now_ms: int
) -> Decision:
    """The files that a decision takes beside, or that are an order's only reason: those of which
    readers have paid the price, and after `max-wait-ms` those of `SURE_RATIO`. More than a slice of
    them goes before conversions, which are one order. Where the owner asks for it, all of them go
    after the retention, or masked rows would stay on the storage."""
    if partition.counters.holds.positional_files <= 0 and partition.work.positions_since_ms is None:
        return decision  # mostly: none is dead by position
    found = ratio_steps(partition, limits)
    due = [step for step in found if step.cost_benefit.from_ms <= now_ms]
    slice_bytes = slice_max_bytes(limits, Action.COMPACT)
    size = sum(step.cost_benefit.work.bytes_read for step in due)
    if decision.reason in ORDERS and (not slice_bytes or size <= slice_bytes):
        ratio = min((step.min_dead_ratio for step in due), default=decision.min_dead_ratio)
        return replace(decision, min_dead_ratio=min(ratio, decision.min_dead_ratio))
    if decision.reason not in CALM and decision.reason not in ORDERS:
        return decision
    wanted = Decision(Reason.POSITION_DELETES, action=Action.COMPACT)
    moments = [(step.cost_benefit.from_ms, step.min_dead_ratio) for step in found]
    if (at_ms := look_ms(partition, limits)) is not None:
        moments.append((at_ms, max(SURE_RATIO, limits.min_dead_ratio)))
    if (at_ms := _recycled_ms(partition, limits)) is not None and at_ms <= now_ms:
        wanted, moments = Decision(Reason.RECYCLING), [(at_ms, EVERY_FILE)]
    elif at_ms is not None:
        moments.append((at_ms, EVERY_FILE))
    ratios = [ratio for from_ms, ratio in moments if from_ms <= now_ms]
    if not ratios:
        until_ms = min((from_ms for from_ms, _ in moments if from_ms < FAR_MS), default=None)
        return replace(decision, until_ms=earliest_of(decision.until_ms, until_ms))
    since_ms = dead_rows_since(partition)
    waits_until_ms = None if since_ms is None else since_ms + limits.max_wait_ms
    if recent := recently_written(partition, limits, now_ms, waits_until_ms):
        return Decision(recent[0], until_ms=recent[1])
    rank = max((step.cost_benefit.payback_ratio(now_ms) for step in due), default=0.0)
    return replace(wanted, min_dead_ratio=min(ratios), rank=rank)


def _recycled_ms(partition: Partition, limits: Thresholds) -> int | None:
    since_ms = partition.work.positions_since_ms
    if not limits.recycle or not limits.gc_enabled or since_ms is None:
        return None
    return since_ms + limits.retention_ms


def _decide_merge(
    partition: Partition, compaction: Decision, merge: CostBenefit, limits: Thresholds, now_ms: int
) -> Decision:
    if now_ms < merge.from_ms:
        until_ms = earliest_of(compaction.until_ms, merge.from_ms)
        if compaction.reason in (Reason.HEALTHY, Reason.FIXED_POINT):
            return Decision(Reason.MINIMUM_GAIN, until_ms=until_ms, action=Action.MERGE)
        return replace(compaction, until_ms=until_ms)
    waits_until_ms = merge.since_ms + limits.max_wait_ms
    if recent := recently_written(partition, limits, now_ms, waits_until_ms):
        return Decision(recent[0], until_ms=recent[1])
    return Decision(
        Reason.UNDERSIZED,
        rank=merge.payback_ratio(now_ms),
        action=Action.MERGE,
        min_dead_ratio=NO_FILE,
    )


def _decide_compaction(
    partition: Partition, assessment: Assessment, limits: Thresholds, now_ms: int
) -> Decision:
    debt, grown, weighed = assessment
    reason = _due_reason(partition, debt, grown, limits, now_ms)
    if reason is None and weighed.paid_ms <= now_ms:
        reason = Reason.READ_DEBT
    endangered = endangered_ms(partition, debt, grown, limits)
    is_endangered = endangered is not None and endangered <= now_ms and _worth_it(debt, grown)
    if is_endangered and (reason is None or now_ms < weighed.from_ms):
        reason = Reason.OBJECTIVE
    elif reason is None:
        until_ms = earliest_of(_aging_until(partition, debt, grown, limits), weighed.paid_at)
        until_ms = earliest_of(until_ms, None if is_endangered else endangered)
        return Decision(_idle_reason(debt, grown, limits), until_ms=until_ms)
    elif now_ms < weighed.from_ms:
        until_ms = weighed.from_ms
        until_ms = earliest_of(until_ms, None if is_endangered else endangered) or until_ms
        return Decision(Reason.MINIMUM_GAIN, until_ms=until_ms)
    pressing = _over_threshold(_divide_debt(grown, PRESSING), limits) is not None
    since_ms = partition.work.debt_since_ms
    waits_until_ms = None if since_ms is None else since_ms + limits.max_wait_ms
    if recent := recently_written(partition, limits, now_ms, waits_until_ms, pressing):
        return Decision(recent[0], until_ms=recent[1])
    return Decision(reason, rank=weighed.payback_ratio(now_ms))


def recently_written(
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


def _due_reason(
    partition: Partition, debt: Debt, grown: Debt, limits: Thresholds, now_ms: int
) -> Reason | None:
    """Return what counts, sizes and age ask for, whatever the price."""
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


def _idle_reason(debt: Debt, grown: Debt, limits: Thresholds) -> Reason:
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


def _divide_debt(debt: Debt, divisor: int) -> Debt:
    return Debt(*(count // divisor for count in debt.counts))
