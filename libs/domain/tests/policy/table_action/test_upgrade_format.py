"""A table becomes v3 by its owner's word alone, and not before it was announced."""

from __future__ import annotations

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import ActionWork, Table, TableWork
from firnline_domain.identity import TableName
from firnline_domain.policy.reasons.partition import Reason
from firnline_domain.policy.table_action.upgrade_format import FormatReason, FormatUpgrade
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from tests.kit.partitions import table_input

NOW = 1_795_000_000_000
NAME = TableName("u", ("db",), "t")
COUNTERS = TableCounters(NAME, "main", known=True, head_snapshot_id=7, format_version=2)
TABLE = Table(COUNTERS)
LIMITS = resolve_thresholds({"firnline.format-version": "3"})
ACTION = FormatUpgrade()


def considered(table: Table, now_ms: int) -> tuple[Table, TableOrder]:
    table, order = ACTION.plan_order(table_input(table, LIMITS, now_ms))
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


def test_nobody_who_has_said_nothing_gets_another_format() -> None:
    assert why(TABLE, NOW, Thresholds()) == Reason.HEALTHY
    for text in ("2", "1", "4", "three"):
        assert (
            why(TABLE, NOW, resolve_thresholds({"firnline.format-version": text})) == Reason.HEALTHY
        )


def test_it_is_announced_then_done_and_never_asked_for_again() -> None:
    table, order = considered(TABLE, NOW)
    assert (order.reason, order.numbers["announces"]) == (FormatReason.FORMAT_ANNOUNCED, 1)
    table = answered(table, order, NOW, announced=1, writers_not_ready=2)
    assert why(table, NOW + DAY_MS - 1) == FormatReason.FORMAT_GRACE
    table, order = considered(table, NOW + DAY_MS)
    assert order.reason == FormatReason.FORMAT_VERSION
    assert (order.numbers["announced_ms"], order.numbers["wanted_version"]) == (NOW, 3)
    assert "announces" not in order.numbers
    table = answered(table, order, NOW + DAY_MS, to_version=3)
    assert table.work.actions[ACTION.name].done_ms == NOW + DAY_MS
    upgraded = replace(table, counters=replace(COUNTERS, format_version=3))
    assert why(upgraded, NOW + 30 * DAY_MS) == Reason.HEALTHY


def test_a_refused_upgrade_is_tried_ever_more_rarely() -> None:
    table, order = considered(TABLE, NOW)
    table = answered(table, order, NOW, announced=1)
    at_ms = NOW + DAY_MS
    for wait_h in (2, 4, 8, 16, 24, 24):
        table, order = considered(table, at_ms)
        table, _ = ACTION.after_failure(table, order.task_id, "writer_not_ready", at_ms)
        assert why(table, at_ms + wait_h * HOUR_MS - 1) == "writer_not_ready"
        at_ms += wait_h * HOUR_MS


def test_a_table_that_is_v3_already_is_looked_at_once() -> None:
    counters = replace(COUNTERS, format_version=3)
    table, order = considered(replace(TABLE, counters=counters), NOW)
    assert order.reason == FormatReason.FORMAT_VERSION
    table = answered(table, order, NOW, to_version=3)
    assert why(table, NOW + 30 * DAY_MS) == Reason.HEALTHY


def test_a_clock_that_was_set_back_has_announced_nothing() -> None:
    work = ActionWork(announced_ms=NOW + DAY_MS)
    table = replace(TABLE, work=TableWork(actions={ACTION.name: work}))
    assert considered(table, NOW)[1].reason == FormatReason.FORMAT_ANNOUNCED


def test_an_answer_to_another_order_changes_nothing() -> None:
    table, order = considered(TABLE, NOW)
    assert answered(table, replace(order, task_id="other"), NOW, announced=1) == table
