"""A tag is ordered once for each period that had a commit, and of missed ones only the newest."""

from __future__ import annotations

from datetime import UTC, datetime

from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import TableName
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.create_tags import (
    LATE_MS,
    TAG_EXISTS,
    TagCreation,
    TagReason,
)
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.partitions import table_input

MIDNIGHT = int(datetime(2026, 11, 25, tzinfo=UTC).timestamp() * 1000)
NOON = MIDNIGHT - 12 * HOUR_MS
NAME = TableName("u", ("db",), "t")
LIMITS = Thresholds(create_tags="daily-{date}; month-{month}")
DAILY = Thresholds(create_tags="daily-{date}")
ACTION = TagCreation()


def table_at(at_ms: int) -> Table:
    """Whose newest commit was seen then."""
    return Table(TableCounters(NAME, "main", known=True, head_snapshot_id=7, observed_ms=at_ms))


def committed(table: Table, at_ms: int) -> Table:
    return replace(table, counters=replace(table.counters, observed_ms=at_ms))


def considered(table: Table, now_ms: int, limits: Thresholds = DAILY) -> tuple[Table, TableOrder]:
    table, order = ACTION.plan_order(table_input(table, limits, now_ms))
    assert order is not None, table.work.actions
    return table, order


def done(table: Table, order: TableOrder, now_ms: int) -> Table:
    result = TableResult(order.task_id, NAME, order.action, None, "w", now_ms, {})
    return ACTION.after_result(table, result, now_ms)[0]


def rests(table: Table, now_ms: int, limits: Thresholds = DAILY) -> tuple[str, int | None]:
    after, order = ACTION.plan_order(table_input(table, limits, now_ms))
    assert order is None
    work = after.work.actions.get(ACTION.name)
    return (work.reason, work.due_ms) if work else (Reason.HEALTHY, None)


def tagged(at_ms: int = MIDNIGHT + LATE_MS) -> Table:
    table, order = considered(table_at(NOON), at_ms)
    return done(table, order, at_ms)


def test_nobody_who_has_said_nothing_gets_a_tag() -> None:
    assert rests(table_at(NOON), MIDNIGHT + LATE_MS, Thresholds()) == (Reason.HEALTHY, None)
    assert rests(table_at(NOON), MIDNIGHT + LATE_MS, Thresholds(create_tags="daily")) == (
        Reason.HEALTHY, None,
    )  # fmt: skip


def test_the_clock_orders_it_a_minute_after_the_day_has_ended() -> None:
    table = done(*considered(table_at(NOON - DAY_MS), NOON), NOON)  # the day before, made up for
    table = committed(table, NOON)
    assert rests(table, NOON + HOUR_MS) == (Reason.HEALTHY, MIDNIGHT + LATE_MS)
    assert rests(table, MIDNIGHT + LATE_MS - 1)[1] == MIDNIGHT + LATE_MS
    _, order = considered(table, MIDNIGHT + LATE_MS)
    told = (order.action, order.reason, order.numbers["tags"])
    assert told == ("create_tags", TagReason.PERIOD_ENDED, 1)


def test_it_is_ordered_once_and_for_ten_days_of_rest_not_again() -> None:
    table = tagged()
    assert [rests(table, MIDNIGHT + hours * HOUR_MS) for hours in (1, 23, 25, 240)] == [
        (Reason.HEALTHY, None)
    ] * 4


def test_each_day_with_a_commit_orders_one() -> None:
    table, orders = tagged(), []
    for hour in range(1, 10 * 24):
        now_ms = MIDNIGHT + hour * HOUR_MS
        table = committed(table, now_ms)
        table, order = ACTION.plan_order(table_input(table, DAILY, now_ms))
        if order is not None:
            orders.append(hour)
            table = done(table, order, now_ms)
    assert orders == [25 + 24 * day for day in range(9)]


def test_after_weeks_of_downtime_one_order_is_for_the_newest_periods() -> None:
    table = committed(tagged(), MIDNIGHT + 40 * DAY_MS)
    later = MIDNIGHT + 40 * DAY_MS + HOUR_MS
    table, order = considered(table, later, LIMITS)
    assert {"tags": 2}.items() <= order.numbers.items()
    assert rests(done(table, order, later), later + HOUR_MS, LIMITS)[0] == Reason.HEALTHY


def test_a_failure_is_tried_again_and_a_name_that_is_taken_is_not() -> None:
    table, order = considered(table_at(NOON), MIDNIGHT + LATE_MS)
    soon = MIDNIGHT + 2 * HOUR_MS
    failed, _ = ACTION.after_failure(
        table, order.task_id, "catalog_unreachable", MIDNIGHT + HOUR_MS
    )
    _, again = considered(failed, soon)
    assert again.task_id != order.task_id
    taken, _ = ACTION.after_failure(table, order.task_id, TAG_EXISTS, MIDNIGHT + HOUR_MS)
    assert rests(taken, soon) == (Reason.HEALTHY, None)
    refused = TableResult(order.task_id, NAME, order.action, "paused", "w", soon, {})
    considered(ACTION.after_result(table, refused, MIDNIGHT + HOUR_MS)[0], soon)


def test_the_last_day_with_a_commit_is_made_up_for_however_long_the_downtime_was() -> None:
    table, order = considered(table_at(NOON), MIDNIGHT + 3 * DAY_MS)
    later = MIDNIGHT + 3 * DAY_MS
    assert rests(done(table, order, later), later + 30 * DAY_MS)[0] == Reason.HEALTHY


def test_an_answer_to_another_order_says_nothing() -> None:
    table, order = considered(table_at(NOON), MIDNIGHT + LATE_MS)
    other = replace(order, task_id="another")
    assert done(table, other, MIDNIGHT + HOUR_MS) == table


def test_a_clock_that_was_set_back_has_made_none() -> None:
    table = tagged(MIDNIGHT + 3 * DAY_MS)
    assert rests(table, MIDNIGHT + 4 * DAY_MS)[0] == Reason.HEALTHY
    considered(committed(table, NOON), MIDNIGHT + LATE_MS)
