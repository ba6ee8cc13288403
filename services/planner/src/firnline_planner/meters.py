"""Metrics that a step counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.counters.fold.folding import FoldOutcome
from firnline_domain.policy.fleet.lanes import lane_at
from firnline_domain.policy.fleet.worker_memory import MemoryKind
from firnline_domain.records.events import TableAssigned
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.states import TableAdvice
from firnline_domain.settings.groups import shown_name
from firnline_domain.settings.thresholds import FLEET

from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.state.effects import RESYNC_REQUESTS, Effects, Output

LOG = Log("planner")
GB_HOUR = 1e9 * 3_600  # in bytes times seconds, the units that Prometheus asks for
# A counter is asked once for a batch: asked with every record, it took a twenty-fifth of its time.
COUNTED: dict[str, str] = {
    FoldOutcome.FOLDED: "changes_folded",
    FoldOutcome.PART: "changes_folded",
    FoldOutcome.HELD: "changes_held",
    FoldOutcome.DUPLICATE: "changes_duplicate",
    FoldOutcome.STALE: "changes_duplicate",
}

_budgets: set[str] = set()  # shown before: at 0 where this planner has lost its last bucket
_sized: set[tuple[str, MemoryKind]] = set()  # the same
_priced = {"rewrites", "conversions"}  # the same, at 1; these two from the start


def count_read(topics: Iterable[str]) -> None:
    """Add the records of a batch, by their topics."""
    for topic, records in Counter(topics).items():
        metrics.count("records_read", records, topic=topic)


def count_steps(steps: Collection[Effects]) -> None:
    """Add the steps of a batch of handled records to the counters."""
    verdicts = Counter(verdict for step in steps for verdict in step.verdicts)
    for verdict, changes in verdicts.items():
        if verdict in COUNTED:
            metrics.count(COUNTED[verdict], changes)
    for outcome, tasks in Counter(one for step in steps for one in step.outcomes).items():
        if outcome == "parked":
            metrics.count("partitions_parked", tasks)
        else:
            metrics.count("orders_ended", tasks, outcome=outcome)
    if spent := sum(step.spent_gb_hours for step in steps):
        metrics.count("budget_byte_seconds", spent * GB_HOUR)
    for step in steps:
        for age_ms in step.ages_at_order_ms:
            metrics.observe("commit_to_order_seconds", age_ms / 1000)
        for age_ms in step.ages_at_finish_ms:
            metrics.observe("commit_to_healthy_seconds", age_ms / 1000)
    _count_outputs([output for step in steps for output in step.outputs])


def _count_outputs(outputs: Collection[Output]) -> None:
    for topic, records in Counter(output.topic for output in outputs).items():
        metrics.count("records_written", records, topic=topic)
    for output in outputs:
        if isinstance(output.record, TableAdvice):
            word = "withdrawn" if output.record.withdrawn else "given"
            metrics.count("advice", rule=output.record.rule, word=word)
        if isinstance(output.record, TableAssigned):
            _log_assignment(output.record)
        if output.topic == RESYNC_REQUESTS:
            metrics.count("resyncs")
        elif isinstance(output.record, RewriteFiles | TableOrder):
            lane = lane_at(output.topic)
            metrics.count("orders", reason=output.record.reason, lane=lane)
            _log_order(output, output.record)


def _log_order(output: Output, order: RewriteFiles | TableOrder) -> None:
    LOG.info(
        "order",
        task=order.task_id,
        table=order.table,
        partition=order.scope.partition if isinstance(order, RewriteFiles) else None,
        trigger=order.trigger_snapshot_id,
        reason=order.reason,
        snapshots=output.snapshots,
        trace=output.trace,
    )


def _log_assignment(assigned: TableAssigned) -> None:
    metrics.count("tables_assigned")
    key, bucket, reason = assigned.table_key, assigned.bucket, assigned.reason
    LOG.info("assigned", table_key=key, bucket=bucket, reason=reason)


def set_gauges(buckets: Iterable[PlannerBucket]) -> None:
    """Set the gauges of the owned buckets."""
    owned = list(buckets)
    metrics.gauge("tables", sum(bucket.table_count for bucket in owned))
    metrics.gauge("tables_paused", sum(bucket.paused_table_count for bucket in owned))
    metrics.gauge("tables_failing", sum(bucket.failing_table_count for bucket in owned))
    metrics.gauge("partitions_waiting", sum(bucket.waiting_partition_count for bucket in owned))
    used = max((bucket.promise_used for bucket in owned), default=0.0)
    metrics.gauge("equality_delete_age_of_promise", used)
    metrics.gauge("partitions_off_objective", sum(bucket.off_objective for bucket in owned))
    metrics.gauge("tasks_in_flight", sum(bucket.in_flight for bucket in owned))
    waited_s = dict.fromkeys(_budgets, 0.0)
    for bucket in owned:
        for budget, age_s in bucket.waiting_s.items():
            waited_s[budget] = max(waited_s.get(budget, 0.0), age_s)
    for budget, age_s in waited_s.items():
        label = "fleet" if budget == FLEET else shown_name(budget)
        metrics.gauge("oldest_waiting_debt_seconds", age_s, budget=label)
    _budgets.update(waited_s)
    loads = [bucket.load for bucket in owned]
    metrics.gauge("load", sum(loads))
    metrics.gauge("hottest_bucket_load", max(loads, default=0))
    furthest = dict.fromkeys(_priced, 1.0)
    for bucket in owned:
        for of, factor in bucket.price_factors:
            furthest[of] = max(furthest.get(of, 1.0), factor, key=_deviation)
    for of, factor in furthest.items():
        metrics.gauge("price_factor", factor, of=of)
    _priced.update(furthest)
    steps = dict.fromkeys(_sized, 0)
    for bucket in owned:
        for name, count in bucket.memory_steps:
            steps[name] = max(steps.get(name, 0), count)
    for (group, memory), count in steps.items():
        metrics.gauge("worker_memory_steps", count, group=shown_name(group), memory=memory)
    _sized.update(steps)


def _deviation(factor: float) -> float:
    return max(factor, 1 / factor)
