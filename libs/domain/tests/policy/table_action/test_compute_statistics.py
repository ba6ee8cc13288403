"""Statistics are computed by their owner's word, when enough rows have changed, and at a price."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters, Totals
from firnline_domain.counters.state.work import RunningTask, Table
from firnline_domain.identity import MAIN, Scope
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.compute_statistics import Statistics, StatisticsReason
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TableResult
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.names import TABLE
from tests.kit.partitions import table_input

NOW = 1_795_000_000_000
LATER = NOW + 6 * HOUR_MS
LIMITS = Thresholds(statistics="all")
PARTITIONS = Thresholds(partition_statistics=True)
ACTION = Statistics()
GB = 1 << 30


def table(rows: int = 1_000, changed: int = 1_000, size: int = GB, head: int = 7) -> Table:
    holds = FileTally(on_target=Tally(10, rows, size))
    totals = Totals(holds, partitions=2, partitioned=2)
    return Table(
        TableCounters(
            TABLE, MAIN, known=True, head_snapshot_id=head, totals=totals, rows_changed=changed
        )
    )


def moved(before: Table, changed: int = 0, head: int = 8) -> Table:
    counters = before.counters
    rows = counters.rows_changed + changed
    return replace(before, counters=replace(counters, rows_changed=rows, head_snapshot_id=head))


def ordered(held: Table, limits: Thresholds = LIMITS, at: int = NOW) -> tuple[Table, TableOrder]:
    after, order = ACTION.plan_order(table_input(held, limits, at))
    assert order is not None, after.work.actions
    return after, order


def computed(held: Table, limits: Thresholds = LIMITS, at: int = NOW) -> Table:
    after, order = ordered(held, limits, at)
    return answered(after, order, at)


def answered(held: Table, order: TableOrder, at: int, refused: str | None = None) -> Table:
    result = TableResult(order.task_id, TABLE, order.action, refused, "w", at, {})
    return ACTION.after_result(held, result, at)[0]


def why(held: Table, limits: Thresholds = LIMITS, at: int = LATER) -> str:
    after, order = ACTION.plan_order(table_input(held, limits, at))
    assert order is None
    work = after.work.actions.get(ACTION.name)
    return work.reason if work else Reason.HEALTHY


def test_an_order_says_what_it_reads_and_costs() -> None:
    _, order = ordered(table())
    assert (order.reason, order.action) == (StatisticsReason.STALE_STATISTICS, "compute_statistics")
    assert order.numbers["read_gb"] == 1
    assert order.numbers["read_cpu_s"] > 0
    assert (order.numbers["all_columns"], order.numbers["partitions"]) == (1, 0)


def test_they_are_stale_when_a_tenth_of_the_rows_has_changed_and_six_hours_are_over() -> None:
    held = computed(table())
    assert why(held) == Reason.HEALTHY  # it comes to rest
    assert why(moved(held, 99)) == Reason.HEALTHY
    assert why(moved(held, 100), at=LATER - 1) == Reason.COOLING
    _, order = ordered(moved(held, 100), at=LATER)
    assert (order.numbers["rows_changed"], order.numbers["changed_share"]) == (100, 0.1)


def test_what_changes_while_they_are_computed_counts_for_the_next_ones() -> None:
    held, order = ordered(table())
    held = answered(moved(held, 100), order, NOW)
    _, order = ordered(held, at=LATER)
    assert order.numbers["rows_changed"] == 100


def test_what_was_refused_is_as_stale_as_before() -> None:
    held, order = ordered(table())
    held = answered(held, order, NOW, refused="unknown_column")
    assert why(held, at=LATER) == "unknown_column"  # ever more rarely
    ordered(held, at=LATER + 6 * HOUR_MS)


def test_other_columns_are_computed_at_the_next_turn() -> None:
    held = computed(table())
    ordered(held, Thresholds(statistics="id"), LATER)


def test_a_table_that_is_too_large_is_told_so_and_gets_partition_statistics_all_the_same() -> None:
    held = table(size=200 * GB)
    assert why(held) == StatisticsReason.STATISTICS_TOO_LARGE
    _, order = ordered(held, replace(LIMITS, partition_statistics=True))
    assert (order.numbers["columns"], order.numbers["partitions"]) == (0, 1)
    _, order = ordered(held, replace(LIMITS, statistics_max_bytes=200 * GB))
    assert order.numbers["columns"] == 1


def test_rewrites_go_first_until_twice_as_many_rows_have_changed() -> None:
    held = computed(table())
    task = RunningTask("r", Scope(0, "[]"), "compact", "fragments", 8, 1, NOW, NOW)
    work = replace(held.work, running=(task,))
    held = replace(held, work=work)
    waiting = moved(held, 199)
    assert why(waiting) == StatisticsReason.STATISTICS_AFTER_REWRITES
    after, _ = ACTION.plan_order(table_input(waiting, LIMITS, LATER))
    assert after.work.actions[ACTION.name].due_ms == LATER + 60_000
    ordered(moved(held, 200), at=LATER)
    ordered(replace(waiting, work=replace(work, running=())), at=LATER)


def test_partition_statistics_are_those_of_a_head() -> None:
    held = computed(table(), PARTITIONS)
    assert why(held, PARTITIONS) == Reason.HEALTHY
    _, order = ordered(moved(held), PARTITIONS, LATER)
    assert order.reason == StatisticsReason.STALE_PARTITION_STATISTICS
    totals = replace(held.counters.totals, partitioned=0)
    plain = replace(table(), counters=replace(table().counters, totals=totals))
    assert why(plain, PARTITIONS) == Reason.HEALTHY


def test_who_asks_by_name_does_not_wait() -> None:
    held = computed(table())
    _, order = ACTION.order_requested(table_input(held, LIMITS, NOW + 1))
    assert (order.reason, order.numbers["columns"]) == (Reason.REQUESTED, 1)


def test_the_price_is_one_of_values() -> None:
    held = table(rows=1_000_000)
    few = ACTION.order_numbers(table_input(held, Thresholds(statistics="id, name")))["read_cpu_s"]
    assert round(few, 6) == 1.4
    assert ACTION.order_numbers(table_input(held, LIMITS))["read_cpu_s"] > 10 * few
    assert ACTION.order_numbers(table_input(held, PARTITIONS))["read_cpu_s"] == 0
