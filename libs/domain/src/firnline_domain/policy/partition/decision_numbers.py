"""The numbers behind a decision, as they travel with its reason to `explain` and into events."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS
from firnline_domain.counters.state.file_sizes import mendable_error, size_error
from firnline_domain.policy.cost.cost_benefit import CostBenefit
from firnline_domain.policy.cost.dollars import DAY_H, of_rewrite, round_significant
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.policy.fleet.lanes import set_bytes
from firnline_domain.policy.policy_input import PolicyInput
from firnline_domain.policy.triggers.dead_files import positional_records
from firnline_domain.policy.triggers.v2_deletes import V2_DELETE_FILES, v2_files


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
