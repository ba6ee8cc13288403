"""Forecasts the tasks for a table that no planner has read: the policy on counters of one moment.

Nothing runs, rests or has failed there, and no other maintainer is known. Debt is as old as the
newest snapshot: it may be older, which is served no later. A forecast is a shadow itself, so that
`firnline.shadow` holds nothing back in it."""

from __future__ import annotations

from collections.abc import Mapping

from firnline_domain.advice.finding import Known
from firnline_domain.advice.rules import advise
from firnline_domain.base.values import Value, field, replace
from firnline_domain.counters.fold.folding import fold_change
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.size_spread import PartitionSpread
from firnline_domain.counters.state.work import Partition, PartitionWork, Table
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.policy.cost_model import cost_model
from firnline_domain.policy.partition.decide import debt_files, decide_rewrite, with_numbers
from firnline_domain.policy.policy_input import PolicyInput, TableInput
from firnline_domain.policy.reasons import Decision
from firnline_domain.policy.table_action.snapshot_retention import ExpiryDecision, decide_expiry
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.states import TableAdvice
from firnline_domain.settings.table_rules import TableRule
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds


class SeenTable(Value):
    """A table's newest snapshot, as the catalog describes it. `settings` as
    `settings.with_namespace` gives them; `oldest_snapshot_ms` None = it has no snapshot."""

    table: TableName
    settings: Mapping[str, str]
    format_version: int
    snapshot_id: int | None
    snapshot_ms: int
    snapshot_count: int
    oldest_snapshot_ms: int | None
    partitions: tuple[PartitionChange, ...]  # all that it holds, as added
    manifests: int = 0
    manifest_bytes: int = 0
    changed_ms: Mapping[Scope, int | None] = field(default_factory=dict)  # where it is known
    rules: tuple[TableRule, ...] = ()
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # that these ask for


class Forecast(Value):
    """Every partition with the decision about it, the deepest in debt first."""

    given: TableInput
    decisions: tuple[tuple[Partition, Decision], ...]
    expiry: ExpiryDecision
    advice: tuple[TableAdvice, ...]

    @property
    def table(self) -> Table:
        return self.given.table

    @property
    def orders(self) -> tuple[tuple[Partition, Decision], ...]:
        """Return the decisions that would be ordered."""
        return tuple(one for one in self.decisions if one[1].order)


def forecast(seen: SeenTable, fleet: Thresholds, now_ms: int) -> Forecast:
    """Return what a planner would decide at `now_ms`."""
    table, partitions = _count_table(seen, now_ms)
    settings = replace(resolve_thresholds(seen.settings, fleet), shadow=False)
    costs, spread = cost_model(settings), PartitionSpread(settings.target_bytes)
    for partition in partitions:
        spread.add(partition)
    inputs = [PolicyInput(table, settings, costs, now_ms, one) for one in partitions]
    inputs.sort(key=lambda one: -debt_files(one))
    given = TableInput(table, settings, costs, now_ms)
    return Forecast(
        given=given,
        decisions=tuple((one.partition, with_numbers(one, decide_rewrite(one))) for one in inputs),
        expiry=decide_expiry(given),
        advice=advise(Known(table, settings, costs, now_ms, spread, fleet, seen.rules)).changed,
    )


def _count_table(seen: SeenTable, now_ms: int) -> tuple[Table, list[Partition]]:
    """Return the table and its partitions as the planner would count them after the first
    report."""
    folded = fold_change(TableCounters(seen.table, MAIN), {}, _build_change(seen, now_ms), now_ms)
    table = Table(folded.table)
    work = PartitionWork(debt_since_ms=seen.snapshot_ms, undersized_since_ms=seen.snapshot_ms)
    times = {scope: known or seen.snapshot_ms for scope, known in seen.changed_ms.items()}
    counted = (
        replace(one, changed_ms=times.get(one.scope, seen.snapshot_ms)) for one in folded.partitions
    )
    return table, [Partition(one, work) for one in counted]


def _build_change(seen: SeenTable, now_ms: int) -> FilesChanged:
    """Build the event with which the enricher would report the table's counters."""
    return FilesChanged(
        event_id="forecast",
        table=seen.table,
        ref=MAIN,
        kind=ChangeKind.ABSOLUTE,
        snapshot_id=seen.snapshot_id,
        parent_snapshot_id=None,
        sequence_number=0,
        timestamp_ms=seen.snapshot_ms,
        operation="",
        partitions=seen.partitions,
        format_version=seen.format_version,
        settings=dict(seen.settings),
        snapshot_count=seen.snapshot_count,
        oldest_snapshot_ms=seen.oldest_snapshot_ms,
        observed_at_ms=now_ms,
        facts=dict(seen.facts),
        manifests=seen.manifests,
        manifest_bytes=seen.manifest_bytes,
    )
