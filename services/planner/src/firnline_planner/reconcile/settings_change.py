"""Changes of a table's settings: its properties, its namespace's, or the policies."""

from __future__ import annotations

from firnline_domain.base.values import replace
from firnline_domain.counters.state.work import Table
from firnline_domain.policy.partition.outcomes import after_settings_change, with_debt_ages
from firnline_domain.policy.table_action.snapshot_retention import retry_allowed

from firnline_planner.state.table_context import TableContext


def with_current_policies(context: TableContext, table: Table) -> Table:
    """Return the table under the policies of now; if they set something else than before, every
    partition is due for a decision."""
    counters = table.counters
    settings = context.policies.with_policies(counters.table, counters.settings)
    if counters.removed or settings == counters.settings:
        return table
    table = replace(table, counters=replace(counters, settings=dict(settings)))
    refresh_debts(context.for_table(table), table, settings_changed=True)
    table = with_retries(table)
    return replace(table, work=table.work.reconciled_by(context.now_ms))


def with_retries(table: Table) -> Table:
    """Return the table with a refused expiry due again."""
    return replace(table, work=replace(table.work, expiry=retry_allowed(table.work.expiry)))


def refresh_debts(context: TableContext, table: Table, settings_changed: bool) -> None:
    """Update the debt of every partition; after a change of settings failed rewrites may start
    again."""
    for partition in context.partitions(table):
        work = after_settings_change(partition.work) if settings_changed else partition.work
        holds = context.debt(table, partition.counters.holds)
        work = with_debt_ages(replace(work, floor=work.floor.at_most(holds)), holds, context.now_ms)
        context.put_partition(table, replace(partition, work=work))
