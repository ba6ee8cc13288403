"""Prometheus metrics: the closed list of names, and the server that shows them.

Names, kinds, units and meanings stand here and nowhere else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram, start_http_server

CounterName = Literal[
    "records_read",  # records taken from Kafka, by topic
    "records_written",  # records handed to Kafka, by topic
    "records_shrunk",  # records made smaller, because their topic takes no larger ones, by topic
    "dead_letters",  # records sent to dead-letters, by reason
    "gateway_calls",  # HTTP calls passed through, by status
    "gateway_commits",  # calls that changed a table and were accepted
    "gateway_unknown",  # commits whose outcome was unknown and was read from the table
    "gateway_unread",  # accepted calls that could not be read; their tables were, instead
    "gateway_holds",
    "gateway_latches",  # times that reads of a table were kept waiting for a commit of ours
    "gateway_scan_reports",  # scans that clients have reported, by outcome: counted, dropped
    "gateway_outbox_failures",  # writes to the outbox file that failed
    "snapshots_enriched",  # snapshots whose manifests were read
    "manifests_read",  # manifests opened
    "changes_folded",  # FilesChanged folded into counters
    "changes_duplicate",  # FilesChanged that were known already
    "changes_held",  # FilesChanged held back because their parent is not the head
    "resyncs",  # ResyncTable requests sent
    "orders",  # orders sent, by reason and lane
    "advice",  # words of advice about tables, by rule: given (or told anew), withdrawn
    "tasks_finished",  # tasks that ended, by outcome; `parked` beside it: no try for a day
    "rows_in",  # rows read by rewrites
    "rows_masked",  # rows dropped by deletes
    "delete_sets",  # delete sets asked for, by how they were had: built, shared, rebuilt
    "rewrites_committed",  # results that reached the table
    "rewrites_conflicted",  # results refused, by reason
    "rows_compared",  # commits read back by Iceberg's reader, by outcome: equal, differ, skipped
    "outputs_deleted",  # output files removed that no commit took
    "budget_gb_hours",  # foretold for the orders that the budget has paid for
]
GaugeName = Literal[
    "gateway_outbox_depth",  # events not yet on the broker
    "gateway_outbox_age_seconds",  # age of the oldest of them
    "tables",  # tables with counters in this planner
    "tables_paused",  # of these, held by `firnline pause`
    "partitions_waiting",  # for their turn within the budget
    "tasks_running",  # tasks in work in this worker
    "tasks_in_flight",  # partitions with an order out
]
HistogramName = Literal[
    "gateway_added_seconds",  # time that a commit's answer waited for the outbox
    "gateway_held_seconds",
    "gateway_latched_seconds",  # time that a read of a table waited for a commit of ours
    "enrich_seconds",  # from reading a TableCommitted to its FilesChanged
    "task_seconds",  # from the order's receipt to its result
    "commit_seconds",  # one result's examination and commit
    "event_lag_seconds",  # age of a record when it is read
]

_SLOW = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
Metric = Counter | Gauge | Histogram
_made: dict[str, Metric] = {}
_making = threading.Lock()  # the library refuses a second one of a name


def count(name: CounterName, amount: float = 1, **labels: str) -> None:
    """Add to a counter; a name always comes with the same label names."""
    full = f"firnline_{name}"
    metric = _metric(full, lambda: Counter(full, full, list(labels)))
    assert isinstance(metric, Counter)
    (metric.labels(**labels) if labels else metric).inc(amount)


def gauge(name: GaugeName, value: float) -> None:
    """Set a gauge."""
    full = f"firnline_{name}"
    metric = _metric(full, lambda: Gauge(full, full))
    assert isinstance(metric, Gauge)
    metric.set(value)


def observe(name: HistogramName, value: float) -> None:
    """Put a value, in seconds, into a histogram."""
    full = f"firnline_{name}"
    metric = _metric(full, lambda: Histogram(full, full, buckets=_SLOW))
    assert isinstance(metric, Histogram)
    metric.observe(value)


def _metric(name: str, make: Callable[[], Metric]) -> Metric:
    if name not in _made:
        with _making:
            if name not in _made:
                _made[name] = make()
    return _made[name]


def serve(port: int) -> None:
    """Show the metrics on the loopback interface; port 0 shows nothing."""
    if port:
        start_http_server(port, addr="127.0.0.1")
