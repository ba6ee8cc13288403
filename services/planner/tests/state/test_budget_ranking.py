"""A budget goes where it spares most, and nothing starves."""

from __future__ import annotations

from firnline_domain.base.times import HOUR_MS
from firnline_domain.settings.groups import Budget
from firnline_planner.state.budget_ranking import RankedAction, choose_affordable
from firnline_planner.state.fleet_share import AIM_MS, TokenBuckets
from hypothesis import given
from hypothesis import strategies as st

BUDGET = Budget(gb_hours=10.0, old_share=0.2)
FRESH = TokenBuckets()


def one(key: str, price: float, spared: float, since: int = 0) -> RankedAction[str]:
    return RankedAction(key, price, price, spared, since)


def bought(
    offers: list[RankedAction[str]], tokens: TokenBuckets, budget: Budget, now_ms: int
) -> tuple[list[str], TokenBuckets]:
    paid, left = choose_affordable(offers, tokens, budget, now_ms)
    return [each.key for each in paid], left


def test_most_spared_per_gb_hour_goes_first() -> None:
    offers = [one("dear", 4, 8), one("good", 2, 20), one("small", 1, 5)]
    assert bought(offers, FRESH, Budget(), 0)[0] == ["good", "small", "dear"]


def test_what_does_not_fit_is_left_out_and_cheaper_ones_are_not() -> None:
    offers = [one("a", 6, 60, 1), one("b", 6, 59, 2), one("c", 2, 1, 3)]
    keys, left = bought(offers, FRESH, BUDGET, 0)
    assert keys == ["a", "c"]
    assert (left.best, left.old) == (0.0, 2.0)  # b has waited longer than c: it is saved for


def test_the_oldest_is_served_from_its_own_purse() -> None:
    young = [one(f"y{i}", 4, 100, 50) for i in range(9)]
    keys, _ = bought([*young, one("old", 2, 0.001, 1)], FRESH, BUDGET, 0)
    assert keys == ["y0", "y1", "old"]


def test_token_buckets_fill_evenly_and_keep_an_hours_worth() -> None:
    _, empty = choose_affordable([one("all", 8, 1)], FRESH, BUDGET, 0)
    assert empty.best == 0.0
    half = empty.with_refill(BUDGET, 0.0, HOUR_MS // 2)
    assert (half.best, half.old) == (4.0, 2.0)
    assert empty.with_refill(BUDGET, 0.0, 9 * HOUR_MS).best == 8.0
    back = half.with_refill(BUDGET, 0.0, 0)  # a clock that was set back
    assert (back.best, back.old) == (half.best, half.old)
    assert back.with_refill(BUDGET, 0.0, HOUR_MS // 4).best == 6.0  # is not waited for


def test_what_is_saved_for_one_that_is_away_for_a_time_stays() -> None:
    tokens, hours = FRESH, 10
    for hour in range(hours):
        _, tokens = choose_affordable([one("dear", 50.0, 1.0)], tokens, BUDGET, hour * HOUR_MS)
    saved = tokens.old
    assert saved == BUDGET.gb_hours * BUDGET.old_share * hours
    now_ms = (hours - 1) * HOUR_MS + 60_000
    _, tokens = choose_affordable([one("small", 1.0, 9.0, 5)], tokens, BUDGET, now_ms)
    assert tokens.old > saved
    _, tokens = choose_affordable([one("small", 1.0, 9.0, 5)], tokens, BUDGET, now_ms + AIM_MS)
    assert tokens.old <= BUDGET.gb_hours * BUDGET.old_share


def test_what_is_paid_back_goes_where_it_came_from() -> None:
    [paid], left = choose_affordable([one("old", 9.0, 1.0)], TokenBuckets(0.0, 9.0, 0), BUDGET, 0)
    assert (paid.from_old, left.old) == (True, 0.0)
    assert left.with_payment(-paid.gb_hours, paid.from_old).old == 9.0
    [paid], left = choose_affordable([one("new", 3.0, 1.0)], TokenBuckets(5.0, 0.0, 0), BUDGET, 0)
    assert left.with_payment(-paid.gb_hours, paid.from_old).best == 5.0


@given(
    st.lists(st.tuples(st.floats(0.1, 30.0), st.floats(0.1, 100.0)), max_size=8),
    st.floats(0.1, 50.0),
)
def test_nothing_starves(others: list[tuple[float, float]], price: float) -> None:
    """Better ones come again and again; the old one is served when the second purse can have
    paid for it."""
    tokens, hour = FRESH, 0
    old = one("old", price, 1e-9, -1)
    within = price / (BUDGET.gb_hours * BUDGET.old_share)
    while hour <= within + 1:
        better = [one(f"b{i}", cost, spared, hour) for i, (cost, spared) in enumerate(others)]
        keys, tokens = bought([old, *better], tokens, BUDGET, hour * HOUR_MS)
        if "old" in keys:
            return
        hour += 1
    raise AssertionError(f"not within {within:.0f} hours")


@given(st.lists(st.tuples(st.floats(0.1, 30.0), st.floats(0.0, 100.0)), min_size=1, max_size=20))
def test_no_more_is_spent_than_there_was(offers: list[tuple[float, float]]) -> None:
    given_ = [one(str(i), cost, spared, i) for i, (cost, spared) in enumerate(offers)]
    keys, tokens = bought(given_, FRESH, BUDGET, 0)
    spent = sum(each.gb_hours for each in given_ if each.key in keys)
    before = FRESH.with_refill(BUDGET, given_[0].gb_hours, 0)
    assert abs(spent + tokens.best + tokens.old - before.best - before.old) < 1e-6
    assert tokens.best >= 0
    assert tokens.old >= 0
