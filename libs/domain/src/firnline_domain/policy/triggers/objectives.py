"""Define "healthy" for a table, as its owner sets it: reads cost no more than so many times those
of a tidy table, and neither debt nor an equality delete on `main` is older than so long.

While an objective is held, readers' payment alone decides: that is the cheapest. Where it is in
danger the rewrite is due although readers have not paid. Only what has come since the last rewrite
counts; else the same would be rewritten again and again.

Some readers cannot apply equality deletes, and see deleted rows. So the order for their maximum age
(`firnline.equality-deletes.max-age-ms`) goes out early enough to be committed in time, whatever it
costs: only people's pauses and those after failures hold it back. What a rewrite has left once it
would leave again, so it is not tried again; nor can a partition's rewrite remove deletes that reach
other partitions."""

from __future__ import annotations

import math

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import earliest_of
from firnline_domain.counters.state.work import KEY_SHARE
from firnline_domain.policy.cost.cost_benefit import Action, burden_of
from firnline_domain.policy.policy_input import PolicyInput, TableInput
from firnline_domain.policy.reasons import EVERY_FILE, NO_FILE, TOP_RANK, Decision, TriggerState
from firnline_domain.policy.triggers.slices import slice_max_bytes, unfinished_of

DANGER = (
    0.8  # of what an objective allows: the rest is for the queue, the work and the next commits
)
UNKNOWN_MS = 5 * 60_000  # of a task before the first has ended; as `slice_ms`
MARGIN_MS = 30_000  # for the clocks, a tick, a commit that has to be made once more
LONGER = 1.5  # than the last ones: a rewrite that takes half as long again is still in time
FADING = 0.9  # of the longest, with each that took less


def endangered_ms(given: PolicyInput) -> int | None:
    """Return since when, or from when on, an objective is in danger; None if none is."""
    since_ms, oldest_ms = given.partition.work.debt_since_ms, given.settings.max_oldest_debt_ms
    if since_ms is None or not any(given.counted_debt.compactable):
        return None
    too_dear_ms = 0 if _is_grown_too_dear(given) else None
    too_old_ms = since_ms + int(oldest_ms * DANGER) if oldest_ms else None
    return earliest_of(too_dear_ms, too_old_ms)


def _is_grown_too_dear(given: PolicyInput) -> bool:
    """Return True if the debt since the last rewrite makes reads about as expensive as the
    objective allows."""
    most, debt = given.settings.max_read_amplification, given.debt
    if most <= 1:
        return False
    burden = burden_of(given.holds, given.settings.target_bytes, debt.global_deletes)
    return burden.grow_to(debt, given.counted_debt).amplification - 1 >= (most - 1) * DANGER


def is_missed(given: PolicyInput, amplification: float) -> bool:
    """Return True if an objective does not hold for the partition now."""
    settings, since_ms = given.settings, given.partition.work.debt_since_ms
    most, oldest_ms = settings.max_read_amplification, settings.max_oldest_debt_ms
    if oldest_ms and since_ms is not None and given.now_ms > since_ms + oldest_ms:
        return True
    return most > 1 and amplification > most


def delete_age_due_ms(given: PolicyInput) -> int | None:
    """Return when the order has to go out; None = there is no deadline, or nothing can be done."""
    work, promise_ms = given.partition.work, given.settings.max_equality_delete_age_ms
    if not promise_ms or work.equality_since_ms is None or _is_global(given):
        return None
    if given.holds.equality_deletes.files <= work.floor.equality_deletes:
        return None
    return work.equality_since_ms + max(promise_ms - lead_ms(given, orders_of(given)), 0)


def lead_ms(given: TableInput, orders: int = 1) -> int:
    """Return the time from the first of several tasks to the commit of the last: in the queue,
    running, and until it is committed. Before the first one the planned time of a task, but at most
    half of the maximum age."""
    if turnaround_ms := given.table.work.service.turnaround_ms:
        return int(turnaround_ms * LONGER) * orders + MARGIN_MS
    return min(UNKNOWN_MS * orders, given.settings.max_equality_delete_age_ms // 2)


def orders_of(given: PolicyInput) -> int:
    """Return how many tasks remove a large partition's equality deletes, by the workers' size of a
    slice (`slice_max_bytes`)."""
    action = Action.CONVERT if given.settings.may_convert else Action.COMPACT
    most, size = slice_max_bytes(given, action), given.holds.all_data.bytes
    taken = size if action is Action.COMPACT else size * KEY_SHARE
    return max(math.ceil(taken / most), 1) if most else 1


def turnaround_after(known_ms: int, took_ms: int) -> int:
    """Return the longest time of the last tasks in ms, after one more that took `took_ms`. The time
    of an earlier task fades with each one after it."""
    return max(took_ms, int(known_ms * FADING))


def delete_age_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Order the pass that has begun, or whatever removes the equality deletes and rewrites the
    least, when their deadline requires it. None without a deadline."""
    at_ms = delete_age_due_ms(given)
    if at_ms is None or at_ms > given.now_ms:
        return None if at_ms is None else TriggerState(at_ms)
    if (after := unfinished_of(given)) is not None:
        action, ratio = Action(after.action), after.min_dead_ratio
    elif given.takes_all:
        action, ratio = Action.COMPACT, EVERY_FILE
    else:
        action, ratio = Action.CONVERT, NO_FILE
    return TriggerState(
        decision=Decision(reason, rank=TOP_RANK, action=action, min_dead_ratio=ratio)
    )


def _is_global(given: PolicyInput) -> bool:
    unpartitioned = given.partition.counters.scope.is_unpartitioned
    return unpartitioned and given.table.counters.global_equality_deletes > 0
