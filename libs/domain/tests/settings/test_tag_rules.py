"""Names and periods of tags, by what an owner writes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from firnline_domain.base.times import MINUTE_MS
from firnline_domain.settings.in_force import settings_in_force
from firnline_domain.settings.ref_rules import Period, parse_tag_rules, periods_at, periods_ended
from firnline_domain.settings.rule_lists import find_problem


def ms(*at: int) -> int:
    return int(datetime(*at, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("rule", "at", "tag", "start", "end"),
    [
        ("d-{date}", (2026, 3, 1, 0, 0), "d-2026-02-28", (2026, 2, 28), (2026, 3, 1)),
        ("d-{date}", (2028, 3, 1, 0, 0), "d-2028-02-29", (2028, 2, 29), (2028, 3, 1)),
        ("{month}", (2026, 3, 31, 23, 59), "2026-02", (2026, 2, 1), (2026, 3, 1)),
        ("{month}", (2027, 1, 1), "2026-12", (2026, 12, 1), (2027, 1, 1)),
        ("w{week}", (2027, 1, 4), "w2026-W53", (2026, 12, 28), (2027, 1, 4)),
        ("w{week}", (2027, 1, 3, 23), "w2026-W52", (2026, 12, 21), (2026, 12, 28)),
        ("y.{year}_x", (2029, 1, 1), "y.2028_x", (2028, 1, 1), (2029, 1, 1)),
        ("{hour}", (2026, 3, 29, 2, 30), "2026-03-29T01", (2026, 3, 29, 1), (2026, 3, 29, 2)),
    ],
)
def test_the_newest_period_that_is_over(
    rule: str, at: tuple[int, ...], tag: str, start: tuple[int, ...], end: tuple[int, ...]
) -> None:
    assert periods_ended(rule, ms(*at)) == (Period(tag, ms(*start), ms(*end)),)


@pytest.mark.parametrize("period", ["hour", "date", "week", "month", "year"])
def test_periods_follow_each_other_without_a_gap(period: str) -> None:
    at = ms(2024, 1, 1)
    for _ in range(800):
        (now,) = periods_at(f"{{{period}}}", at)
        (before,) = periods_ended(f"{{{period}}}", at)
        assert now.start_ms <= at < now.end_ms
        assert before.end_ms == now.start_ms
        assert before.tag != now.tag
        at += 31 * 60 * MINUTE_MS + 7


@pytest.mark.parametrize(
    "text", ["daily", "{day}", "a/{date}", "{date}{month}", "x-{date}; x-{date}", "{date} 30d",
             "x" * 95 + "{date}", "täglich-{date}"],
)  # fmt: skip
def test_what_cannot_be_read_is_said(text: str) -> None:
    assert find_problem(parse_tag_rules, text)
    assert (
        "no tag is made"
        in settings_in_force({"firnline.tags.create": text})["firnline.tags.create"].problem
    )


def test_several_and_none() -> None:
    assert [one.tag for one in periods_ended(" a-{date} ;b-{year};", ms(2026, 5, 2))] == [
        "a-2026-05-01", "b-2025",
    ]  # fmt: skip
    assert periods_ended("", ms(2026, 5, 2)) == ()
    assert find_problem(parse_tag_rules, "") is None
