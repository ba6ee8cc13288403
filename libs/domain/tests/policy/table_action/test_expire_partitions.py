"""Old partitions leave a table by its owner's word alone, and not before they were announced."""

from __future__ import annotations

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import ActionWork, Table, TableWork
from firnline_domain.identity import TableName
from firnline_domain.policy.reasons.partition import Reason
from firnline_domain.policy.table_action.aged_partitions import AgeReason, PartitionExpiry
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import table_input

NOW = 1_795_000_000_000
NAME = TableName("u", ("db",), "t")
TABLE = Table(TableCounters(NAME, "main", known=True, head_snapshot_id=7))
LIMITS = Thresholds(partition_ttl_h=720)
ACTION = PartitionExpiry()


def considered(table: Table, now_ms: int, limits: Thresholds = LIMITS) -> tuple[Table, TableOrder]:
    table, order = ACTION.plan_order(table_input(table, limits, now_ms))
    assert order is not None, table.work.actions
    return table, order


def answered(table: Table, order: TableOrder, now_ms: int, **numbers: float) -> Table:
    result = TableResult(order.task_id, NAME, order.action, None, "w", now_ms, numbers)
    return ACTION.after_result(table, result, now_ms)[0]


def why(table: Table, now_ms: int, limits: Thresholds = LIMITS) -> str:
    after, order = ACTION.plan_order(table_input(table, limits, now_ms))
    assert order is None
    work = after.work.actions.get(ACTION.name)
    return work.reason if work else Reason.HEALTHY


def test_nobody_who_has_said_nothing_loses_a_row() -> None:
    assert why(TABLE, NOW, Thresholds()) == Reason.HEALTHY


def test_it_is_announced_and_begins_when_the_grace_period_is_over() -> None:
    table, order = considered(TABLE, NOW)
    assert order.reason == AgeReason.PARTITIONS_ANNOUNCED
    assert (order.numbers["announces"], order.numbers["ttl_h"]) == (1, 720)
    table = answered(table, order, NOW, going_files=3, ttl_h=720)
    assert why(table, NOW + DAY_MS - 1) == AgeReason.PARTITIONS_GRACE
    table, order = considered(table, NOW + DAY_MS)
    assert (order.reason, order.numbers["announced_ms"]) == (AgeReason.OLD_PARTITIONS, NOW)
    assert "announces" not in order.numbers
    table = answered(table, order, NOW + DAY_MS, files_removed=3)
    assert table.work.actions[ACTION.name].done_ms == NOW + DAY_MS
    assert why(table, NOW + DAY_MS + 6 * HOUR_MS - 1) == Reason.COOLING
    _, order = considered(table, NOW + DAY_MS + 6 * HOUR_MS)
    assert order.reason == AgeReason.OLD_PARTITIONS


def test_where_nothing_is_old_enough_nothing_is_announced() -> None:
    table, order = considered(TABLE, NOW)
    table = answered(table, order, NOW, going_files=0, ttl_h=720)
    assert why(table, NOW + 6 * HOUR_MS - 1) == Reason.COOLING
    _, order = considered(table, NOW + 6 * HOUR_MS)
    assert order.reason == AgeReason.PARTITIONS_ANNOUNCED


def test_a_shorter_age_is_announced_again_and_a_longer_one_is_not() -> None:
    table, order = considered(TABLE, NOW)
    table = answered(table, order, NOW, going_files=3, ttl_h=720)
    later = NOW + 2 * DAY_MS
    _, order = considered(table, later, replace(LIMITS, partition_ttl_h=1))
    assert order.reason == AgeReason.PARTITIONS_ANNOUNCED
    _, order = considered(table, later, replace(LIMITS, partition_ttl_h=721))
    assert order.reason == AgeReason.OLD_PARTITIONS


def test_a_clock_that_was_set_back_has_announced_nothing() -> None:
    work = ActionWork(announced_ms=NOW + DAY_MS, announced_h=720)
    table = replace(TABLE, work=TableWork(actions={ACTION.name: work}))
    _, order = considered(table, NOW)
    assert order.reason == AgeReason.PARTITIONS_ANNOUNCED


def test_the_owner_says_how_often_it_is_looked() -> None:
    limits = replace(LIMITS, partition_interval_ms=60_000)
    table, order = considered(TABLE, NOW)
    table = answered(table, order, NOW, going_files=0, ttl_h=720)
    assert why(table, NOW + 59_999, limits) == Reason.COOLING
    assert considered(table, NOW + 60_000, limits)[1] is not None
