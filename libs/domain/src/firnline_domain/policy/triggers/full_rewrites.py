"""Decide when all files of a partition are rewritten, whatever their share of dead rows: once in an
interval that the table's owner has set.

For what no counter shows and no price is known of: rows that have to leave the storage by a date,
files of another codec, or sorted otherwise, than writers write them now."""

from __future__ import annotations

from zlib import crc32

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import NO_DEBT
from firnline_domain.counters.state.work import PartitionWork
from firnline_domain.policy.cost.cost_benefit import Action, CostBenefit, weigh_work
from firnline_domain.policy.cost.read_cost import burden_of
from firnline_domain.policy.cost_model import Work
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons.partition import Decision, TriggerState
from firnline_domain.policy.triggers.hot_partitions import wait_for_writers
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.settings.thresholds import Thresholds


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
