"""List the triggers of a rewrite, in the order in which they are asked.

A rule returns None if its trigger does not apply, else its `TriggerState`: a decision, or the time
at which it fires. The first trigger that fires decides. A new trigger is a reason, a rule and a row
of `TRIGGERS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import earliest_of
from firnline_domain.base.values import Value, replace
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.file_sizes import mendable_error, size_error
from firnline_domain.policy.cost.cost_benefit import Action, weigh_debt, weigh_merge
from firnline_domain.policy.policy_input import PolicyInput, once_per_input
from firnline_domain.policy.reasons import (
    CALM,
    EVERY_FILE,
    NO_FILE,
    TOP_RANK,
    Decision,
    Reason,
    TriggerState,
)
from firnline_domain.policy.triggers.dead_files import (
    are_chosen_otherwise,
    dead_rows_due,
    due_steps,
    recycling_due,
)
from firnline_domain.policy.triggers.full_rewrites import (
    CLOSED,
    FREEZE,
    closed_due,
    full_interval_due,
    is_frozen,
)
from firnline_domain.policy.triggers.hot_partitions import hot_until_ms, wait_for_writers
from firnline_domain.policy.triggers.objectives import delete_age_due, endangered_ms
from firnline_domain.policy.triggers.slices import FULL_INTERVAL, slice_max_bytes, unfinished_of
from firnline_domain.policy.triggers.sorting import unsorted_due
from firnline_domain.policy.triggers.v2_deletes import v2_deletes_due
from firnline_domain.records.states import TriggerForecast
from firnline_domain.settings.thresholds import Thresholds

PRESSING = 2  # at so many times a threshold, a hot partition is not left to cool any longer
LATER = TriggerState()  # only a commit can make it fire


class TriggerReason(ReasonCode):
    """Reasons why a partition is rewritten, in the order of `TRIGGERS`."""

    EQUALITY_DELETE_AGE = (
        "equality_delete_age",
        "An equality delete would become older than `firnline.equality-deletes.max-age-ms` if "
        "its rewrite were scheduled later.",
        "the oldest equality delete is {equality_delete_age_s} s old, "
        "{max_equality_delete_age_s} s are allowed (firnline.equality-deletes.max-age-ms)",
    )
    CLOSED = (
        CLOSED,
        "No commit changed the partition for `firnline.freeze.after-hours`. It is rewritten "
        "once and then left alone.",
        "no commit for {freeze_after_h} h (firnline.freeze.after-hours): final rewrite of all "
        "files",
    )
    FULL_INTERVAL = (
        FULL_INTERVAL,
        "`firnline.rewrite.full-interval-ms` has passed since all files of the partition were "
        "rewritten.",
        "all files are rewritten every {full_interval_h} h (firnline.rewrite.full-interval-ms)",
    )
    EQUALITY_DELETES = (
        "equality_deletes",
        "The partition got `firnline.rewrite.min-equality-deletes` equality-delete files since "
        "its last rewrite.",
        "{equality_deletes} equality-delete files, {min_equality_deletes} trigger a rewrite",
    )
    POSITION_DELETES = (
        "position_deletes",
        "Files contain so many deleted rows that a rewrite pays off, or there are too many "
        "position-delete files for the data files.",
        "{dead_rows} rows, {dead_ratio} of all, are deleted by {position_deletes} "
        "position-delete files or deletion vectors",
    )
    FRAGMENTS = (
        "fragments",
        "The partition got `firnline.rewrite.min-fragments` small files since its last rewrite.",
        "{fragments} small files, {min_fragments} trigger a rewrite",
    )
    GLOBAL_DELETES = (
        "global_deletes",
        "The table got `firnline.rewrite.min-equality-deletes` equality-delete files without a "
        "partition, which apply to every partition.",
        "{global_deletes} global equality-delete files, {min_equality_deletes} trigger a rewrite",
    )
    SIZE_ERROR = (
        "size_error",
        "File sizes deviate from the target size, and a merge improves that enough "
        "(`firnline.rewrite.max-size-error`).",
        "file sizes deviate from the target by {size_error}, a merge fixes "
        "{mendable_size_error}, {max_size_error} triggers a rewrite",
    )
    OLD_DEBT = (
        "old_debt",
        "Small or delete files are older than `firnline.rewrite.max-age-ms`.",
        "below every threshold, but some files have waited longer than firnline.rewrite.max-age-ms",
    )
    READ_DEBT = (
        "read_debt",
        "The accumulated read cost has reached `firnline.rewrite.payback` times the rewrite cost.",
        "accumulated read cost has reached firnline.rewrite.payback x rewrite cost (saves "
        "{read_s_spared} CPU s per scan, costs {rewrite_cpu_s} CPU s)",
    )
    OBJECTIVE = (
        "objective",
        "The partition is near a limit of `firnline.objective.read-amplification` or "
        "`firnline.objective.oldest-debt-ms`.",
        "near an objective: reads cost {read_amplification} times those of a compacted "
        "partition ({objective_read_amplification} allowed, 0 = any), and files to compact are "
        "{oldest_debt_s} s old ({objective_oldest_debt_s} allowed, 0 = any)",
    )
    RECYCLING = (
        "recycling",
        "`firnline.rewrite.recycle` is set, and position-deleted rows are older than the "
        "retention. The rewrite removes them from the storage.",
        "position-deleted rows are older than the retention and still in data files",
    )
    UNDERSIZED = (
        "undersized",
        "Small files together fill one file of the target size.",
        "{undersized} small files fill one file of the target size",
    )
    V2_DELETES = (
        "v2_deletes",
        "`firnline.format-version=3` is set, and the partition has delete files from before "
        "the upgrade. Deletion vectors replace them.",
        "{v2_delete_files} delete files of format version 2 are replaced by deletion vectors "
        "(firnline.format-version)",
    )
    UNSORTED = (
        "unsorted",
        "`firnline.sort` is set, and the partition changed since the last check of its order.",
        "changed since the last sort; files are sorted if more than {sort_depth} contain the "
        "same key (firnline.sort)",
    )


COUNTED: tuple[ReasonCode, ...] = (  # in the order of `Debt.compactable`
    TriggerReason.FRAGMENTS,
    TriggerReason.EQUALITY_DELETES,
    TriggerReason.POSITION_DELETES,
    TriggerReason.GLOBAL_DELETES,
)


class Trigger(Value):
    """One row. `asks_frozen`: it applies to a frozen partition, too. `takes_all`: its order does
    the work of all others, so a wait for writers ends when it fires. `is_promised`: no price delays
    it."""

    reason: ReasonCode
    rule: Callable[[PolicyInput, ReasonCode], TriggerState | None]
    asks_frozen: bool = False
    takes_all: bool = False
    is_promised: bool = False


def first_due(given: PolicyInput) -> Decision:
    """Return the decision of the first trigger that fires; if none does, why not, and when the
    next one may."""
    until_ms, all_ms, wanted = None, None, None
    for trigger in _triggers_of(given):
        due = trigger.rule(given, trigger.reason)
        if due is None or due is LATER:  # mostly: asked with every change
            continue
        if due.decision is not None:
            if due.decision.reason not in CALM:
                until_ms = earliest_of(due.decision.until_ms, all_ms)
                return replace(due.decision, until_ms=until_ms)
            wanted = due.decision
        if due.at_ms is not None:
            until_ms = earliest_of(until_ms, due.at_ms)
            all_ms = earliest_of(all_ms, due.at_ms) if trigger.takes_all else all_ms
    if wanted is None:
        wanted = Decision(Reason.FROZEN) if _is_at_rest(given) else _idle_decision(given)
    return replace(wanted, until_ms=until_ms)


def _triggers_of(given: PolicyInput) -> tuple[Trigger, ...]:
    return OF_FROZEN if _is_at_rest(given) else TRIGGERS


def _is_at_rest(given: PolicyInput) -> bool:
    return given.settings.freeze_after_h > 0 and is_frozen(given)


def forecast_triggers(given: PolicyInput) -> Iterator[TriggerForecast]:
    """Yield when each trigger that applies fires, whether or not an earlier one does."""
    for trigger in _triggers_of(given):
        if (due := trigger.rule(given, trigger.reason)) is None:
            continue
        if due.decision is None:
            yield TriggerForecast(trigger.reason, False, due.at_ms)
        elif due.decision.reason in ORDERS:
            yield TriggerForecast(trigger.reason, True)
        else:
            at_ms = earliest_of(due.at_ms, due.decision.until_ms)
            yield TriggerForecast(trigger.reason, False, at_ms, due.decision.reason)


def _idle_decision(given: PolicyInput) -> Decision:
    debt = given.debt
    if any(given.counted_debt.compactable):
        reason = Reason.ACCUMULATING
    elif debt.undersized > 0 or counts_over(debt, given.settings):
        reason = Reason.FIXED_POINT
    else:
        reason = Reason.ACCUMULATING if any(given.new_debt.compactable) else Reason.HEALTHY
    return _debt_decision(given, reason)


def as_requested(action: str) -> Decision:
    """Return the decision that carries out a user's request, before all others and whatever the
    debt."""
    if action == FREEZE:
        return Decision(TriggerReason.CLOSED, rank=TOP_RANK, action=Action.FULL)
    every = action in (Action.COMPACT, Action.FULL)
    ratio = EVERY_FILE if every else NO_FILE
    return Decision(Reason.REQUESTED, rank=TOP_RANK, action=Action(action), min_dead_ratio=ratio)


def _requested_due(given: PolicyInput, _: ReasonCode) -> TriggerState | None:
    """Continue an unfinished pass, however little of its debt is left. If writers change rows of
    its files, it waits until they have stopped or it has waited long enough. Without such a pass,
    return what a user has requested; None if nothing is."""
    work = given.partition.work
    if (after := unfinished_of(given)) is None:
        return TriggerState(decision=as_requested(work.requested)) if work.requested else None
    if hot_until := hot_until_ms(given):
        return TriggerState(decision=Decision(Reason.HOT, until_ms=hot_until))
    rank, ratio = weigh_debt(given).payback_ratio(given.now_ms), after.min_dead_ratio
    action, begun_for = Action(after.action), _REASONS[after.reason]
    return TriggerState(
        decision=Decision(begun_for, rank=rank, action=action, min_dead_ratio=ratio)
    )


def _count_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Rewrite a debt of the kind that the reason names when it has reached its threshold."""
    return _weighed_due(given, reason) if reason in _reached_counts(given) else LATER


def _position_deletes_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    if given.would_convert and not given.takes_all:
        return TriggerState(decision=Decision(Reason.STREAMING_READERS))
    return _count_due(given, reason)


@once_per_input
def _reached_counts(given: PolicyInput) -> list[ReasonCode]:
    return counts_over(given.counted_debt, given.settings)


def counts_over(debt: Debt, settings: Thresholds) -> list[ReasonCode]:
    """Return the kinds of files that have reached their threshold, by the triggers' reasons."""
    least_equality, counts = max(settings.min_equality_deletes, 1), debt.compactable
    least_positions = max(settings.min_position_deletes, 1)
    least = (max(settings.min_fragments, 2), least_equality, least_positions, least_equality)
    counted = zip(COUNTED, counts, least, strict=True)
    return [kind for kind, count, needed in counted if count >= needed]


def _size_error_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    if given.settings.max_size_error <= 0:
        return None
    return _weighed_due(given, reason) if _is_ill_sized(given) else LATER


@once_per_input
def _is_ill_sized(given: PolicyInput) -> bool:
    """Return True if the partition is off its target, and a merge brings what it takes nearer by as
    much."""
    target, most = given.settings.target_bytes, given.settings.max_size_error
    if given.counted_debt.fragments <= 0 or most <= 0:
        return False
    return most <= mendable_error(given.holds, target) and most <= size_error(given.holds, target)


def _old_debt_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Rewrite a debt below every threshold when it is `max_age_ms` old, as `_weighed_due` does; not
    a lone small file, nor a debt that `_size_error_due` orders."""
    since_ms = given.partition.work.debt_since_ms
    if since_ms is None or not given.is_worth_it:
        return LATER
    if _reached_counts(given) or _is_ill_sized(given):
        return LATER
    at_ms = since_ms + int(given.settings.max_age_ms * (1 - given.partition.work.head_start))
    return _weighed_due(given, reason) if at_ms <= given.now_ms else TriggerState(at_ms)


def _read_debt_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    weighed = weigh_debt(given)
    paid = weighed.paid_ms <= given.now_ms
    return _weighed_due(given, reason) if paid else TriggerState(weighed.paid_at)


def _objective_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Order when an objective is in danger, also before readers have paid for it; not for a lone
    small file. None if no objective is in danger."""
    at_ms = endangered_ms(given)
    if at_ms is None:
        return None
    if at_ms > given.now_ms:
        return TriggerState(at_ms)
    return _order_due(given, reason) if given.is_worth_it else LATER


def _weighed_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Order as soon as readers have paid for the rewrite, or it has waited long enough; until then
    wait for that moment."""
    from_ms = weigh_debt(given).from_ms
    if given.now_ms < from_ms:
        waits = Reason.STREAMING_READERS if given.would_convert else Reason.MINIMUM_GAIN
        return TriggerState(from_ms, _debt_decision(given, waits))
    return _order_due(given, reason)


def _order_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Order, unless writers are at work in the partition. Larger files whose dead rows are due go
    with it; more than a slice of them goes before a conversion, which is one order."""
    pressing = bool(counts_over(_divide_debt(given.counted_debt, PRESSING), given.settings))
    if waits := wait_for_writers(given, given.partition.work.debt_since_ms, pressing):
        until_ms = waits.until_ms
        return TriggerState(
            decision=replace(_debt_decision(given, waits.reason), until_ms=until_ms)
        )
    rank = weigh_debt(given).payback_ratio(given.now_ms)
    order = replace(_debt_decision(given, reason), rank=rank)
    if are_chosen_otherwise(given):
        return TriggerState(decision=order)
    due = due_steps(given)
    slice_bytes = slice_max_bytes(given, Action.COMPACT)
    if slice_bytes and sum(step.cost_benefit.work.bytes_read for step in due) > slice_bytes:
        first = recycling_due(given, TriggerReason.RECYCLING)
        has_fired = first is not None and first.decision is not None
        return first if has_fired else dead_rows_due(given, TriggerReason.POSITION_DELETES)
    ratio = min((step.min_dead_ratio for step in due), default=order.min_dead_ratio)
    return TriggerState(decision=replace(order, min_dead_ratio=min(ratio, order.min_dead_ratio)))


def _debt_decision(given: PolicyInput, reason: ReasonCode) -> Decision:
    """Return a decision whose order rewrites every file that deletes reach, or leaves larger ones
    as they are."""
    if given.takes_all:
        return Decision(reason)
    action = Action.CONVERT if given.settings.may_convert else Action.COMPACT
    return Decision(reason, action=action, min_dead_ratio=NO_FILE)


def _divide_debt(debt: Debt, divisor: int) -> Debt:
    return Debt(*(count // divisor for count in debt.counts))


def _undersized_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Merge small files if it pays off, and no delete asks for a rewrite first. Wait while writers
    write."""
    if not given.new_debt.undersized or given.settings.max_size_error <= 0:
        return None
    merge = weigh_merge(given)
    if merge is None:
        return None
    if given.now_ms < merge.from_ms:
        calm = _idle_decision(given).reason in (Reason.HEALTHY, Reason.FIXED_POINT)
        waits = Decision(Reason.MINIMUM_GAIN, action=Action.MERGE) if calm else None
        return TriggerState(merge.from_ms, waits)
    if waits := wait_for_writers(given, merge.since_ms):
        return TriggerState(decision=waits)
    rank, action = merge.payback_ratio(given.now_ms), Action.MERGE
    return TriggerState(decision=Decision(reason, rank=rank, action=action, min_dead_ratio=NO_FILE))


TRIGGERS = (
    Trigger(
        TriggerReason.EQUALITY_DELETE_AGE,
        delete_age_due,
        asks_frozen=True,
        takes_all=True,
        is_promised=True,
    ),
    Trigger(Reason.REQUESTED, _requested_due, asks_frozen=True, is_promised=True),
    Trigger(TriggerReason.CLOSED, closed_due, takes_all=True),
    Trigger(TriggerReason.FULL_INTERVAL, full_interval_due, takes_all=True),
    Trigger(TriggerReason.EQUALITY_DELETES, _count_due),
    Trigger(TriggerReason.POSITION_DELETES, _position_deletes_due),
    Trigger(TriggerReason.FRAGMENTS, _count_due),
    Trigger(TriggerReason.GLOBAL_DELETES, _count_due),
    Trigger(TriggerReason.SIZE_ERROR, _size_error_due),
    Trigger(TriggerReason.OLD_DEBT, _old_debt_due),
    Trigger(TriggerReason.READ_DEBT, _read_debt_due),
    Trigger(TriggerReason.OBJECTIVE, _objective_due),
    Trigger(TriggerReason.RECYCLING, recycling_due, is_promised=True),
    Trigger(TriggerReason.POSITION_DELETES, dead_rows_due),
    Trigger(TriggerReason.UNDERSIZED, _undersized_due),
    Trigger(TriggerReason.V2_DELETES, v2_deletes_due, asks_frozen=True),
    Trigger(TriggerReason.UNSORTED, unsorted_due, asks_frozen=True),
)
OF_FROZEN = tuple(trigger for trigger in TRIGGERS if trigger.asks_frozen)
_REASONS = {str(trigger.reason): trigger.reason for trigger in TRIGGERS}
PROMISED = frozenset(trigger.reason for trigger in TRIGGERS if trigger.is_promised)
ORDERS = frozenset({*TriggerReason, Reason.REQUESTED})
