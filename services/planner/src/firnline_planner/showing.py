"""Showing a table: when, and its state with its advice; and forgetting one that is gone."""

from __future__ import annotations

from collections.abc import Iterator

from firnline_domain.advising import Known
from firnline_domain.holds import turns_ms
from firnline_domain.progress import Partition, Table
from firnline_domain.recounting import Recount, is_gone
from firnline_domain.schedule import earliest
from firnline_domain.spread import Spread
from firnline_domain.thresholds import DAY_MS
from firnline_domain.values import replace

from firnline_planner.advising import advised, stale_ms
from firnline_planner.step import TABLE_STATES, Output
from firnline_planner.views import Statuses, deepest_in_debt, interval_ms, table_state
from firnline_planner.visit import Visit

REMEMBER_REMOVED_MS = DAY_MS  # a late duplicate of a dropped table's event is younger than that


def to_be_shown(visit: Visit, table: Table) -> Table:
    """With a moment at which people see what has changed."""
    work, latest_ms = table.work, visit.now_ms + interval_ms(table)
    # Never later: where the clock was set back, it was shown in what is now the future.
    show_ms = min(max(visit.now_ms, work.shown_ms + interval_ms(table)), latest_ms)
    planned = work.show_ms
    if planned is not None and (planned <= show_ms or table.counters.removed):
        return table
    return replace(table, work=replace(work, show_ms=show_ms))


def show_or_forget(visit: Visit, table: Table) -> None:
    """On a tick: publish the table's state if it is due; forget what was removed long ago."""
    work = table.work
    if work.show_ms is None or work.show_ms > visit.now_ms:
        return
    if table.counters.removed and work.shown_ms:
        visit.state.drop_table(table)
        return
    recount = Recount(table.counters)
    spread = Spread(visit.limits.target_bytes)
    statuses = Statuses(table, visit.limits, visit.now_ms)
    every = statuses.through(spread.through(recount.through(_without_gone(visit, table))))
    deepest = deepest_in_debt(table, every, visit.limits)
    table = replace(table, counters=recount.checked(visit.now_ms))
    known = Known(table, spread, visit.limits, visit.fleet, visit.now_ms)
    table = advised(known, visit.step)
    again = _shown_again_ms(visit, table)
    table = replace(table, work=replace(table.work, show_ms=again, shown_ms=visit.now_ms))
    shown = table_state(table, deepest, visit.limits, visit.fleet, visit.now_ms, statuses.counts)
    visit.step.send([Output(TABLE_STATES, f"{shown.table.uuid}/{shown.ref}", shown)])
    visit.state.put_table(table)


def _shown_again_ms(visit: Visit, table: Table) -> int | None:
    """When time alone makes another state of it."""
    if table.counters.removed:
        return visit.now_ms + REMEMBER_REMOVED_MS
    return earliest(turns_ms(table, visit.limits, visit.now_ms), stale_ms(table, visit.now_ms))


def _without_gone(visit: Visit, table: Table) -> Iterator[Partition]:
    """Every partition that the counters speak of; the others are dropped on the way."""
    counters = table.counters
    for partition in visit.state.partitions(counters.table.uuid, counters.ref):
        if is_gone(counters, partition.counters):
            scope = partition.counters.scope
            visit.state.drop_partition(counters.table.uuid, counters.ref, scope)
        else:
            yield partition
