"""TableScanned: how often a table is read, and by what; it is reconciled where that
changes its policy, and published where that changes the advice."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.activity.filters import after_scan_report
from firnline_domain.counters.activity.partition_age import reached_by
from firnline_domain.counters.activity.reads import (
    Reads,
    ScanReport,
    after_report,
    reads_in_force,
    share_read,
)
from firnline_domain.identity import MAIN
from firnline_domain.records.events import TableScanned
from firnline_domain.settings.thresholds import ReadsFrom, Thresholds, resolve_thresholds

from firnline_planner.handlers.file_changes import is_of_another
from firnline_planner.publish.advice import column_sought
from firnline_planner.publish.table_state import with_publication
from firnline_planner.state.table_context import TableContext


def on_table_scanned(event: TableScanned, context: TableContext) -> None:
    """Count the scans for `main`: reports name a snapshot and no ref. Nothing is decided here: the
    moments of all partitions move with the rate, so the table is due to be reconciled."""
    now_ms = context.now_ms
    table = context.state.table(event.table.key, MAIN)
    if table is None or table.counters.removed or is_of_another(table, event.table):
        return
    before, totals = table.work, table.counters.totals
    files, clock = totals.holds.all_data.files, event.layout.clock if event.layout else None
    known = before.reads and before.reads.with_clock(clock)
    came = _to_scanned(event, files, totals.partitions, known.span if known else 0)
    reads = after_report(known, came, event.to_ms, now_ms).with_clock(clock)
    work = replace(
        before, reads=reads, filters=after_scan_report(before.filters, event, files, now_ms)
    )
    if work == before:
        return
    limits = resolve_thresholds(table.counters.settings, context.fleet)
    if _is_news(before.reads, reads, limits, now_ms):
        work = work.reconciled_by(now_ms)
    table = replace(table, work=work)
    other_clock = reads.clock != (before.reads.clock if before.reads else None)
    if other_clock or column_sought(before, now_ms) != column_sought(work, now_ms):
        table = with_publication(context.for_table(table), table)
    context.state.put_table(table)


def _to_scanned(event: TableScanned, files: int, partitions: int, span: int) -> ScanReport:
    """Return the scans of an event. Scans that do not report where they read count by the share of
    the table's files."""
    scans = event.scans - sum(one.scans for one in event.ranges)
    data_files = event.data_files - sum(one.data_files for one in event.ranges)
    return ScanReport(
        spread=scans * share_read(scans, data_files, files),
        loads=event.loads,
        ranges=tuple(reached_by(one, files, partitions, span) for one in event.ranges),
    )


def _is_news(before: Reads | None, reads: Reads, limits: Thresholds, now_ms: int) -> bool:
    """Return True if partitions were decided about by another rate: at the last report, or since,
    when it had decayed."""
    if before is None or before.rate_steps() == reads.rate_steps() == before.rate_steps(now_ms):
        return False
    if limits.reads_from is ReadsFrom.REPORTED:
        return True
    return _highest_rate(limits, before, reads, now_ms) > reads_in_force(limits, None)


def _highest_rate(limits: Thresholds, before: Reads, reads: Reads, now_ms: int) -> float:
    """Return the highest rate that was or is in force for a partition."""
    rates = (
        before.in_force(before.most_read(1)),
        before.scans_per_hour(now_ms, before.most_read(1)),
        reads.in_force(reads.most_read(1)),
    )
    return max(reads_in_force(limits, one) for one in rates)
