"""Decide when a partition without commits is rewritten for the last time, and left alone from then
on (`firnline.freeze.after-hours`).

A partition is closed when no commit has changed it for that long. It then gets one full rewrite, if
there is anything to be gained by it, and is frozen: no count, size or age asks for another until a
commit changes it. After that it waits for as long again."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import NO_DEBT
from firnline_domain.counters.state.work import PartitionWork, RunningTask
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons.partition import Decision, TriggerState
from firnline_domain.policy.triggers.full_rewrites import is_worth_a_full_rewrite
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.thresholds import Thresholds

CLOSED = "closed"  # the reason of its last rewrite
FREEZE = "freeze"  # what a person asks for: see `policy.operator_requests`
FEWER = 8  # files that one less of them has to be worth a rewrite of


def freezes_at_ms(given: PolicyInput) -> int | None:
    """Return when it is closed; None: never, or it is frozen already."""
    after_h, counters = given.settings.freeze_after_h, given.partition.counters
    if after_h <= 0 or counters.holds.data_files <= 0 or _is_unchanged_since_freeze(given):
        return None
    return counters.changed_ms + int(after_h * HOUR_MS)


def is_frozen(given: PolicyInput) -> bool:
    """Return True if it is left alone: as its freeze has left it, or closed with nothing to be
    gained. Global deletes reach it without a change of it."""
    if given.settings.freeze_after_h <= 0 or given.holds.data_files <= 0:
        return False
    if given.new_debt.global_deletes > 0:
        return False
    if _is_unchanged_since_freeze(given):
        return True
    at_ms = freezes_at_ms(given)
    is_closed = at_ms is not None and at_ms <= given.now_ms
    return is_closed and not is_worth_a_full_rewrite(given.holds)


def closed_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Order the last rewrite of a closed partition, after its global deletes were applied. None if
    it is never closed."""
    at_ms = freezes_at_ms(given)
    if at_ms is None or at_ms > given.now_ms:
        return None if at_ms is None else TriggerState(at_ms)
    if given.new_debt.global_deletes:
        return TriggerState()
    rank = (given.now_ms - at_ms) / (given.settings.freeze_after_h * HOUR_MS)
    return TriggerState(decision=Decision(reason, action=Action.FULL, rank=rank))


def _is_unchanged_since_freeze(given: PolicyInput) -> bool:
    """Return True if the partition was frozen, and no commit has changed it since."""
    seen_ms = given.partition.work.frozen_seen_ms
    return seen_ms > 0 and seen_ms == given.partition.counters.changed_ms


def is_worth_freezing(holds: FileTally, target_bytes: int) -> bool:
    """Return True if a full rewrite removes deletes or an eighth of the files, for callers without
    a record of earlier ones that ask every night. Slices leave a small file each, which the same
    rewrite would leave again."""
    if not is_worth_a_full_rewrite(holds):
        return False
    spared = holds.data_files - max(round(holds.all_data.bytes / target_bytes), 1)
    return holds.delete_files > 0 or spared * FEWER >= holds.data_files


def after_freeze(
    rested: PartitionWork,
    before: PartitionWork,
    task: RunningTask,
    settings: Thresholds,
    changed_ms: int,
) -> PartitionWork:
    """Return the work after any rewrite: a partition that was compacted for the last time and then
    sorted stays so. `changed_ms`: of the last change in the counters, which is the rewrite's own
    unless a writer was faster: then the partition waits again."""
    freezes = task.reason == CLOSED
    stays = task.action == Action.SORT and before.frozen_seen_ms > 0
    if settings.freeze_after_h <= 0 or before.arrived != NO_DEBT or not (freezes or stays):
        return replace(rested, frozen_seen_ms=0)
    return replace(rested, frozen_seen_ms=changed_ms)
