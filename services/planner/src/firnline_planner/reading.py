"""TableScanned: how often a table is read, and another look at it where that changes its policy."""

from __future__ import annotations

from firnline_domain.events import TableScanned
from firnline_domain.identity import MAIN
from firnline_domain.progress import Table
from firnline_domain.reads import Reads, share_read, watched
from firnline_domain.thresholds import Thresholds, reads_in_force, thresholds
from firnline_domain.values import replace

from firnline_planner.state import State


def on_table_scanned(event: TableScanned, state: State, defaults: Thresholds, now_ms: int) -> None:
    """Count the scans for `main`: reports name a snapshot and no ref. Nothing is decided here: the
    moments of all partitions move with the rate, so the table is due for a look at them."""
    table = state.table(event.table.uuid, MAIN)
    if table is None or table.counters.removed:
        return
    reads = watched(table.work.reads, _whole_scans(event, table), event.to_ms, now_ms)
    if reads == table.work.reads:
        return
    work = replace(table.work, reads=reads)
    limits = thresholds(table.counters.settings, defaults)
    if _is_news(table.work.reads, reads, limits, now_ms):
        work = work.looking(now_ms)
    state.put_table(replace(table, work=work))


def _whole_scans(event: TableScanned, table: Table) -> float:
    files = table.counters.totals.holds.data.files
    return event.scans * share_read(event.scans, event.data_files, files)


def _is_news(before: Reads | None, reads: Reads, limits: Thresholds, now_ms: int) -> bool:
    """True if partitions were decided about by another rate: at the last report, or since, when it
    had decayed."""
    rate = reads_in_force(limits, reads.in_force)
    if before is None:
        return False
    used = (before.in_force, before.believed(now_ms))
    return any(reads_in_force(limits, one) != rate for one in used)
