"""TableScanned: how often a table is read, and by what; it is reconciled where that
changes its policy, and published where that changes the advice."""

from __future__ import annotations

from firnline_domain.counters.filters import after_scan_report
from firnline_domain.counters.reads import (
    Reads,
    after_report,
    load_share,
    reads_in_force,
    share_read,
)
from firnline_domain.identity import MAIN
from firnline_domain.records.events import TableScanned
from firnline_domain.settings.thresholds import Thresholds, thresholds
from firnline_domain.values import replace

from firnline_planner.reconcile.advice import column_sought
from firnline_planner.reconcile.context import TableContext
from firnline_planner.reconcile.publishing import with_publication


def on_table_scanned(event: TableScanned, context: TableContext) -> None:
    """Count the scans for `main`: reports name a snapshot and no ref. Nothing is decided here: the
    moments of all partitions move with the rate, so the table is due to be reconciled."""
    now_ms = context.now_ms
    table = context.state.table(event.table.uuid, MAIN)
    if table is None or table.counters.removed:
        return
    before, totals = table.work, table.counters.totals
    files = totals.holds.data.files
    scans = _whole_scans(event, files) + event.loads * load_share(totals.partitions)
    reads = after_report(before.reads, scans, event.to_ms, now_ms)
    work = replace(
        before, reads=reads, filters=after_scan_report(before.filters, event, files, now_ms)
    )
    if work == before:
        return
    limits = thresholds(table.counters.settings, context.fleet)
    if _is_news(before.reads, reads, limits, now_ms):
        work = work.reconciled_by(now_ms)
    table = replace(table, work=work)
    if column_sought(before, now_ms) != column_sought(work, now_ms):
        table = with_publication(context.for_table(table), table)
    context.state.put_table(table)


def _whole_scans(event: TableScanned, files: int) -> float:
    return event.scans * share_read(event.scans, event.data_files, files)


def _is_news(before: Reads | None, reads: Reads, limits: Thresholds, now_ms: int) -> bool:
    """True if partitions were decided about by another rate: at the last report, or since, when it
    had decayed."""
    rate = reads_in_force(limits, reads.in_force)
    if before is None:
        return False
    used = (before.in_force, before.believed(now_ms))
    return any(reads_in_force(limits, one) != rate for one in used)
