"""Does a partition deserve a rewrite now, and why (or why not): a pure function of values.
The numbers behind it travel with its reason to `explain` and into events."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS, earliest_of
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.file_sizes import (
    files_after,
    mendable_error,
    size_error,
    taken_by_merge,
)
from firnline_domain.counters.state.work import RunningTask, slots_of
from firnline_domain.identity import task_id
from firnline_domain.policy.cost.cost_benefit import (
    Action,
    CostBenefit,
    weigh_compaction,
    weigh_debt,
    weigh_merge,
)
from firnline_domain.policy.cost.dollars import DAY_H, of_rewrite, round_significant
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.policy.fleet.holds import BETWEEN_COMMITS, find_pause, find_rewrite_hold
from firnline_domain.policy.fleet.lanes import set_bytes
from firnline_domain.policy.partition.deadlines import QUEUE_MS, run_ms
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.reasons import EVERY_FILE, Decision, Reason
from firnline_domain.policy.triggers.dead_files import positional_records, weigh_with_dead_files
from firnline_domain.policy.triggers.full_rewrites import weigh_full
from firnline_domain.policy.triggers.objectives import delete_age_due_ms
from firnline_domain.policy.triggers.slices import share_of_price, slice_max_bytes, unfinished_of
from firnline_domain.policy.triggers.sorting import estimate_sort
from firnline_domain.policy.triggers.table import ORDERS, PROMISED, TriggerReason, first_due
from firnline_domain.policy.triggers.v2_deletes import V2_DELETE_FILES, v2_files
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import NO_FILES, FileTally, Tally, tally_of
from firnline_domain.records.pauses import TableHold
from firnline_domain.settings.policies import split_policies

BUDGET_LOOK_MS = 15 * 60_000  # a planner that starts has to find again who waits for the budget


def decide_rewrite(given: PolicyInput, *, is_granted: bool = False) -> Decision:
    """Make the decision for one partition. Made with every change; few get their numbers
    (`explain`). `is_granted`: the budget pays for it."""
    promised_ms = delete_age_due_ms(given)
    is_due = promised_ms is not None and promised_ms <= given.now_ms
    barred = _blocking_reason(given)
    if barred and not (is_due and barred[0] is Reason.COOLING):
        until_ms = barred[1]
        if barred[0] is Reason.COOLING:
            until_ms = earliest_of(until_ms, promised_ms)
        return Decision(barred[0], until_ms=until_ms)
    decision = admit_rewrite(given, first_due(given), is_granted=is_granted)
    if promised_ms is None or decision.order or is_due:
        return decision
    return replace(decision, until_ms=earliest_of(decision.until_ms, promised_ms))


def admit_rewrite(given: PolicyInput, wanted: Decision, *, is_granted: bool = False) -> Decision:
    """Return what the table's holds, places and budget leave of a wanted rewrite; to be called
    again when another order of the table has gone out."""
    if wanted.reason not in ORDERS:
        return wanted
    if wanted.reason is TriggerReason.EQUALITY_DELETE_AGE:
        return _overdue(given, wanted)
    hold, settings = find_rewrite_hold(given), given.settings
    if hold and not _shares_a_commit(given, hold):
        return Decision(Reason(hold.reason), until_ms=hold.until_ms, wanted=wanted)
    weighed = cost_benefit_of(given, wanted)
    cheap = weighed.work.bytes_read <= settings.cheap_bytes
    if not given.table.work.has_room(slots_of(cheap, weighed.price_s), settings):
        return Decision(Reason.TABLE_BUSY)
    is_weighed = wanted.reason not in PROMISED
    if is_weighed and settings.paying_budget[1].is_limited and not is_granted:
        until_ms = given.now_ms + BUDGET_LOOK_MS
        return replace(wanted, reason=Reason.WAITING_FOR_BUDGET, until_ms=until_ms)
    return replace(wanted, order=True, until_ms=given.now_ms + QUEUE_MS)


def _overdue(given: PolicyInput, wanted: Decision) -> Decision:
    """Return a decision whose deadline has come: no window, no budget and no number of orders is a
    reason to miss it."""
    if hold := find_pause(given):
        return Decision(Reason(hold.reason), until_ms=hold.until_ms, wanted=wanted)
    return replace(wanted, order=True, until_ms=given.now_ms + given.settings.deadline_ms)


def status_of(given: PolicyInput) -> str:
    """Return the status of a partition's decision, without weighing: this runs for every partition
    whenever a table's state is published. A partition that is due counts as idle until its task is
    sent."""
    barred = _blocking_reason(given)
    return Decision(barred[0]).status if barred else "idle"


def with_numbers(given: PolicyInput, decision: Decision) -> Decision:
    """Return the decision with the numbers that it was made from."""
    numbers = debt_numbers(given)
    numbers |= price_numbers(given, cost_benefit_of(given, decision))
    numbers |= dead_row_numbers(given, decision.min_dead_ratio)
    return replace(decision, numbers=numbers)


def cost_benefit_of(given: PolicyInput, decision: Decision) -> CostBenefit:
    """Return the costs and the benefit of the order that a decision makes."""
    if decision.action is Action.FULL:
        return weigh_full(given)
    if decision.action is Action.SORT:
        return estimate_sort(given)
    if decision.action is Action.MERGE:
        return weigh_merge(given) or weigh_debt(given)
    if decision.min_dead_ratio == EVERY_FILE:
        return weigh_debt(given) if given.takes_all else weigh_compaction(given)
    return weigh_with_dead_files(given, decision.min_dead_ratio)


def _shares_a_commit(given: PolicyInput, hold: TableHold) -> bool:
    """Return True if the order adds no commit: it goes out in the moment of another order."""
    is_out = given.now_ms in given.table.work.uncommitted_times
    return hold.reason in BETWEEN_COMMITS and is_out


def _blocking_reason(given: PolicyInput) -> tuple[Reason, int | None] | None:
    """Return why the partition gets no order, whatever its debt, and until when (None = until an
    event); None if nothing forbids one."""
    table, partition, now_ms = given.table, given.partition, given.now_ms
    counters, work = table.counters, partition.work
    if counters.removed:
        return Reason.REMOVED, None
    if not given.settings.enabled:
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


def reducible_debt(given: PolicyInput) -> Debt:
    """Return what a rewrite could remove: not what the last one has left, nor a lone fragment,
    which has nothing to be merged with."""
    return replace(given.new_debt, fragments=0) if given.debt.fragments == 1 else given.new_debt


def debt_files(given: PolicyInput) -> int:
    """Return the maintenance debt: how many files fewer a compaction would leave, data files and
    delete files together, as a dry run estimates it. Counters do not contain which delete reaches
    which file: see `_taken_by_compaction`."""
    mended, target = reducible_debt(given), given.settings.target_bytes
    deletes = mended.equality_deletes + mended.position_deletes + mended.global_deletes
    small = mended.fragments + mended.undersized
    if not deletes and not small:
        return 0
    holds = given.holds

    def least_removed(files: int) -> int:
        """Return the files that are removed at least: of all that the table has, one file stays
        alive until the second of two groups."""
        return 2 if files == given.table.counters.totals.holds.data_files else 1

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


def order_for(given: PolicyInput, decision: Decision) -> tuple[RewriteFiles, RunningTask]:
    """Build the task for an explained decision, and the planner's record of it."""
    partition, settings, now_ms = given.partition, given.settings, given.now_ms
    counters, scope = given.table.counters, partition.counters.scope
    assert counters.head_snapshot_id is not None  # a partition with debt has a snapshot
    text = f"{scope.spec_id}:{scope.partition}"
    head, action = counters.head_snapshot_id, decision.action
    ratio = decision.min_dead_ratio
    identity = task_id(counters.table.key, counters.ref, text, action, head, ratio)
    price_s = decision.numbers.get("rewrite_cpu_s", 0.0)
    longest_ms = run_ms(price_s * share_of_price(price_s, settings), settings)
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
        group=settings.served_by,
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
        max_bytes=slice_max_bytes(given, action),
        after=unfinished_of(given),
        run_ms=longest_ms,
        policies=split_policies(counters.settings),
    )
    return order, task


def debt_numbers(given: PolicyInput) -> dict[str, float]:
    """Return files of debt, in all and since the last rewrite, and their thresholds."""
    settings, debt, grown = given.settings, given.debt, given.new_debt
    return {
        V2_DELETE_FILES: v2_files(given),
        "fragments": debt.fragments,
        "new_fragments": grown.fragments,
        "min_fragments": max(settings.min_fragments, 2),  # as `triggers.table` takes them
        "equality_deletes": debt.equality_deletes,
        "new_equality_deletes": grown.equality_deletes,
        "min_equality_deletes": max(settings.min_equality_deletes, 1),
        "position_deletes": debt.position_deletes,
        "new_position_deletes": grown.position_deletes,
        "min_position_deletes": max(settings.min_position_deletes, 1),
        "global_deletes": debt.global_deletes,
        "new_global_deletes": grown.global_deletes,
        "undersized": debt.undersized,
        "new_undersized": grown.undersized,
        "failures": given.partition.work.failures,
        "in_flight": len(given.table.work.running),
        "max_commits": settings.max_commits,
        "sort_depth": settings.sort_depth,
    }


def dead_row_numbers(given: PolicyInput, ratio: float) -> dict[str, float]:
    """Return how many rows are dead by position, and from which share on files are rewritten for
    that."""
    holds = given.holds
    dead, records = positional_records(holds), max(holds.all_data.records, 1)
    return {
        "dead_rows": dead,
        "dead_ratio": round(dead / records, 4),
        "min_dead_ratio": ratio,
        "least_dead_ratio": given.settings.min_dead_ratio,
    }


def price_numbers(given: PolicyInput, weighed: CostBenefit) -> dict[str, float]:
    """Return sizes, what readers pay, what a rewrite costs: estimates from counters."""
    partition, settings, costs = given.partition, given.settings, given.costs
    holds, target, reads_per_hour = given.holds, settings.target_bytes, settings.reads_per_hour
    priced = of_rewrite(weighed, target)
    spared = priced.gain.dollars_an_hour(costs, reads_per_hour) * DAY_H
    return {
        "size_error": round(size_error(holds, target), 3),
        "mendable_size_error": round(mendable_error(holds, target), 3),
        "max_size_error": settings.max_size_error,
        "read_amplification": round(weighed.amplification, 3),
        "read_s_spared": round(weighed.spared_s, 3),
        "rewrite_cpu_s": round(weighed.price_s, 3),
        "price_factor": round(weighed.price_s / FIRNLINE.cpu_s(weighed.work), 3),
        "rewrite_gb_hours": round(weighed.gb_hours, 6),
        "rewrite_dollars": round_significant(priced.price.in_dollars(costs)),
        "spared_dollars_a_day": round_significant(spared),
        "rewrite_bytes": weighed.work.bytes_read,
        "paid_back": round(weighed.payback_ratio(given.now_ms), 3),
        "cheap_bytes": settings.cheap_bytes,
        "delete_set_bytes": set_bytes(partition),
        "heavy_bytes": settings.heavy_bytes,
        "out_of_memory": partition.work.out_of_memory,
        "reads_per_hour": reads_per_hour,
        "full_interval_h": round(settings.full_interval_ms / HOUR_MS, 2),
        "freeze_after_h": settings.freeze_after_h,
        **_deadline_numbers(given),
        **_objective_numbers(given),
    }


def _deadline_numbers(given: PolicyInput) -> dict[str, float]:
    since_ms = given.partition.work.equality_since_ms
    age_ms = 0 if since_ms is None else max(given.now_ms - since_ms, 0)
    return {
        "equality_delete_age_s": round(age_ms / 1000),
        "max_equality_delete_age_s": given.settings.max_equality_delete_age_ms / 1000,
    }


def _objective_numbers(given: PolicyInput) -> dict[str, float]:
    settings, since_ms = given.settings, given.partition.work.debt_since_ms
    return {
        "objective_read_amplification": settings.max_read_amplification,
        "oldest_debt_s": 0 if since_ms is None else round(max(given.now_ms - since_ms, 0) / 1000),
        "objective_oldest_debt_s": settings.max_oldest_debt_ms / 1000,
    }
