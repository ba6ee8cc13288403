"""Every action on a table costs and spares something, in dollars, as a rewrite does."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.filters import Filters, Use
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters, Totals
from firnline_domain.counters.state.work import ExpiryWork, Partition, PartitionWork, Table
from firnline_domain.identity import MAIN, Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.cost.dollars import (
    DAY_H,
    Estimate,
    Gain,
    Price,
    in_dollars,
    of_rewrite,
)
from firnline_domain.policy.cost_model import LearnedFactors, cost_model
from firnline_domain.policy.partition.decide import cost_benefit_of
from firnline_domain.policy.reasons import Decision
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.triggers.sorting import estimate_sort
from firnline_domain.policy.triggers.table import TriggerReason
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import ExpiryPreview, TableResult
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.names import TABLE
from tests.kit.partitions import policy_input, table_input

MB, GB = 1 << 20, 1 << 30
NOW = 40 * DAY_MS
LIMITS = Thresholds(statistics="id", sort="id", partition_ttl_h=24.0, remove_orphans=True)
COSTS = cost_model(LIMITS)
SCOPE = Scope(0, '["a"]')


def table(
    manifests: int = 0, deletes: int = 0, data: int = 0, snapshots: int = 1, going: int = 0
) -> Table:
    holds = FileTally(
        on_target=Tally(data, 1_000 * data, 100 * MB * data),
        equality_deletes=Tally(deletes, deletes, deletes * MB),
    )
    counters = TableCounters(
        TABLE,
        MAIN,
        known=True,
        head_snapshot_id=7,
        manifests=manifests,
        manifest_bytes=manifests * 10_000,
        snapshot_count=snapshots,
        oldest_snapshot_ms=0,
        totals=Totals(holds),
    )
    made = Table(counters)
    expiry = ExpiryWork(going=ExpiryPreview(going, 2 * going, going * MB))
    return replace(made, work=replace(made.work, expiry=expiry))


def weighed(action: str, of: Table, limits: Thresholds = LIMITS) -> Estimate:
    return TABLE_ACTIONS[action].estimate(table_input(of, limits, NOW))


@pytest.mark.parametrize("action", TABLE_ACTIONS)
def test_each_action_has_a_price_in_all_units(action: str) -> None:
    numbers = weighed(action, table(200, 90_000, 10, 50, 20)).to_numbers(COSTS, 2.0)
    assert numbers["price_cpu_s"] > 0
    assert numbers["price_gb_hours"] > 0
    assert numbers["price_requests"] > 0
    assert numbers["price_dollars"] > 0


@pytest.mark.parametrize(
    ("action", "of", "measured_s"),
    [
        ("rewrite_manifests", table(5_000), 35.3),
        ("remove_dangling_deletes", table(1, deletes=90_000), 24.1),
        ("expire", table(1_670, snapshots=10_000), 86.0),
        ("expire", table(501, snapshots=3_000), 12.7),
        ("remove_orphans", table(1, data=1_000_000), 17.9),
    ],
)
def test_prices_are_what_the_bench_has_measured(action: str, of: Table, measured_s: float) -> None:
    assert weighed(action, of).price.cpu_s == pytest.approx(measured_s, rel=0.1)


def test_a_price_list_makes_dollars_of_it() -> None:
    limits = resolve_thresholds(
        {
            "firnline.price.cpu-hour": "3.6",
            "firnline.price.million-gets": "2",
            "firnline.price.million-puts": "10",
            "firnline.price.gb-month": "7.2",
            "firnline.reads-per-hour": "5",
        }
    )
    costs = cost_model(limits)
    price = Price(100.0, gets=1_000_000, puts=200_000)
    assert price.in_dollars(costs) == pytest.approx(0.1 + 2 + 2)
    gain = Gain(100.0, 500_000, 2 * GB)
    assert gain.dollars_an_hour(costs, limits.reads_per_hour) == pytest.approx(
        5 * (0.1 + 1.0) + 2 * 7.2 / 720
    )
    numbers = Estimate(price, gain).to_numbers(costs, limits.reads_per_hour)
    assert numbers["gain_dollars_a_day"] == pytest.approx(DAY_H * 5.52, rel=0.01)
    assert numbers["gain_requests_a_day"] == 60_000_000


def test_an_action_costs_more_where_workers_are_slow() -> None:
    of = table(200, 600, 10, 50)
    slow = table_input(of, LIMITS, NOW, factors=LearnedFactors(rewrites=3.0))
    for name, action in TABLE_ACTIONS.items():
        ratio = action.weighed_here(slow).price.cpu_s / weighed(name, of).price.cpu_s
        assert ratio == pytest.approx(3.0)


GROWING = {
    "rewrite_manifests": "manifests",
    "remove_dangling_deletes": "deletes",
    "expire": "going",
}


@pytest.mark.parametrize("action", GROWING)
@given(counts=st.tuples(*[st.integers(0, 100_000)] * 2), others=st.integers(1, 5_000))
def test_more_debt_never_spares_less(action: str, counts: tuple[int, int], others: int) -> None:
    less, more = sorted(counts)
    gains = [
        weighed(action, table(**{"data": others, GROWING[action]: one})).gain
        for one in (less, more)
    ]
    dollars = [one.dollars_an_hour(COSTS, 2.0) for one in gains]
    assert dollars[0] <= dollars[1] + 1e-12
    assert (dollars[1] > 0) == (more > 1 or (more == 1 and action != "rewrite_manifests"))


@pytest.mark.parametrize("action", TABLE_ACTIONS)
@given(
    one=st.tuples(*[st.integers(0, 10_000)] * 5),
    more=st.tuples(*[st.integers(0, 10_000)] * 5),
)
def test_a_larger_table_is_never_cheaper(
    action: str, one: tuple[int, ...], more: tuple[int, ...]
) -> None:
    small = weighed(action, table(*one)).price.in_dollars(COSTS)
    large = weighed(action, table(*(a + b for a, b in zip(one, more, strict=True)))).price
    assert small <= large.in_dollars(COSTS) + 1e-12


def test_what_the_last_look_has_found_is_expected_of_the_next() -> None:
    action, held = TABLE_ACTIONS["remove_dangling_deletes"], table(10, 1_000, 10)
    first = action.estimate(table_input(held, LIMITS, NOW)).gain
    assert first.freed_bytes == 500 * MB
    held, order = action.plan_order(table_input(held, LIMITS, NOW))
    assert order is not None
    assert order.numbers["gain_bytes"] == 500 * MB
    found = {"removed_delete_files": 0.0, "removed_bytes": 0.0}
    result = TableResult(order.task_id, TABLE, action.name, None, "w", NOW, found)
    held, _ = action.after_result(held, result, NOW)
    assert action.estimate(table_input(held, LIMITS, NOW)).gain == Gain()
    late = replace(result, task_id="other", numbers={"removed_delete_files": 9.0})
    held, _ = action.after_result(held, late, NOW)
    assert action.estimate(table_input(held, LIMITS, NOW)).gain == Gain()


def test_what_a_partition_expiry_takes_is_what_it_has_announced_then_what_it_took() -> None:
    action, held = TABLE_ACTIONS["expire_partitions"], table(10, 0, 10)
    announced = {"going_files": 3.0, "going_bytes": 70.0}
    gone = {"files_removed": 2.0, "bytes_removed": 40.0}
    for numbers, freed in ((announced, 70.0), (gone, 40.0)):
        held, order = action.plan_order(
            table_input(held, replace(LIMITS, partition_grace_ms=0), NOW)
        )
        assert order is not None
        result = TableResult(order.task_id, TABLE, action.name, None, "w", NOW, numbers)
        held, _ = action.after_result(held, result, NOW)
        assert action.estimate(table_input(held, LIMITS, NOW)).gain.freed_bytes == freed


def partition(fragments: int, **work: int | None) -> Partition:
    holds = FileTally(
        on_target=Tally(100, 1_000, 100 * 100 * MB),
        fragments=Tally(fragments, fragments, fragments * MB),
    )
    return Partition(PartitionCounters(SCOPE, 1, 1, holds), PartitionWork(**work))  # type: ignore[arg-type]


def test_a_sort_is_priced_by_what_it_writes_not_as_a_merge_of_small_files() -> None:
    sort = Decision(TriggerReason.UNSORTED, action=Action.SORT, min_dead_ratio=1.0)
    whole = cost_benefit_of(policy_input(table(), partition(0), LIMITS), sort)
    assert whole.work.bytes_read == 100 * 100 * MB
    first = cost_benefit_of(policy_input(table(), partition(10), LIMITS), sort)
    assert first.work.bytes_read == 100 * 100 * MB + 10 * MB
    later = cost_benefit_of(policy_input(table(), partition(10, sorted_ms=1), LIMITS), sort)
    assert later.work.bytes_read == 20 * MB
    assert later.price_s < whole.price_s / 50
    assert of_rewrite(whole, LIMITS.target_bytes).price.in_dollars(COSTS) > 0.001


@pytest.mark.parametrize(("scans", "opens"), [(10.0, 95.0), (5.0, 47.5), (0.0, 0.0)])
def test_a_sort_spares_those_that_filter_by_its_column(scans: float, opens: float) -> None:
    held = table()
    filters = Filters(NOW, 10.0, (Use("id", scans, scans), Use("day", 5.0, 5.0)))
    held = replace(held, work=replace(held.work, filters=filters))
    assert estimate_sort(policy_input(held, partition(0), LIMITS)).spared_opens == opens
    assert (
        estimate_sort(policy_input(table(), partition(0), LIMITS)).spared_opens == 95.0
    )  # nobody has said


@pytest.mark.parametrize(
    ("sort", "opens"),
    [("zorder(id, day)", 88.0), ("Hilbert (day,id)", 88.0), ("zorder(at, day)", 44.0),
     ("zorder(id, day, at)", 100 - 1.2 * 100 ** (2 / 3))],
)  # fmt: skip
def test_along_a_curve_readers_of_each_column_are_spared_all_but_the_root(
    sort: str, opens: float
) -> None:
    """Of 100 files."""
    held = table()
    filters = Filters(NOW, 10.0, (Use("id", 5.0, 5.0), Use("day", 5.0, 5.0)))
    held = replace(held, work=replace(held.work, filters=filters))
    limits = replace(LIMITS, sort=sort)
    assert estimate_sort(policy_input(held, partition(0), limits)).spared_opens == pytest.approx(
        opens
    )


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0"), (1.4e-05, "$0.000014"), (0.024, "$0.024"), (0.999, "$1"), (1234.5, "$1,234.50")],
)
def test_amounts_have_no_exponent(amount: float, text: str) -> None:
    assert in_dollars(amount) == text
