"""When advice is given, repeated and withdrawn."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.advice.finding import Known, size_text
from firnline_domain.advice.rules import EASE, advise
from firnline_domain.advice.sorting import SCANS, column_mark
from firnline_domain.advice.writers import COMMITS
from firnline_domain.base.times import HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.activity.filters import TAU_MS, Use
from firnline_domain.counters.activity.writers import Hour
from firnline_domain.counters.state.counters import MissingChanges

from tests.kit.advice_input import (
    NOW_MS,
    filtering,
    known,
    rules,
)


def again(facts: Known, **changes: Any) -> tuple[Known, Any]:
    """The same table later, and what is published of it then."""
    before = advise(facts)
    work = replace(facts.table.work, advice=before.given)
    counters = replace(facts.table.counters, **changes)
    later = replace(facts, table=replace(facts.table, counters=counters, work=work))
    return later, advise(replace(later, now_ms=facts.now_ms + 1))


def test_a_word_is_given_once_and_again_when_its_number_has_doubled() -> None:
    facts = known(snapshot_count=1_000)
    _, same = again(facts, snapshot_count=1_999)
    assert same.changed == ()
    assert same.given["many_snapshots"].since_ms == NOW_MS
    _, doubled = again(facts, snapshot_count=2_000)
    [advice] = doubled.changed
    assert (advice.numbers["snapshots"], advice.since_ms, advice.at_ms) == (
        2_000,
        NOW_MS,
        NOW_MS + 1,
    )


def test_a_word_is_taken_back_a_fifth_below_its_limit() -> None:
    facts = known(snapshot_count=1_000)
    _, near = again(facts, snapshot_count=int(1_000 * EASE))
    assert near.changed == ()
    _, gone = again(facts, snapshot_count=int(1_000 * EASE) - 1)
    [advice] = gone.changed
    assert (advice.rule, advice.withdrawn, advice.since_ms) == ("many_snapshots", True, NOW_MS)
    assert gone.given == {}


def test_another_text_is_told_again() -> None:
    facts = known(settings={"firnline.one": "1"})
    _, same = again(facts)
    assert same.changed == ()
    _, other = again(facts, settings={"firnline.two": "1"})
    [advice] = other.changed
    assert advice.finding.startswith("firnline.two is no setting")


def test_while_the_counters_may_be_wrong_nothing_is_said_or_taken_back() -> None:
    facts = known(snapshot_count=1_000)
    _, waiting = again(facts, snapshot_count=1, waiting=MissingChanges("missing_parent", NOW_MS))
    assert waiting.changed == ()
    assert set(waiting.given) == {"many_snapshots"}


def test_a_table_that_is_gone_takes_all_of_it_along() -> None:
    _, gone = again(known(snapshot_count=1_000), removed=True)
    assert [(one.rule, one.withdrawn) for one in gone.changed] == [("many_snapshots", True)]
    assert gone.given == {}


def test_an_hour_that_is_long_over_says_nothing() -> None:
    busy = Hour(NOW_MS - 2 * HOUR_MS + 1, commits=COMMITS)
    assert "frequent_commits" in rules(known(hour=busy))
    assert rules(known(hour=replace(busy, start_ms=busy.start_ms - 1))) == set()


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({}, "keep them less long than 120 hours"),
        ({"gc.enabled": "false"}, "gc.enabled=false keeps them all"),
        ({"firnline.enabled": "false"}, "nothing expires them here"),
        ({"history.expire.min-snapshots-to-keep": "1000"}, "lower history.expire.min-snap"),
    ],
)
def test_what_keeps_snapshots_decides_what_to_do(settings: dict[str, str], remedy: str) -> None:
    [advice] = advise(known(settings=settings, snapshot_count=1_000)).changed
    assert advice.remedy.startswith(remedy)


def test_a_table_is_sorted_by_what_most_scans_filter_by() -> None:
    another = Use("a`b.c", 2 * SCANS, 2 * SCANS)
    [advice] = advise(known(**filtering(every=4 * SCANS, more=(another,)))).changed
    assert advice.finding == (
        "50% of all scans, 40 in a day, filter by a`b.c and read 100% of 16 data files nevertheless"
    )
    assert "ALTER TABLE `db`.`t` WRITE ORDERED BY `a``b`.`c` (Spark) orders" in advice.remedy
    assert "firnline.sort" not in advice.remedy  # which names columns at the top level
    [advice] = advise(known(**filtering(ordered_by=("ts", "day")))).changed
    assert "BY `id` (Spark; it replaces the order by ts, day) orders" in advice.remedy


def test_a_column_that_is_advised_stays_so_while_it_is_good_enough() -> None:
    facts = known(**filtering())
    before = advise(facts)
    assert before.given["missing_sort_order"].mark == column_mark("id")

    def later(**changes: Any) -> set[str]:
        work = replace(known(**filtering(**changes)).table.work, advice=before.given)
        after = advise(replace(facts, table=replace(facts.table, work=work)))
        return {one.finding.partition(" filter by ")[2].partition(" ")[0] for one in after.changed}

    another = (Use("ts", 1.5 * SCANS, 1.5 * SCANS),)
    assert later(scans=SCANS * EASE, every=5 * SCANS, more=another) == set()
    assert later(scans=SCANS * EASE - 0.01, more=another) == {"ts"}
    assert later(scans=SCANS * EASE - 0.01) == {""}  # withdrawn
    assert later(share=0.5 * EASE + 0.01) == set()
    assert later(share=0.5 * EASE) == {""}
    assert later(ordered_by=("id",)) == {""}


def test_what_nobody_filters_by_any_more_is_forgotten() -> None:
    facts = known(**filtering(scans=2 * SCANS, every=2 * SCANS))
    filters = facts.table.work.filters
    assert filters is not None
    faded_ms = filters.fades_ms(SCANS)
    assert faded_ms - NOW_MS == pytest.approx(0.693 * TAU_MS, rel=0.001)
    assert "missing_sort_order" in rules(replace(facts, now_ms=faded_ms - 2))
    assert "missing_sort_order" not in rules(replace(facts, now_ms=faded_ms))


def test_sizes() -> None:
    assert [size_text(one) for one in (999, 1_500, 512 * 1024**2, 2e12)] == [
        "999 bytes",
        "1.5 kB",
        "537 MB",
        "2 TB",
    ]


def test_what_is_not_known_for_the_moment_takes_no_advice_back() -> None:
    """Another branch's commit, or another's expiry: the number of snapshots is unknown, not 0."""
    unknown, advice = again(known(snapshot_count=1_000), snapshot_count=None)
    assert advice.changed == ()
    assert "many_snapshots" in advise(unknown).given
    assert "many_snapshots" not in rules(known(snapshot_count=None))
