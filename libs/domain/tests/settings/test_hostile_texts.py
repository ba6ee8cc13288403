"""Whatever people write: a value or a problem, and nothing raises, then or later."""

from __future__ import annotations

import json

import pytest
from firnline_domain.advice.finding import Known
from firnline_domain.advice.rules import advise
from firnline_domain.base.times import DAY_MS
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.size_spread import PartitionSpread
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import TableName
from firnline_domain.policy.cost_model import cost_model
from firnline_domain.policy.fleet.holds import find_hold, hold_changes_ms
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_domain.policy.table_action.snapshot_retention import decide_expiry
from firnline_domain.records.pauses import HoldReason
from firnline_domain.settings.in_force import settings_in_force, unknown_names, unreadable_values
from firnline_domain.settings.ref_rules import (
    NamedRef,
    expired_refs,
    parse_ref_rules,
    parse_tag_rules,
    periods_ended,
)
from firnline_domain.settings.rule_lists import find_problem
from firnline_domain.settings.thresholds import (
    NAMESPACE,
    PROPERTIES,
    Thresholds,
    resolve_thresholds,
)
from firnline_domain.settings.windows import (
    LAST_MS,
    inside_until,
    list_openings,
    opens_ms,
    parse_periods,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.partitions import table_input

NOW_MS = 1_795_000_000_000
MOMENTS = st.integers(0, LAST_MS)  # of a clock, however wrong
FOR_EVER = "2026-12-01T00:00/9999-12-31T23:59 America/New_York"

digits = st.sampled_from("0123456789٣５²")
dates = st.builds(
    "{}-{}-{}".format,
    st.sampled_from(["0001", "0000", "9999", "1970", "2026", "1", "٢٠٢٦"]),
    st.sampled_from(["01", "12", "13", "00", "1"]),
    st.sampled_from(["01", "31", "29", "00", "W1"]),
)
clocks = st.sampled_from(
    ["", "T00:00", "T23:59:59.999999", "T24:00", "T00:00Z", "T00:00+14:00", "T23:59-12:00",
     "T00:00+23:59:59.999999", "T00:00-23:59", "T00", "T\x00", "T00:00+24:00", "\ud800", "T0٣:00"]
)  # fmt: skip
zones = st.sampled_from(
    ["", " UTC", " Asia/Tokyo", " America/New_York", " Pacific/Kiritimati", " Etc/GMT+12",
     " Africa/Monrovia", " Mars", " ..", " /etc/passwd", " \x00", " \ud800", " " + "a" * 5000,
     " America", " tzdata", " posixrules", " __init__.py", " zone.tab", " localtime"]
)  # fmt: skip
once = st.builds(
    lambda a, b, c, d, zone: f"{a}{b}/{c}{d}{zone}", dates, clocks, dates, clocks, zones
)
days = st.sampled_from(
    ["", "Mon ", "Mon-Fri ", "Fri-Mon,Tue ", ", ", "- ", "Mo\u0131 ", "MON,mon "]
)
hours = st.sampled_from(["00:00", "24:00", "23:59", "99:99", "٠٠:٠٠", "6:00", "24:01", "00:60"])
weekly = st.builds(lambda d, a, b, zone: f"{d}{a}-{b}{zone}", days, hours, hours, zones)
numbers = st.one_of(
    st.sampled_from(["1e999", "-1e999", "NaN", "inf", "1e-999", "0x10", "1_000", "9" * 5000, "-0"]),
    st.lists(digits, min_size=1, max_size=30).map("".join),
    st.integers().map(str),
    st.floats().map(str),
)
rules = st.builds(
    "{} {}{}".format,
    st.sampled_from(
        ["*", "[", "[z-a]", "[!", "**" * 40, "(?P<a>", "\\", "a" * 5000, "[[:alpha:]]"]
    ),
    st.sampled_from(["30d", "999999d", "1h", "never", "0d", "٣d", "1e9d"]),
    st.sampled_from(["", " keep 7", " keep 999999", " keep -1", " keep ٣"]),
)
tags = st.sampled_from(
    ["daily-{date}", "{week}", "{year}-{month}", "{hour}", "{}", "{date", "{0}", "{date!r}",
     "a" * 100 + "{date}", "é{date}", "{date}\x00"]
)  # fmt: skip
texts = st.one_of(
    st.lists(st.one_of(once, weekly, rules, tags, numbers), max_size=4).map(";".join),
    st.text(st.characters(exclude_categories=()), max_size=60),
    st.sampled_from(["\x00", "\ud800", "a" * 200_000, ";" * 50_000, " ;" * 9_999, "true\x00"]),
)


@given(texts, MOMENTS)
@example(FOR_EVER, NOW_MS)
@example("0001-01-01T00:00/2026-12-01T00:00 Asia/Tokyo", NOW_MS)
@example("0001-01-01T00:00+14:00/9999-12-31T23:59-12:00", NOW_MS)
@example("00:00-23:59 America/New_York", LAST_MS)
@example("00:00-23:59 Asia/Tokyo", 0)
def test_a_period_is_read_or_has_a_problem(text: str, now_ms: int) -> None:
    if find_problem(parse_periods, text):
        return
    until_ms, next_ms = inside_until(text, now_ms), opens_ms(text, now_ms)
    assert until_ms is None or now_ms < until_ms <= LAST_MS + DAY_MS
    assert next_ms is None or now_ms < next_ms <= LAST_MS
    list_openings(text, now_ms, now_ms + DAY_MS)


def test_for_ever_is_for_ever() -> None:
    assert find_problem(parse_periods, FOR_EVER) is None
    assert inside_until(FOR_EVER, NOW_MS + 100 * DAY_MS) == LAST_MS


def test_a_long_list_of_periods_costs_no_tick() -> None:
    many = ";".join(f"{hour:02}:{minute:02}-{hour:02}:{minute + 1:02}"
                    for hour in range(24) for minute in range(59))  # fmt: skip
    assert "1416 periods: write 400 at the most" in (find_problem(parse_periods, many) or "")


@given(texts, MOMENTS)
def test_rules_for_refs_are_read_or_have_a_problem(text: str, now_ms: int) -> None:
    if not find_problem(parse_ref_rules, text):
        expired_refs([NamedRef("daily-1", 0), NamedRef("[", now_ms)], text, now_ms)


@given(texts, st.integers(0, LAST_MS - 400 * DAY_MS))
def test_rules_for_tags_are_read_or_have_a_problem(text: str, now_ms: int) -> None:
    if not find_problem(parse_tag_rules, text):
        periods_ended(text, now_ms)


names = st.sampled_from([*PROPERTIES, "firnline.", "firnline.x", "write.format.default"])
named = st.builds("".join, st.tuples(st.sampled_from(["", NAMESPACE]), names))
fleets = st.sampled_from([Thresholds(), Thresholds(blackout=FOR_EVER, window="Mon 22:00-06:00")])


@given(st.dictionaries(named, texts, max_size=6), fleets, st.integers(0, LAST_MS - 400 * DAY_MS))
@example({"firnline.blackout": FOR_EVER}, Thresholds(), NOW_MS)
@example({"firnline.window": "\ud800"}, Thresholds(), NOW_MS)
@example({"firnline.x": "\ud800", "firnline.sort": "\ud800"}, Thresholds(), NOW_MS)
def test_a_table_with_any_properties_is_judged(
    settings: dict[str, str], fleet: Thresholds, now_ms: int
) -> None:
    limits = resolve_thresholds(settings, fleet)
    for said in (unknown_names(settings), unreadable_values(settings)):
        assert all(isinstance(one, str) for one in said)
    settings_in_force(settings, fleet)
    counters = TableCounters(
        TableName("u", ("db",), "t"), "main", head_snapshot_id=1, known=True, settings=settings
    )
    table = Table(counters)
    advise(
        Known(
            table, limits, cost_model(limits), now_ms, PartitionSpread(limits.target_bytes), fleet
        )
    )
    decide_expiry(table_input(table, limits, now_ms))
    for action in TABLE_ACTIONS.values():
        action.plan_order(table_input(table, limits, now_ms))
        action.estimate_numbers(table_input(table, limits, now_ms))
    hold = find_hold(table_input(table, limits, now_ms))
    if hold is None or hold.reason != HoldReason.UNREADABLE_WINDOW:
        hold_changes_ms(table_input(table, limits, now_ms))
    json.dumps(settings)


@pytest.mark.parametrize("pattern", ["[z-a]", "[", "[!]", "[[:alpha:]]", "[a-", "(?P<a>"])
def test_a_pattern_of_a_ref_is_evaluated(pattern: str) -> None:
    assert expired_refs([NamedRef("main", 0)], f"{pattern} 1h", NOW_MS) == ()
