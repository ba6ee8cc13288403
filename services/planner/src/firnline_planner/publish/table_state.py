"""A table's published state, for console and `with_numbers`: when it is due, and what is in it; and
forgetting a table that is gone."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

from firnline_domain.advice.finding import Known
from firnline_domain.base.times import DAY_MS, earliest_of
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.partition_age import age_of
from firnline_domain.counters.activity.reads import reads_in_force
from firnline_domain.counters.state.size_spread import PartitionSpread
from firnline_domain.counters.state.work import Partition, Promised, Table
from firnline_domain.policy.cost.read_cost import burden_of
from firnline_domain.policy.fleet.holds import find_rewrite_hold, hold_changes_ms
from firnline_domain.policy.partition.decide import (
    admit_rewrite,
    debt_files,
    decide_rewrite,
    reducible_debt,
    status_of,
    with_numbers,
)
from firnline_domain.policy.policy_input import collect_input
from firnline_domain.policy.reasons.expiry import ExpiryReason
from firnline_domain.policy.reasons.partition import Reason
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.table_action.snapshot_retention import EXPIRE, begins_ms
from firnline_domain.policy.triggers.objectives import is_missed
from firnline_domain.policy.triggers.table import forecast_triggers
from firnline_domain.policy.triggers.v2_deletes import VECTORS, v2_files
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
from firnline_planner.state.effects import TABLE_STATES, Output
from firnline_planner.state.encoding import ref_key
from firnline_planner.state.failing_tables import PUBLISH
from firnline_planner.state.recount import Recount, is_gone
from firnline_planner.state.table_context import TableContext

PUBLISHED_PARTITIONS = 100
FORECAST_PARTITIONS = 3  # of these, with every trigger: 0.4 kB each
WOULD_ORDER = "would_order"  # a partition's status in shadow
INTERVAL_MS = 1_000  # between two states of a table at the least
INTERVAL_MAX_MS = 60_000
REMEMBER_REMOVED_MS = DAY_MS  # a late duplicate of a dropped table's event is younger than that


class V2Partitions:
    """Counts the partitions that pass `pass_counted` and hold delete files of v2."""

    def __init__(self, table: Table, limits: Thresholds) -> None:
        self._table, self._limits = table, limits
        lowest = min(table.counters.format_version, limits.format_version)
        self.count: int | None = 0 if lowest >= VECTORS else None

    def pass_counted(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Yield the same partitions, and count those with v2 files."""
        for partition in partitions:
            if self.count is not None and v2_files(self._table, partition, self._limits):
                self.count += 1
            yield partition


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
    recount = Recount(table.counters)
    spread = PartitionSpread(context.limits.target_bytes)
    statuses = Statuses(table, context.limits, context.now_ms)
    span = PartitionSpan(table, context.now_ms)
    oldest = OldestEqualityDelete(context.limits)
    every = span.pass_counted(recount.pass_counted(_without_gone(context, table)))
    missed = OffObjective(context.limits, context.now_ms)
    of_v2 = V2Partitions(table, context.limits)
    every = of_v2.pass_counted(missed.pass_counted(every))
    every = oldest.pass_counted(statuses.pass_counted(spread.pass_through(every)))
    debt = DebtFiles(table, context.limits)
    counted = ((debt.count_files(partition), partition) for partition in every)
    deepest = heapq.nlargest(PUBLISHED_PARTITIONS, counted, key=itemgetter(0))
    table = replace(table, counters=recount.check_counters(context.now_ms))
    service = table.work.service
    service = replace(service, promised=oldest.promise_state, off_objective=missed.count)
    if service != table.work.service:
        table = replace(table, work=replace(table.work, service=service))
    if (reads := table.work.reads) and reads.span != span.units:
        table = replace(table, work=replace(table.work, reads=replace(reads, span=span.units)))
    rules = context.policies.rules_of(table.counters.table)
    known = Known(table, spread, context.limits, context.fleet, context.now_ms, rules)
    table = update_advice(known, context.effects)
    again = _next_publication_ms(context, table)
    table = replace(table, work=replace(table.work, publish_ms=again, published_ms=context.now_ms))
    state = table_state(context, table, deepest, statuses.counts)
    state = replace(state, debt_files=debt.files, v2_partitions=of_v2.count)
    context.effects.add_outputs([Output(TABLE_STATES, f"{state.table.key}/{state.ref}", state)])
    context.state.put_table(table)


def _next_publication_ms(context: TableContext, table: Table) -> int | None:
    """Return when time alone changes the table's state, in ms since 1970; None = only an event
    does."""
    if table.counters.removed:
        return context.now_ms + REMEMBER_REMOVED_MS
    return earliest_of(
        hold_changes_ms(table, context.limits, context.now_ms), stale_ms(table, context.now_ms)
    )


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


class DebtFiles:
    """Adds up the debt of partitions (`debt_files`)."""

    def __init__(self, table: Table, limits: Thresholds) -> None:
        self._table, self._limits = table, limits
        self._own = self._global = 0

    def count_files(self, partition: Partition) -> int:
        """Count the files with debt of one partition and return their number."""
        files = debt_files(self._table, partition, self._limits)
        shared = reducible_debt(self._table, partition, self._limits).global_deletes
        self._own += files - shared
        self._global = max(self._global, shared)  # every partition has the same ones
        return files

    @property
    def files(self) -> int:
        return self._own + self._global


def table_state(
    context: TableContext,
    table: Table,
    deepest: Iterable[tuple[int, Partition]],
    statuses: Mapping[str, int],
) -> TableState:
    """Return the state to publish. `statuses`: of all partitions, not only of the deepest."""
    counters, limits, now_ms = table.counters, context.limits, context.now_ms
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
        hold=_current_hold(context, table),
        in_force=in_force(table, context.fleet),
        advised=tuple(table.work.advice),
        reads=reads_state(table, limits, now_ms),
        statuses=dict(statuses),
        expiry_plan=expiry_plan(table, limits, now_ms),
        metadata_bytes=counters.metadata_bytes,
        actions={name: work.reason for name, work in table.work.actions.items()},
        action_numbers=action_numbers(table, context.limits_of_all(table), now_ms),
    )


def _current_hold(context: TableContext, table: Table) -> TableHold | None:
    key = ref_key(table.counters.table.key, table.counters.ref)
    failing = context.failing.hold_of(key, doing=PUBLISH)
    return failing or find_rewrite_hold(table, context.limits, context.now_ms)


def action_numbers(table: Table, limits: Thresholds, now_ms: int) -> dict[str, dict[str, float]]:
    """Return for each action on the whole table the numbers behind its decision, and the cost and
    gain of its next task."""
    expiry = table.work.expiry
    kept = {*table.work.actions, *([EXPIRE] if expiry.going.snapshots or expiry.task_id else [])}
    return {
        name: {
            **one.order_numbers(table, limits),
            **one.estimate_numbers(table, limits, now_ms),
        }
        for name, one in TABLE_ACTIONS.items()
        if name in kept
    }


def expiry_plan(table: Table, limits: Thresholds, now_ms: int) -> ExpiryPlan | None:
    """Return the expiry that was announced and has not begun yet; None if there is none."""
    going = table.work.expiry.going
    begins = begins_ms(table, limits, now_ms)
    if table.work.expiry.reason != ExpiryReason.GRACE_PERIOD or begins <= now_ms:
        return None
    return ExpiryPlan(begins, going.snapshots, going.files, going.bytes)


class Statuses:
    """Counts the partitions that pass `pass_counted` by their status."""

    def __init__(self, table: Table, limits: Thresholds, now_ms: int) -> None:
        self._table, self._limits, self._now_ms = table, limits, now_ms
        self.counts: Counter[str] = Counter()

    def pass_counted(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Yield the same partitions, and count them by status."""
        for partition in partitions:
            if not partition.counters.is_empty:
                self.counts[self._status_name(partition)] += 1
            yield partition

    def _status_name(self, partition: Partition) -> str:
        table, limits, now_ms = self._table, self._limits, self._now_ms
        if (
            limits.shadow
            and decide_rewrite(table, partition, limits, now_ms).reason is Reason.SHADOW
        ):
            return WOULD_ORDER
        return status_of(table, partition, limits, now_ms)


def reads_state(table: Table, limits: Thresholds, now_ms: int) -> TableReads | None:
    """Return the scans per hour of the most read partitions, and the rate in force; None before the
    first report."""
    if (reads := table.work.reads) is None:
        return None
    place = reads.most_read(table.counters.totals.partitions)
    seen = round(reads.per_hour(now_ms, place), 3)
    rate = reads_in_force(limits, reads.scans_per_hour(now_ms, place))
    return TableReads(seen, reads.since_ms, rate)


class OldestEqualityDelete:
    """Looks for it in the partitions that pass `pass_counted`, where none shall be too old."""

    def __init__(self, limits: Thresholds) -> None:
        self._max_age_ms = limits.max_equality_delete_age_ms
        self._oldest_ms: int | None = None

    def pass_counted(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Yield the same partitions, and note their oldest equality delete."""
        for partition in partitions:
            if not partition.counters.is_empty:
                self._oldest_ms = earliest_of(self._oldest_ms, partition.work.equality_since_ms)
            yield partition

    @property
    def promise_state(self) -> Promised | None:
        if not self._max_age_ms or self._oldest_ms is None:
            return None
        return Promised(self._max_age_ms, self._oldest_ms)


class OffObjective:
    """Counts the partitions that pass `pass_counted` and miss an objective of their table."""

    def __init__(self, limits: Thresholds, now_ms: int) -> None:
        self._limits, self._now_ms = limits, now_ms
        self._any = limits.max_read_amplification > 0 or limits.max_oldest_debt_ms > 0
        self.count = 0

    def pass_counted(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Yield the same partitions, and count those that miss an objective."""
        for partition in partitions:
            self.count += self._any and self._misses_objective(partition)
            yield partition

    def _misses_objective(self, partition: Partition) -> bool:
        limits = self._limits
        amplification = burden_of(partition.counters.holds, limits.target_bytes).amplification
        return is_missed(partition, amplification, limits, self._now_ms)


class PartitionSpan:
    """Looks for the oldest and the newest of the partitions that pass `pass_counted`."""

    def __init__(self, table: Table, now_ms: int) -> None:
        reads = table.work.reads
        self._clock = reads.clock if reads else None
        self._now_ms = now_ms
        self._ages: tuple[int, int] | None = None

    def pass_counted(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Yield the same partitions, and note the oldest and the newest."""
        for partition in partitions:
            age = age_of(partition.counters.scope, self._clock, self._now_ms)
            if age is not None:
                newest, oldest = self._ages or (age, age)
                self._ages = min(newest, age), max(oldest, age)
            yield partition

    @property
    def units(self) -> int:
        """Return the number of units from the oldest partition to the newest, both included; 0 if
        no partition contains a time."""
        return 0 if self._ages is None else self._ages[1] - self._ages[0] + 1


def in_force(table: Table, fleet: Thresholds) -> tuple[SettingInForce, ...]:
    """Return the settings that are not the default, or that have a problem."""
    found = settings_in_force(table.counters.settings, fleet).values()
    return tuple(one for one in found if one.origin != Origin.DEFAULT or one.problem)


def partition_state(
    context: TableContext, table: Table, partition: Partition, debt_files: int, forecasts: bool
) -> PartitionState:
    """Return the state of a partition, with the decision that holds for it now and its numbers.
    `forecasts`: with every trigger, too."""
    limits, now_ms = context.limits_of(table, partition), context.now_ms
    decision = decide_rewrite(table, partition, limits, now_ms)
    status, until_ms = decision.status, decision.until_ms
    if decision.reason is Reason.SHADOW and decision.wanted:
        serving = replace(limits, shadow=False)  # what would be decided if orders went out
        decision = admit_rewrite(table, partition, decision.wanted, serving, now_ms)
        status, until_ms = WOULD_ORDER, None
    decision = with_numbers(table, partition, decision, limits, now_ms)
    task = table.work.task_of(partition.counters.scope)
    failing = decision.reason in (Reason.BACKING_OFF, Reason.PARKED)
    why = partition.work.failure if failing else decision.reason
    given = collect_input(table, partition, limits, now_ms) if forecasts else None
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
        triggers=tuple(forecast_triggers(given)) if given else (),
    )
