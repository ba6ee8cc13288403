"""Does a partition deserve a rewrite now, and why (or why not): a pure function of values."""

from __future__ import annotations

from firnline_domain.base.times import earliest_of
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.file_sizes import files_after, taken_by_merge
from firnline_domain.counters.state.work import Partition, RunningTask, Table, slots_of
from firnline_domain.identity import task_id
from firnline_domain.policy.cost.cost_benefit import (
    Action,
    CostBenefit,
    rewrites_everything,
    weigh_compaction,
    weigh_merge,
)
from firnline_domain.policy.fleet.holds import BETWEEN_COMMITS, find_pause, find_rewrite_hold
from firnline_domain.policy.partition.deadlines import QUEUE_MS, run_ms
from firnline_domain.policy.partition.decision_numbers import (
    dead_row_numbers,
    debt_numbers,
    price_numbers,
)
from firnline_domain.policy.policy_input import PolicyInput, all_and_new_debt, collect_input
from firnline_domain.policy.reasons.partition import (
    EVERY_FILE,
    Assessment,
    Decision,
    Reason,
)
from firnline_domain.policy.triggers.dead_files import with_dead_files
from firnline_domain.policy.triggers.equality_delete_age import due_ms
from firnline_domain.policy.triggers.full_rewrites import weigh_full
from firnline_domain.policy.triggers.slices import share_of_price, slice_max_bytes, unfinished_of
from firnline_domain.policy.triggers.sorting import estimate_sort
from firnline_domain.policy.triggers.table import ORDERS, PROMISED, TriggerReason, first_due
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import NO_FILES, FileTally, Tally, tally_of
from firnline_domain.records.pauses import TableHold
from firnline_domain.settings.policies import split_policies
from firnline_domain.settings.thresholds import Thresholds

BUDGET_LOOK_MS = 15 * 60_000  # a planner that starts has to find again who waits for the budget


def decide_rewrite(table: Table, partition: Partition, limits: Thresholds, now_ms: int) -> Decision:
    """Make the decision for one partition. Made with every change; few get their numbers
    (`explain`)."""
    promised_ms = due_ms(table, partition, limits)
    is_due = promised_ms is not None and promised_ms <= now_ms
    barred = _blocking_reason(table, partition, limits, now_ms)
    if barred and not (is_due and barred[0] is Reason.COOLING):
        until_ms = barred[1]
        if barred[0] is Reason.COOLING:
            until_ms = earliest_of(until_ms, promised_ms)
        return Decision(barred[0], until_ms=until_ms)
    given = collect_input(table, partition, limits, now_ms)
    wanted = replace(first_due(given), assessment=_assess(given))
    decision = admit_rewrite(table, partition, wanted, limits, now_ms)
    if promised_ms is None or decision.order or is_due:
        return decision
    return replace(decision, until_ms=earliest_of(decision.until_ms, promised_ms))


def admit_rewrite(
    table: Table, partition: Partition, wanted: Decision, limits: Thresholds, now_ms: int
) -> Decision:
    """Return what the table's holds, places and budget leave of a wanted rewrite; to be called
    again when another order of the table has gone out."""
    if wanted.reason not in ORDERS:
        return wanted
    if wanted.reason is TriggerReason.EQUALITY_DELETE_AGE:
        return _overdue(table, wanted, limits, now_ms)
    hold = find_rewrite_hold(table, limits, now_ms)
    if hold and not _shares_a_commit(table, hold, now_ms):
        reason = Reason(hold.reason)
        return Decision(reason, until_ms=hold.until_ms, assessment=wanted.assessment, wanted=wanted)
    weighed = cost_benefit_of(table, partition, wanted, limits)
    cheap = weighed.work.bytes_read <= limits.cheap_bytes
    if not table.work.has_room(slots_of(cheap, weighed.price_s), limits):
        return Decision(Reason.TABLE_BUSY, assessment=wanted.assessment)
    is_weighed = wanted.reason not in PROMISED
    if is_weighed and limits.paying_budget[1].is_limited and not limits.paid:
        until_ms = now_ms + BUDGET_LOOK_MS
        return replace(wanted, reason=Reason.WAITING_FOR_BUDGET, until_ms=until_ms)
    return replace(wanted, order=True, until_ms=now_ms + QUEUE_MS)


def _overdue(table: Table, wanted: Decision, limits: Thresholds, now_ms: int) -> Decision:
    """Return a decision whose deadline has come: no window, no budget and no number of orders is a
    reason to miss it."""
    if hold := find_pause(table, limits):
        reason = Reason(hold.reason)
        return Decision(reason, until_ms=hold.until_ms, assessment=wanted.assessment, wanted=wanted)
    return replace(wanted, order=True, until_ms=now_ms + limits.deadline_ms)


def status_of(table: Table, partition: Partition, limits: Thresholds, now_ms: int) -> str:
    """Return the status of a partition's decision, without weighing: this runs for every partition
    whenever a table's state is published. A partition that is due counts as idle until its task is
    sent."""
    barred = _blocking_reason(table, partition, limits, now_ms)
    return Decision(barred[0]).status if barred else "idle"


def with_numbers(
    table: Table, partition: Partition, decision: Decision, limits: Thresholds, now_ms: int
) -> Decision:
    """Return the decision with the numbers that it was made from."""
    known = decision.assessment or _assess(collect_input(table, partition, limits, now_ms))
    decision = replace(decision, assessment=known)
    weighed = cost_benefit_of(table, partition, decision, limits)
    numbers = debt_numbers(table, partition, known.debt, known.grown, limits)
    numbers |= price_numbers(partition, limits, weighed, now_ms)
    numbers |= dead_row_numbers(partition, limits, decision.min_dead_ratio)
    return replace(decision, numbers=numbers)


def _assess(given: PolicyInput) -> Assessment:
    return Assessment(given.debt, given.grown, given.weighed)


def cost_benefit_of(
    table: Table, partition: Partition, decision: Decision, limits: Thresholds
) -> CostBenefit:
    """Return the costs and the benefit of the order that a decision makes."""
    known = decision.assessment or _assess(collect_input(table, partition, limits, 0))
    debt, grown, weighed = known.debt, known.grown, known.weighed
    if decision.action is Action.FULL:
        return weigh_full(partition, limits, debt.global_deletes)
    if decision.action is Action.SORT:
        return estimate_sort(table, partition, limits)
    if decision.action is Action.MERGE:
        return weigh_merge(partition, limits) or weighed
    whole = rewrites_everything(partition.counters.holds, limits, debt)
    if decision.min_dead_ratio == EVERY_FILE:
        return weighed if whole else weigh_compaction(partition, limits, debt, grown)
    return with_dead_files(partition, limits, weighed, decision.min_dead_ratio)


def _shares_a_commit(table: Table, hold: TableHold, now_ms: int) -> bool:
    """Return True if the order adds no commit: it goes out in the moment of another order."""
    return hold.reason in BETWEEN_COMMITS and now_ms in table.work.uncommitted_times


def _blocking_reason(
    table: Table, partition: Partition, limits: Thresholds, now_ms: int
) -> tuple[Reason, int | None] | None:
    """Return why the partition gets no order, whatever its debt, and until when (None = until an
    event); None if nothing forbids one."""
    counters, work = table.counters, partition.work
    if counters.removed:
        return Reason.REMOVED, None
    if not limits.enabled:
        return Reason.DISABLED, None
    task = table.work.task_of(partition.counters.scope)
    if task and now_ms < task.deadline_ms:
        return Reason.IN_FLIGHT, task.deadline_ms
    if counters.waiting or not counters.known:
        return Reason.WAITING_FOR_RESYNC, None
    if partition.counters.scope.is_abbreviated:
        return Reason.NAME_TOO_LONG, None
    if work.until_ms is not None and now_ms < work.until_ms:
        return Reason(work.pause), work.until_ms
    return None


def reducible_debt(table: Table, partition: Partition, limits: Thresholds) -> Debt:
    """Return what a rewrite could remove: not what the last one has left, nor a lone fragment,
    which has nothing to be merged with."""
    debt, grown = all_and_new_debt(table, partition, limits.target_bytes)
    return replace(grown, fragments=0) if debt.fragments == 1 else grown


def debt_files(table: Table, partition: Partition, limits: Thresholds) -> int:
    """Return the maintenance debt: how many files fewer a compaction would leave, data files and
    delete files together, as a dry run estimates it. Counters do not contain which delete reaches
    which file: see `_taken_by_compaction`."""
    mended, target = reducible_debt(table, partition, limits), limits.target_bytes
    deletes = mended.equality_deletes + mended.position_deletes + mended.global_deletes
    small = mended.fragments + mended.undersized
    if not deletes and not small:
        return 0
    holds = partition.counters.holds

    def least_removed(files: int) -> int:
        """Return the files that are removed at least: of all that the table has, one file stays
        alive until the second of two groups."""
        return 2 if files == table.counters.totals.holds.data_files else 1

    if not deletes:
        merged = taken_by_merge(holds, target)
        return min(
            max(merged.files - files_after(merged, target, least_removed(merged.files)), 0), small
        )
    larger, joined = _taken_by_compaction(holds, mended)
    taken = larger + joined
    # Small ones go into the larger ones' groups: of both together the mean says little.
    apart = max(
        files_after(larger, target) + round(joined.bytes / target), least_removed(taken.files)
    )
    after = min(files_after(taken, target, least_removed(taken.files)), apart)
    lone = int(joined.files == 1)  # a delete has it rewritten, so it can be merged
    most = max(mended.fragments, lone) + holds.undersized.files
    return deletes + min(max(taken.files - after, 0), most)


def _taken_by_compaction(holds: FileTally, debt: Debt) -> tuple[Tally, Tally]:
    """Estimate the larger data files and the fragments that deletes have a compaction take: with
    equality deletes all, with deletes by position as many larger ones as there are of these."""
    larger = holds.all_data - holds.fragments
    if debt.equality_deletes or debt.global_deletes:
        return larger, holds.fragments
    reached = min(debt.position_deletes, larger.files)
    joined = holds.fragments if holds.fragments.files > 1 or not reached else NO_FILES
    return tally_of(reached, 0, larger.bytes * reached // max(larger.files, 1)), joined


def order_for(
    table: Table, partition: Partition, decision: Decision, limits: Thresholds, now_ms: int
) -> tuple[RewriteFiles, RunningTask]:
    """Build the task for an explained decision, and the planner's record of it."""
    counters, scope = table.counters, partition.counters.scope
    assert counters.head_snapshot_id is not None  # a partition with debt has a snapshot
    text = f"{scope.spec_id}:{scope.partition}"
    head, action = counters.head_snapshot_id, decision.action
    ratio = decision.min_dead_ratio
    identity = task_id(counters.table.key, counters.ref, text, action, head, ratio)
    price_s = decision.numbers.get("rewrite_cpu_s", 0.0)
    longest_ms = run_ms(price_s * share_of_price(price_s, limits), limits)
    task = RunningTask(
        task_id=identity,
        scope=scope,
        action=action,
        reason=decision.reason,
        trigger_snapshot_id=head,
        attempt=partition.work.attempt,
        ordered_at_ms=now_ms,
        deadline_ms=now_ms + QUEUE_MS,
        numbers=decision.numbers,
        group=limits.served_by,
        run_ms=longest_ms,
        min_dead_ratio=ratio,
    )
    order = RewriteFiles(
        task_id=identity,
        table=counters.table,
        ref=counters.ref,
        scope=scope,
        action=action,
        reason=decision.reason,
        trigger_snapshot_id=task.trigger_snapshot_id,
        attempt=task.attempt,
        ordered_at_ms=now_ms,
        deadline_ms=task.deadline_ms,
        numbers=decision.numbers,
        min_dead_ratio=ratio,
        max_bytes=slice_max_bytes(limits, action),
        after=unfinished_of(partition, limits),
        run_ms=longest_ms,
        policies=split_policies(counters.settings),
    )
    return order, task
