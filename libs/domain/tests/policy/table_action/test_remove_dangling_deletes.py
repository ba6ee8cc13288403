"""When a worker looks for delete files that apply to nothing."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters, Totals
from firnline_domain.counters.state.work import ActionWork, Table, TableWork
from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.remove_dangling_deletes import DanglingDeletes
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.names import TABLE
from tests.kit.partitions import table_input


def table(deletes: int, data: int) -> Table:
    holds = FileTally(on_target=Tally(data, data, data), position_deletes=Tally(deletes, 1, 1))
    counters = TableCounters(TABLE, MAIN, known=True, head_snapshot_id=7, totals=Totals(holds))
    return Table(counters)


@pytest.mark.parametrize(
    ("deletes", "data", "asked"),
    [(499, 1, False), (500, 1, True), (500, 1_000, True), (500, 1_001, False), (90_000, 0, True)],
)
def test_many_beside_the_data_files(deletes: int, data: int, asked: bool) -> None:
    _, order = DanglingDeletes().plan_order(
        table_input(table(deletes, data), Thresholds(), HOUR_MS)
    )
    assert (order is not None) == asked
    if order is not None:
        assert order.reason == "dangling_deletes"
        assert {"delete_files": deletes, "data_files": data}.items() <= order.numbers.items()


def test_a_few_are_looked_for_once_when_rows_have_left_for_their_age() -> None:
    dropped = ActionWork(done_ms=DAY_MS)
    held = replace(table(3, 10), work=TableWork(actions={"expire_partitions": dropped}))
    action = DanglingDeletes()
    ordered, order = action.plan_order(table_input(held, Thresholds(), DAY_MS))
    assert order is not None
    result = TableResult(order.task_id, TABLE, order.action, None, "w", DAY_MS, {})
    ended, _ = action.after_result(ordered, result, DAY_MS)
    assert action.plan_order(table_input(ended, Thresholds(), 9 * DAY_MS))[1] is None
    without = replace(held, counters=table(0, 10).counters)
    assert action.plan_order(table_input(without, Thresholds(), DAY_MS))[1] is None
