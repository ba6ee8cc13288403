"""Decide when all files of a partition are rewritten, whatever their share of dead rows: once in an
interval that the table's owner has set, or for the last time.

For what no counter shows and no price is known of: rows that have to leave the storage by a date,
files of another codec, or sorted otherwise, than writers write them now.

A partition is closed when no commit has changed it for `firnline.freeze.after-hours`. It then gets
one full rewrite, if there is anything to be gained by it, and is frozen: no count, size or age asks
for another until a commit changes it. After that it waits for as long again."""

from __future__ import annotations

from zlib import crc32

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import NO_DEBT
from firnline_domain.counters.state.work import PartitionWork, RunningTask
from firnline_domain.policy.cost.cost_benefit import Action, CostBenefit, burden_of, weigh_work
from firnline_domain.policy.cost_model import Work
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import Decision, TriggerState
from firnline_domain.policy.triggers.hot_partitions import wait_for_writers
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.thresholds import Thresholds

CLOSED = "closed"  # the reason of a closed partition's last rewrite
FREEZE = "freeze"  # what a person asks for: see `policy.operator_requests`
FEWER = 8  # files that one less of them has to be worth a rewrite of


def with_full_interval(
    work: PartitionWork, settings: Thresholds, name: str, now_ms: int
) -> PartitionWork:
    """Set the time that its interval counts from, if there is one. Of partitions that get it
    together each has another one, by a hash of its name: they fall due one after the other."""
    if settings.full_interval_ms <= 0:
        return work if work.full_ms is None else replace(work, full_ms=None)
    if work.full_ms is not None:
        return work
    passed_ms = int(settings.full_interval_ms * crc32(name.encode()) / 2**32)
    return replace(work, full_ms=now_ms - passed_ms)


def full_at_ms(given: PolicyInput) -> int | None:
    """Return when its next full rewrite is due; None: never, or not before something changes.
    Nothing is to be gained of a partition without deletes or two small files, nor of one that is as
    its last full rewrite has left it."""
    work, interval_ms = given.partition.work, given.settings.full_interval_ms
    if interval_ms <= 0 or work.full_ms is None or given.holds.data_files <= 0:
        return None
    if not is_worth_a_full_rewrite(given.holds):
        return None
    if given.partition.counters.changed_ms == work.full_seen_ms:
        return None
    return work.full_ms + interval_ms


def full_interval_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Order the full rewrite whose interval is over, unless writers are at work in the partition.
    None without an interval."""
    at_ms = full_at_ms(given)
    if at_ms is None or at_ms > given.now_ms:
        return None if at_ms is None else TriggerState(at_ms)
    if waits := wait_for_writers(given, at_ms):
        return TriggerState(waits.until_ms)
    rank = (given.now_ms - at_ms) / given.settings.full_interval_ms
    return TriggerState(decision=Decision(reason, action=Action.FULL, rank=rank))


def is_worth_a_full_rewrite(holds: FileTally) -> bool:
    """Return True with deletes or two small files: else a full rewrite gains nothing."""
    return holds.delete_files > 0 or holds.fragments.files + holds.undersized.files >= 2


def after_full(
    rested: PartitionWork, before: PartitionWork, is_full: bool, changed_ms: int, now_ms: int
) -> PartitionWork:
    """Return the work after any rewrite. `changed_ms`: of the last change in the counters, which is
    the rewrite's own unless a writer was faster."""
    if not is_full:
        return replace(rested, full_ms=before.full_ms, full_seen_ms=before.full_seen_ms)
    seen_ms = changed_ms if before.arrived == NO_DEBT else 0
    return replace(rested, full_ms=now_ms, full_seen_ms=seen_ms)


def weigh_full(given: PolicyInput) -> CostBenefit:
    """Weigh a rewrite of every file, for explanations, budgets and its rank. How often the table is
    read does not matter."""
    holds = given.holds
    burden = burden_of(holds, given.settings.target_bytes, given.debt.global_deletes)
    deletes, data = holds.equality_deletes, holds.all_data
    files = data.files + holds.delete_files
    work = Work(data.bytes + deletes.bytes, data.bytes, deletes.records, files=files)
    since_ms, factor = given.partition.work.full_ms, given.costs.factors.rewrites
    spared_s, opens = burden.total_seconds(), burden.opens
    return weigh_work(given, since_ms, work, spared_s, burden.amplification, opens, factor)


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
