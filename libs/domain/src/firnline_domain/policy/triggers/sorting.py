"""Decide when a partition is looked through for files whose keys overlap, in a table that wants its
rows sorted (`firnline.sort`): once in an interval, where it has changed.

How deep its files lie over each other no counter knows: bounds are in manifests, which the worker
reads; mostly it finds that nothing is to be done (`firnline_worker.plan.overlap`)."""

from __future__ import annotations

import math
import re

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import replace
from firnline_domain.counters.state.debt import NO_DEBT
from firnline_domain.counters.state.work import PartitionWork
from firnline_domain.policy.cost.cost_benefit import (
    READ_COST,
    Action,
    CostBenefit,
    burden_of,
    weigh_work,
)
from firnline_domain.policy.cost_model import SORT_S, Work
from firnline_domain.policy.policy_input import PolicyInput, TableInput
from firnline_domain.policy.reasons import NO_FILE, Decision, TriggerState
from firnline_domain.policy.triggers.full_rewrites import full_at_ms, is_frozen
from firnline_domain.policy.triggers.hot_partitions import wait_for_writers
from firnline_domain.settings.thresholds import Thresholds

TABLES_OWN = "order"  # of `firnline.sort`: the table's own sort order
CURVES_ROOT = 1.2  # measured: `firnline_deletes.files.hilbert_curve`
_CURVE = re.compile(r"(?:zorder|hilbert)\s*\((?P<columns>[^()]*)\)", re.IGNORECASE)
RUNS = 2  # files are sorted with runs of less than twice their size


def sort_at_ms(given: PolicyInput) -> int | None:
    """Return when it is due; None: never, or not before something changes."""
    counters, work, settings = given.partition.counters, given.partition.work, given.settings
    if not settings.sort or counters.holds.data_files <= settings.sort_depth:
        return None
    if work.sorted_ms is None:
        return 0
    if counters.changed_ms == work.sorted_seen_ms:
        return None
    return work.sorted_ms + settings.sort_interval_ms


def unsorted_due(given: PolicyInput, reason: ReasonCode) -> TriggerState | None:
    """Sort where nothing else is to be done: what is merged, or has its deletes applied, later on
    would be sorted once more. So a partition that is rewritten in an interval is not sorted."""
    at_ms = sort_at_ms(given)
    if at_ms is None:
        return None
    if full_at_ms(given) is not None and not is_frozen(given):
        return None
    if at_ms > given.now_ms:
        return TriggerState(at_ms)
    if waits := wait_for_writers(given, at_ms):
        return TriggerState(waits.until_ms)
    return TriggerState(decision=Decision(reason, action=Action.SORT, min_dead_ratio=NO_FILE))


def estimate_sort(given: PolicyInput) -> CostBenefit:
    """Estimate what a sort takes and spares, if as many files lie over each other as may: all of
    them the first time, and later the small ones that came since, twice, because they are sorted
    with runs of their size. Both are upper bounds: mostly there is less to be done. Each byte is
    written and read once more, by the shuffle."""
    holds, since_ms = given.holds, given.partition.work.sorted_ms
    data, small = holds.all_data, holds.fragments + holds.undersized
    is_first = since_ms is None or small.files == 0
    files = data.files if is_first else min(RUNS * small.files, data.files)
    size = data.bytes if is_first else min(RUNS * small.bytes, data.bytes)
    deletes = holds.equality_deletes
    work = Work(size + deletes.bytes, size, deletes.records, files=files)
    opens = max(files - _files_opened(files, given.settings), 0) * sorted_share(given)
    each_s = READ_COST.open_s + data.bytes / max(data.files, 1) * READ_COST.scan_s
    amplification = burden_of(holds, given.settings.target_bytes).amplification
    spared_s, factor = opens * each_s, given.costs.factors.sort_factor
    weighed = weigh_work(
        given, since_ms, work.with_shuffle(), spared_s, amplification, opens, factor
    )
    return replace(weighed, work=work, price_s=weighed.price_s + SORT_S * factor)


def sorted_share(given: TableInput) -> float:
    """Return the share of all scans that filter by the first column that files are sorted by; all
    of them if no report names a filter. Along a curve by any of its columns."""
    filters, text = given.table.work.filters, given.settings.sort
    if filters is None or filters.scans <= 0:
        return 1.0
    if (columns := curve_columns(text)) is not None:
        return min(sum(map(filters.use_of, columns)) / filters.scans, 1.0)
    names = filters.layout.ordered_by if text == TABLES_OWN else text.split(",")
    first = names[0].split()[0] if names and names[0].split() else ""
    return min(filters.use_of(first) / filters.scans, 1.0)


def curve_columns(text: str) -> tuple[str, ...] | None:
    """Return the columns of `zorder(a, b)`, as `firnline.sort` may have it; None: it is something
    else."""
    found = _CURVE.fullmatch(text.strip())
    return None if found is None else tuple(one.strip() for one in found["columns"].split(","))


def _files_opened(files: int, settings: Thresholds) -> float:
    """Estimate the files that a reader of one column opens, when they are sorted; along a curve the
    root of them, or more (of 100 files 12 for two columns, 27 for three)."""
    columns = curve_columns(settings.sort)
    if columns is None:
        return float(settings.sort_depth)
    root = math.pow(files, 1 - 1 / len(columns))
    return max(CURVES_ROOT * root, float(settings.sort_depth))


def after_sort(
    rested: PartitionWork, before: PartitionWork, is_sort: bool, changed_ms: int, now_ms: int
) -> PartitionWork:
    """Return the work after any rewrite. `changed_ms`: of the last change in the counters, which is
    the rewrite's own unless a writer was faster: then the partition is checked again."""
    if not is_sort:
        return replace(rested, sorted_ms=before.sorted_ms, sorted_seen_ms=before.sorted_seen_ms)
    seen_ms = changed_ms if before.arrived == NO_DEBT else 0
    return replace(rested, sorted_ms=now_ms, sorted_seen_ms=seen_ms)
