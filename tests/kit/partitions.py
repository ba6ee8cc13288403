"""A partition and its table, for what the policy decides about them at NOW."""

from __future__ import annotations

from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.work import (
    Partition,
    PartitionWork,
    RunningTask,
    Table,
    TableWork,
)
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost_model import cost_model
from firnline_domain.policy.partition.decide import decide_rewrite, with_numbers
from firnline_domain.policy.policy_input import PolicyInput, TableInput
from firnline_domain.policy.reasons import Decision
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

NOW = 100_000_000
LIMITS = Thresholds(
    min_fragments=8, min_equality_deletes=4, min_position_deletes=6, max_age_ms=3_600_000,
    quiet_ms=1_000, cool_down_ms=10_000, deadline_ms=60_000, max_in_flight=2,
)  # fmt: skip
SCOPE = Scope(1, '["a"]')
AN_HOUR_AGO = NOW - 3_600_000


def table_input(
    table: Table, settings: Thresholds = LIMITS, now_ms: int = NOW, **learned: Any
) -> TableInput:
    return TableInput(table, settings, cost_model(settings, **learned), now_ms)


def policy_input(
    table: Table,
    partition: Partition,
    settings: Thresholds = LIMITS,
    now_ms: int = NOW,
    **learned: Any,
) -> PolicyInput:
    return PolicyInput(table, settings, cost_model(settings, **learned), now_ms, partition)


def decide(*judged: Any) -> Decision:
    return decide_rewrite(policy_input(*judged))


def explained(*judged: Any) -> Decision:
    """A decision with its numbers."""
    given = policy_input(*judged)
    return with_numbers(given, decide_rewrite(given))


def of(**kinds: int) -> FileTally:
    return FileTally(**{kind: Tally(count, count, count) for kind, count in kinds.items()})


def partition(changed_ms: int = 0, work: PartitionWork | None = None, **kinds: int) -> Partition:
    counters = PartitionCounters(SCOPE, 1, 1, of(**kinds), changed_ms=changed_ms)
    return Partition(counters, work or PartitionWork())


def table(*running: RunningTask, **counters: Any) -> Table:
    known = TableCounters(
        TableName("u", ("db",), "t"), "main", known=True, head_snapshot_id=77, epoch=1, ordinal=9
    )
    return Table(replace(known, **counters), TableWork(running=running))


def running(scope: Scope = SCOPE, deadline_ms: int = NOW + 1) -> RunningTask:
    return RunningTask(f"t-{scope.partition}", scope, "compact", "fragments", 70, 1, 0, deadline_ms)


def globally(deletes: int) -> Totals:
    return Totals(partitions=2, partitioned=1, unpartitioned_equality_deletes=deletes)
