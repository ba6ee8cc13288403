"""A table's published state, for console and `with_numbers`: when it is due, and what is in it; and
forgetting a table that is gone."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

from firnline_domain.advice.finding import Known
from firnline_domain.base.times import DAY_MS, earliest_of
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.reads import reads_in_force
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.policy.fleet.holds import find_rewrite_hold, hold_changes_ms
from firnline_domain.policy.partition.decide import (
    admit_rewrite,
    decide_rewrite,
    with_numbers,
)
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.table_action.snapshot_retention import EXPIRE, ExpiryReason, begins_ms
from firnline_domain.policy.triggers.table import forecast_triggers
from firnline_domain.records.pauses import TableHold
from firnline_domain.records.states import (
    ExpiryPlan,
    PartitionState,
    SettingInForce,
    TableReads,
    TableState,
)
from firnline_domain.settings.in_force import settings_in_force
from firnline_domain.settings.thresholds import Origin, Thresholds

from firnline_planner.publish.advice import stale_ms, update_advice
from firnline_planner.publish.partition_sums import WOULD_ORDER, PartitionSums
from firnline_planner.state.effects import TABLE_STATES, Output
from firnline_planner.state.encoding import ref_key
from firnline_planner.state.failing_tables import PUBLISH
from firnline_planner.state.table_context import TableContext, is_gone

PUBLISHED_PARTITIONS = 100
FORECAST_PARTITIONS = 3  # of these, with every trigger: 0.4 kB each
INTERVAL_MS = 1_000  # between two states of a table at the least
INTERVAL_MAX_MS = 60_000
REMEMBER_REMOVED_MS = DAY_MS  # a late duplicate of a dropped table's event is younger than that


def with_publication(context: TableContext, table: Table) -> Table:
    """Return the table with the time at which its state is published."""
    work, latest_ms = table.work, context.now_ms + interval_ms(table)
    # Never later: where the clock was set back, it was published in what is now the future.
    publish_ms = min(max(context.now_ms, work.published_ms + interval_ms(table)), latest_ms)
    planned = work.publish_ms
    if planned is not None and (planned <= publish_ms or table.counters.removed):
        return table
    return replace(table, work=replace(work, publish_ms=publish_ms))


def publish_at(context: TableContext, key: bytes) -> None:
    """Publish the table of a key, or forget it. Raises what its state raises."""
    if (table := context.state.table_at(key)) is not None:
        publish_or_forget(context.for_table(table), table)


def publish_or_forget(context: TableContext, table: Table) -> None:
    """Publish the table's state if it is due at this tick; remove a table that was dropped from its
    catalog and has been published since."""
    work = table.work
    if work.publish_ms is None or work.publish_ms > context.now_ms:
        return
    if table.counters.removed and work.published_ms:
        context.state.drop_table(table)
        return
    sums = PartitionSums(context, table)
    counted = ((sums.add(partition), partition) for partition in _without_gone(context, table))
    deepest = heapq.nlargest(PUBLISHED_PARTITIONS, counted, key=itemgetter(0))
    table = replace(table, counters=sums.recount.check_counters(context.now_ms))
    service = table.work.service
    service = replace(service, promised=sums.promise, off_objective=sums.off_objective)
    if service != table.work.service:
        table = replace(table, work=replace(table.work, service=service))
    if (reads := table.work.reads) and reads.span != sums.span:
        table = replace(table, work=replace(table.work, reads=replace(reads, span=sums.span)))
    known = Known(
        table,
        context.settings,
        context.costs,
        context.now_ms,
        sums.spread,
        context.fleet,
        context.policies.rules_of(table.counters.table),
    )
    table = update_advice(known, context.effects)
    again = _next_publication_ms(context, table)
    table = replace(table, work=replace(table.work, publish_ms=again, published_ms=context.now_ms))
    state = table_state(context, table, deepest, sums.statuses)
    state = replace(state, debt_files=sums.debt_files, v2_partitions=sums.v2_partitions)
    context.effects.add_outputs([Output(TABLE_STATES, f"{state.table.key}/{state.ref}", state)])
    context.state.put_table(table)


def _next_publication_ms(context: TableContext, table: Table) -> int | None:
    """Return when time alone changes the table's state, in ms since 1970; None = only an event
    does."""
    if table.counters.removed:
        return context.now_ms + REMEMBER_REMOVED_MS
    changes_ms = hold_changes_ms(context.table_input(table))
    return earliest_of(changes_ms, stale_ms(table, context.now_ms))


def _without_gone(context: TableContext, table: Table) -> Iterator[Partition]:
    """Yield every partition in the counters, and drop the others from the state."""
    counters = table.counters
    for partition in context.state.partitions(counters.table.key, counters.ref):
        if is_gone(counters, partition.counters):
            scope = partition.counters.scope
            context.state.drop_partition(counters.table.key, counters.ref, scope)
        else:
            yield partition


def interval_ms(table: Table) -> int:
    """Return the interval between publications of a state. A scan of 1,000 partitions must cost at
    most 2 % of the time."""
    return min(max(table.counters.totals.partitions, INTERVAL_MS), INTERVAL_MAX_MS)


def table_state(
    context: TableContext,
    table: Table,
    deepest: Iterable[tuple[int, Partition]],
    statuses: Mapping[str, int],
) -> TableState:
    """Return the state to publish. `statuses`: of all partitions, not only of the deepest."""
    counters, now_ms, given = table.counters, context.now_ms, context.table_input(table)
    return TableState(
        table=counters.table,
        ref=counters.ref,
        head_snapshot_id=counters.head_snapshot_id,
        sequence_number=counters.sequence_number,
        epoch=counters.epoch,
        ordinal=counters.ordinal,
        format_version=counters.format_version,
        holds=counters.totals.holds,
        partition_count=counters.totals.partitions,
        partitions=tuple(
            partition_state(context, table, partition, debt, number < FORECAST_PARTITIONS)
            for number, (debt, partition) in enumerate(deepest)
        ),
        snapshot_count=counters.snapshot_count,
        oldest_snapshot_ms=counters.oldest_snapshot_ms,
        waiting_for_resync=counters.waiting is not None,
        settings=counters.settings,
        expiry_reason=table.work.expiry.reason,
        removed=counters.removed,
        updated_at_ms=now_ms,
        hold=_current_hold(context, given),
        in_force=in_force(table, context.fleet),
        advised=tuple(table.work.advice),
        reads=reads_state(table, context.settings, now_ms),
        statuses=dict(statuses),
        expiry_plan=expiry_plan(given),
        metadata_bytes=counters.metadata_bytes,
        actions={name: work.reason for name, work in table.work.actions.items()},
        action_numbers=action_numbers(given),
    )


def _current_hold(context: TableContext, given: TableInput) -> TableHold | None:
    key = ref_key(given.table.counters.table.key, given.table.counters.ref)
    failing = context.failing.hold_of(key, doing=PUBLISH)
    return failing or find_rewrite_hold(given)


def action_numbers(given: TableInput) -> dict[str, dict[str, float]]:
    """Return for each action on the whole table the numbers behind its decision, and the cost and
    gain of its next task."""
    actions, expiry = given.table.work.actions, given.table.work.expiry
    kept = {*actions, *([EXPIRE] if expiry.going.snapshots or expiry.task_id else [])}
    return {
        name: {**one.order_numbers(given), **one.estimate_numbers(given)}
        for name, one in TABLE_ACTIONS.items()
        if name in kept
    }


def expiry_plan(given: TableInput) -> ExpiryPlan | None:
    """Return the expiry that was announced and has not begun yet; None if there is none."""
    expiry, begins = given.table.work.expiry, begins_ms(given)
    going = expiry.going
    if expiry.reason != ExpiryReason.GRACE_PERIOD or begins <= given.now_ms:
        return None
    return ExpiryPlan(begins, going.snapshots, going.files, going.bytes)


def reads_state(table: Table, settings: Thresholds, now_ms: int) -> TableReads | None:
    """Return the scans per hour of the most read partitions, and the rate in force; None before the
    first report."""
    if (reads := table.work.reads) is None:
        return None
    place = reads.most_read(table.counters.totals.partitions)
    seen = round(reads.per_hour(now_ms, place), 3)
    rate = reads_in_force(settings, reads.scans_per_hour(now_ms, place))
    return TableReads(seen, reads.since_ms, rate)


def in_force(table: Table, fleet: Thresholds) -> tuple[SettingInForce, ...]:
    """Return the settings that are not the default, or that have a problem."""
    found = settings_in_force(table.counters.settings, fleet).values()
    return tuple(one for one in found if one.origin != Origin.DEFAULT or one.problem)


def partition_state(
    context: TableContext, table: Table, partition: Partition, debt_files: int, forecasts: bool
) -> PartitionState:
    """Return the state of a partition, with the decision that holds for it now and its numbers.
    `forecasts`: with every trigger, too."""
    given = context.input_of(table, partition)
    decision = decide_rewrite(given)
    status, until_ms = decision.status, decision.until_ms
    if decision.reason is Reason.SHADOW and decision.wanted:
        serving = replace(given.settings, shadow=False)  # what would be decided if orders went out
        decision = admit_rewrite(replace(given, settings=serving), decision.wanted)
        status, until_ms = WOULD_ORDER, None
    decision = with_numbers(given, decision)
    task = table.work.task_of(partition.counters.scope)
    failing = decision.reason in (Reason.BACKING_OFF, Reason.PARKED)
    why = partition.work.failure if failing else decision.reason
    return PartitionState(
        scope=partition.counters.scope,
        holds=partition.counters.holds,
        status=status,
        reason=task.reason if task else why,
        numbers=task.numbers if task else decision.numbers,
        task_id=task.task_id if task else None,
        until_ms=until_ms,
        failures=partition.work.failures,
        debt_files=debt_files,
        triggers=tuple(forecast_triggers(given)) if forecasts else (),
    )
