"""What a step counts for, in the metrics."""

from __future__ import annotations

from collections.abc import Iterable

from firnline_adapters import metrics
from firnline_domain.commands import ExpireSnapshots, RewriteFiles
from firnline_domain.folding import Verdict
from firnline_domain.lanes import lane_at
from firnline_domain.states import TableAdvice

from firnline_planner.bucket import Bucket
from firnline_planner.step import RESYNC_REQUESTS, Step


def count(step: Step) -> None:
    """Add a handled record's step to the counters."""
    for verdict in step.verdicts:
        if verdict in (Verdict.FOLDED, Verdict.PART):
            metrics.count("changes_folded")
        elif verdict is Verdict.HELD:
            metrics.count("changes_held")
        elif verdict in (Verdict.DUPLICATE, Verdict.STALE):
            metrics.count("changes_duplicate")
    for outcome in step.outcomes:
        metrics.count("tasks_finished", outcome=outcome)
    if step.spent_gb_hours:
        metrics.count("budget_gb_hours", step.spent_gb_hours)
    for output in step.outputs:
        metrics.count("records_written", topic=output.topic)
        if isinstance(output.record, TableAdvice):
            word = "withdrawn" if output.record.withdrawn else "given"
            metrics.count("advice", rule=output.record.rule, word=word)
        if output.topic == RESYNC_REQUESTS:
            metrics.count("resyncs")
        elif isinstance(output.record, RewriteFiles | ExpireSnapshots):
            lane = lane_at(output.topic)
            metrics.count("orders", reason=output.record.reason, lane=lane)


def show(buckets: Iterable[Bucket]) -> None:
    """Set the gauges."""
    owned = list(buckets)
    metrics.gauge("tables", sum(bucket.tables for bucket in owned))
    metrics.gauge("tables_paused", sum(bucket.paused for bucket in owned))
    metrics.gauge("partitions_waiting", sum(bucket.waiting for bucket in owned))
    metrics.gauge("tasks_in_flight", sum(bucket.in_flight for bucket in owned))
