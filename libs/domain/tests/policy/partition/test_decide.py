"""When a partition is rewritten, and why not: a line per case, at NOW."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import MissingChanges
from firnline_domain.counters.state.debt import Debt
from firnline_domain.counters.state.work import Partition, PartitionWork, Table
from firnline_domain.identity import Scope, task_id
from firnline_domain.policy.partition.deadlines import QUEUE_MS
from firnline_domain.policy.partition.decide import debt_files, order_for
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import (
    AN_HOUR_AGO,
    LIMITS,
    NOW,
    SCOPE,
    decide,
    explained,
    globally,
    partition,
    policy_input,
    running,
    table,
)

ORDERED = [
    ("fragments at the threshold", partition(fragments=8), TriggerReason.FRAGMENTS),
    ("equality deletes at the threshold", partition(on_target=1, equality_deletes=4),
     TriggerReason.EQUALITY_DELETES),
    ("position deletes at the threshold", partition(on_target=1, position_deletes=6),
     TriggerReason.POSITION_DELETES),
    ("deletion vectors count as well",
     partition(on_target=1, position_deletes=2, deletion_vectors=4),
     TriggerReason.POSITION_DELETES),
    ("deletes come before fragments", partition(fragments=99, equality_deletes=4),
     TriggerReason.EQUALITY_DELETES),
    ("one old delete",
     partition(0, PartitionWork(debt_since_ms=AN_HOUR_AGO), on_target=1, equality_deletes=1),
     TriggerReason.OLD_DEBT),
    ("two old fragments", partition(0, PartitionWork(debt_since_ms=AN_HOUR_AGO), fragments=2),
     TriggerReason.OLD_DEBT),
    ("the quiet period is over", partition(NOW - 1_000, fragments=8), TriggerReason.FRAGMENTS),
    ("hot, but at twice the threshold", partition(NOW, fragments=16), TriggerReason.FRAGMENTS),
    ("cool-down over", partition(0, PartitionWork(pause="cooling", until_ms=NOW), fragments=8),
     TriggerReason.FRAGMENTS),
    ("parked long enough", partition(0, PartitionWork(pause="parked", until_ms=NOW), fragments=8),
     TriggerReason.FRAGMENTS),
    ("as much again as the last rewrite left",
     partition(0, PartitionWork(floor=Debt(fragments=20)), fragments=28), TriggerReason.FRAGMENTS),
]  # fmt: skip
SPARED = [
    ("nothing there", partition(), Reason.HEALTHY, None),
    ("delete files alone", partition(equality_deletes=9, position_deletes=9), Reason.HEALTHY, None),
    ("large files are no debt", partition(on_target=99, undersized=99, oversized=9),
     Reason.HEALTHY, None),
    ("fragments below", partition(fragments=7), Reason.ACCUMULATING, None),
    ("debt that will be old in a second",
     partition(0, PartitionWork(debt_since_ms=AN_HOUR_AGO + 1_000), fragments=2),
     Reason.ACCUMULATING, NOW + 1_000),
    ("a lone old fragment has nothing to merge with",
     partition(0, PartitionWork(debt_since_ms=0), fragments=1), Reason.ACCUMULATING, None),
    ("hot", partition(NOW - 400, fragments=15), Reason.QUIET_PERIOD, NOW + 600),
    ("cooling", partition(0, PartitionWork(pause="cooling", until_ms=NOW + 5), fragments=99),
     Reason.COOLING, NOW + 5),
    ("backing off",
     partition(0, PartitionWork(pause="backing_off", until_ms=NOW + 5), fragments=99),
     Reason.BACKING_OFF, NOW + 5),
    ("parked", partition(0, PartitionWork(pause="parked", until_ms=NOW + 5), fragments=99),
     Reason.PARKED, NOW + 5),
    ("the last rewrite left as much",
     partition(0, PartitionWork(floor=Debt(fragments=20)), fragments=20),
     Reason.FIXED_POINT, None),
    ("little has come since the last rewrite",
     partition(0, PartitionWork(floor=Debt(fragments=20)), fragments=27),
     Reason.ACCUMULATING, None),
    ("what it left does not grow old",
     partition(0, PartitionWork(floor=Debt(3, 2, 1), debt_since_ms=0), fragments=3,
               equality_deletes=2, position_deletes=1), Reason.HEALTHY, None),
]  # fmt: skip


@pytest.mark.parametrize(("case", "of_it", "reason"), ORDERED, ids=[one[0] for one in ORDERED])
def test_ordered(case: str, of_it: Partition, reason: Reason) -> None:
    decision = decide(table(), of_it, LIMITS, NOW)
    assert (decision.order, decision.reason) == (True, reason)
    assert decision.status == "in_flight"


@pytest.mark.parametrize(
    ("case", "of_it", "reason", "until_ms"), SPARED, ids=[one[0] for one in SPARED]
)
def test_spared(case: str, of_it: Partition, reason: Reason, until_ms: int | None) -> None:
    decision = decide(table(), of_it, LIMITS, NOW)
    assert (decision.order, decision.reason, decision.until_ms) == (False, reason, until_ms)


FULL = partition(fragments=99)
OTHER, THIRD = Scope(1, '["b"]'), Scope(1, '["c"]')
TABLES = [
    ("dropped", table(removed=True), LIMITS, Reason.REMOVED, None),
    ("switched off", table(), replace(LIMITS, enabled=False), Reason.DISABLED, None),
    ("something is missing", table(waiting=MissingChanges("missing_parent", 0)), LIMITS,
     Reason.WAITING_FOR_RESYNC, None),
    ("never counted", table(known=False), LIMITS, Reason.WAITING_FOR_RESYNC, None),
    ("an order is out", table(running()), LIMITS, Reason.IN_FLIGHT, NOW + 1),
    ("out even while waiting", table(running(), waiting=MissingChanges("missing_parent", 0)),
     LIMITS, Reason.IN_FLIGHT, NOW + 1),
    ("too many orders are out", table(running(OTHER), running(THIRD)), LIMITS, Reason.TABLE_BUSY,
     None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "whole", "limits", "reason", "until_ms"), TABLES, ids=[one[0] for one in TABLES]
)
def test_spared_for_its_table(
    case: str, whole: Table, limits: Thresholds, reason: Reason, until_ms: int | None
) -> None:
    decision = decide(whole, FULL, limits, NOW)
    assert (decision.order, decision.reason, decision.until_ms) == (False, reason, until_ms)


def test_an_order_past_its_deadline_holds_nobody_up() -> None:
    assert decide(table(running(deadline_ms=NOW)), FULL, LIMITS, NOW).order


def test_a_place_is_left_for_one_more_order() -> None:
    assert decide(table(running(OTHER)), FULL, LIMITS, NOW).order


def test_global_deletes_burden_every_partition_with_data() -> None:
    whole = table(totals=globally(4))
    assert decide(whole, partition(on_target=1), LIMITS, NOW).reason == TriggerReason.GLOBAL_DELETES
    assert decide(whole, partition(), LIMITS, NOW).reason == Reason.HEALTHY
    met = PartitionWork(floor=Debt(global_deletes=4))
    assert decide(whole, partition(0, met, on_target=1), LIMITS, NOW).reason == Reason.FIXED_POINT


def test_deletes_of_a_table_without_other_specs_are_not_global() -> None:
    whole = table(totals=replace(globally(4), partitioned=0))
    assert decide(whole, partition(on_target=1), LIMITS, NOW).reason == Reason.HEALTHY


def test_a_threshold_of_zero_does_not_order_for_nothing() -> None:
    none = replace(LIMITS, min_fragments=0, min_equality_deletes=0, min_position_deletes=0)
    assert not decide(table(), partition(on_target=3), none, NOW).order
    assert not decide(table(), partition(fragments=1), none, NOW).order
    assert decide(table(), partition(on_target=1, equality_deletes=1), none, NOW).order


def test_the_numbers_explain_the_decision() -> None:
    work = PartitionWork(floor=Debt(fragments=2), failures=3)
    numbers = explained(table(), partition(0, work, fragments=9), LIMITS, NOW).numbers
    assert numbers["fragments"] == 9
    assert numbers["new_fragments"] == 7
    assert numbers["min_fragments"] == 8
    assert numbers["failures"] == 3


def test_the_order_names_table_ref_scope_and_reason() -> None:
    work = PartitionWork(failures=2)
    of_it = partition(0, work, fragments=9)
    decision = decide(table(), of_it, LIMITS, NOW)
    order, task = order_for(policy_input(table(), of_it, LIMITS, NOW), decision)
    assert order.task_id == task_id("u", "main", '1:["a"]', "compact", 77)
    assert (order.scope, order.ref, order.reason) == (SCOPE, "main", "fragments")
    assert (order.attempt, order.trigger_snapshot_id) == (3, 77)
    assert (order.ordered_at_ms, order.deadline_ms) == (NOW, NOW + QUEUE_MS)
    assert order.run_ms == task.run_ms == 60_000  # `deadline_ms` of the settings
    assert (task.task_id, task.scope, task.deadline_ms) == (
        order.task_id,
        order.scope,
        order.deadline_ms,
    )


def test_a_retried_order_is_the_same_task() -> None:
    first, again = partition(fragments=9), partition(0, PartitionWork(failures=1), fragments=9)
    decision = decide(table(), first, LIMITS, NOW)
    one, _ = order_for(policy_input(table(), first, LIMITS, NOW), decision)
    other, _ = order_for(policy_input(table(), again, LIMITS, NOW + 5), decision)
    assert (one.task_id, one.attempt, other.attempt) == (other.task_id, 1, 2)


def test_a_partition_that_is_counted_under_a_digest_is_never_ordered() -> None:
    """An order's scope is what the outputs' partition is made from."""
    ready = partition(fragments=100)
    assert decide(table(), ready, LIMITS, NOW).order
    scope = Scope(1, f'["{"x" * 5_000}"]').counted_scope
    counted = replace(ready, counters=replace(ready.counters, scope=scope))
    decision = decide(table(), counted, LIMITS, NOW)
    assert (decision.order, decision.reason) == (False, Reason.NAME_TOO_LONG)


@pytest.mark.parametrize(
    ("files", "holds", "floor"),
    [
        (0, {"fragments": 1}, Debt()),  # nothing to be merged with: a perfect compaction of little
        (1, {"fragments": 2}, Debt()),
        (1, {"fragments": 1, "equality_deletes": 1}, Debt()),
        (0, {"fragments": 20, "equality_deletes": 3}, Debt(20, 3)),
        (1, {"fragments": 21, "equality_deletes": 3}, Debt(20, 3)),
    ],
)
def test_debt_is_what_a_rewrite_could_mend(files: int, holds: dict[str, int], floor: Debt) -> None:
    assert (
        debt_files(policy_input(table(), partition(0, PartitionWork(floor=floor), **holds), LIMITS))
        == files
    )
