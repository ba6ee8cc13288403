"""The promise that no equality delete on `main` is older than a table's owner says
(`firnline.equality-deletes.max-age-ms`): some readers cannot apply them, and see deleted rows.

An order goes out early enough to be committed in time, whatever it costs: only people's pauses and
those after failures hold it back. What a rewrite has left once it would leave again, so it is not
tried again; nor can a partition's rewrite remove deletes that reach other partitions.
"""

from __future__ import annotations

import math

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons.partition import (
    EVERY_FILE,
    NO_FILE,
    TOP_RANK,
    Decision,
    TriggerState,
)
from firnline_domain.policy.triggers.slices import slice_max_bytes, unfinished_of
from firnline_domain.settings.thresholds import KEY_SHARE, Thresholds

UNKNOWN_MS = 5 * 60_000  # as `slice_ms`
MARGIN_MS = 30_000  # for the clocks, a tick, a commit that has to be made once more
LONGER = 1.5  # than the last ones: a rewrite that takes half as long again is still in time
FADING = 0.9  # of the longest, with each that took less


def due_ms(table: Table, partition: Partition, limits: Thresholds) -> int | None:
    """Return when the order has to go out; None = there is no deadline, or nothing can be done."""
    promise_ms, since_ms = limits.max_equality_delete_age_ms, partition.work.equality_since_ms
    if not promise_ms or since_ms is None or _is_global(table, partition):
        return None
    left = partition.counters.holds.equality_deletes.files
    if left <= partition.work.floor.equality_deletes:
        return None
    lead = lead_ms(table, limits, orders_of(partition, limits))
    return since_ms + max(promise_ms - lead, 0)


def lead_ms(table: Table, limits: Thresholds, orders: int = 1) -> int:
    """Return the time from the first of several tasks to the commit of the last: in the queue,
    running, and until it is committed. Before the first one the planned time of a task, but at most
    half of the maximum age."""
    if table.work.service.turnaround_ms:
        return int(table.work.service.turnaround_ms * LONGER) * orders + MARGIN_MS
    return min(UNKNOWN_MS * orders, limits.max_equality_delete_age_ms // 2)


def orders_of(partition: Partition, limits: Thresholds) -> int:
    """Return how many tasks remove a large partition's equality deletes, by the workers' size of a
    slice (`slice_max_bytes`)."""
    action = Action.CONVERT if limits.may_convert else Action.COMPACT
    most = slice_max_bytes(limits, action)
    holds = partition.counters.holds
    taken = holds.all_data.bytes if action is Action.COMPACT else holds.all_data.bytes * KEY_SHARE
    return max(math.ceil(taken / most), 1) if most else 1


def turnaround_after(known_ms: int, took_ms: int) -> int:
    """Return the longest time of the last tasks in ms, after one more that took `took_ms`. The time
    of an earlier task fades with each one after it."""
    return max(took_ms, int(known_ms * FADING))


def delete_age_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Order the pass that has begun, or whatever removes the equality deletes and rewrites the
    least, when their deadline requires it. None without a deadline."""
    partition, settings = given.partition, given.settings
    at_ms = due_ms(given.table, partition, settings)
    if at_ms is None or at_ms > given.now_ms:
        return None if at_ms is None else TriggerState(at_ms)
    if (after := unfinished_of(partition, settings)) is not None:
        action, ratio = Action(after.action), after.min_dead_ratio
    elif given.takes_all:
        action, ratio = Action.COMPACT, EVERY_FILE
    else:
        action, ratio = Action.CONVERT, NO_FILE
    return TriggerState(
        decision=Decision(reason, rank=TOP_RANK, action=action, min_dead_ratio=ratio)
    )


def _is_global(table: Table, partition: Partition) -> bool:
    unpartitioned = partition.counters.scope.is_unpartitioned
    return unpartitioned and table.counters.global_equality_deletes > 0
