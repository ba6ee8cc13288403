"""Windows and blackouts as people write them, by the clocks of their zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from firnline_domain.settings.rule_lists import UnreadableRules, find_problem
from firnline_domain.settings.windows import inside_until, opens_ms, parse_periods

NIGHTS = "Mon-Fri 22:00-06:00 Europe/Berlin"
WEEKEND = "Sat,Sun 00:00-24:00 Europe/Berlin"
CHRISTMAS = "2026-12-24T00:00Z/2026-12-27T00:00Z"


def ms(text: str) -> int:
    """Of a moment in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def until(text: str, now: str) -> str | None:
    found = inside_until(text, ms(now))
    return found and f"{datetime.fromtimestamp(found / 1000, UTC):%Y-%m-%dT%H:%M}"


def opens(text: str, now: str) -> str | None:
    found = opens_ms(text, ms(now))
    return found and f"{datetime.fromtimestamp(found / 1000, UTC):%Y-%m-%dT%H:%M}"


INSIDE = [
    ("winter, an hour ahead of UTC", NIGHTS, "2026-01-12T21:00", "2026-01-13T05:00"),
    ("summer, two hours", NIGHTS, "2026-07-13T20:00", "2026-07-14T04:00"),
    ("Friday's ends on Saturday", NIGHTS, "2026-01-17T04:59", "2026-01-17T05:00"),
    ("a weekend is one", WEEKEND, "2026-01-17T12:00", "2026-01-18T23:00"),
    ("a night that goes over into a weekend", f"{NIGHTS}; {WEEKEND}", "2026-01-16T22:00",
     "2026-01-18T23:00"),
    ("every day, UTC", "01:00-02:00", "2026-01-14T01:30", "2026-01-14T02:00"),
    ("over the turn of the week", "Fri-Mon 12:00-13:00", "2026-01-19T12:30", "2026-01-19T13:00"),
    ("once", CHRISTMAS, "2026-12-24T00:00", "2026-12-27T00:00"),
    ("once, by the clocks of a zone", "2026-07-01T00:00/2026-07-02T00:00 Europe/Berlin",
     "2026-06-30T22:00", "2026-07-01T22:00"),
    ("an offset", "2026-07-01T00:00+02:00/2026-07-02T00:00+02:00", "2026-06-30T22:00",
     "2026-07-01T22:00"),
    # Berlin's clocks: 2026-03-29 01:00Z from 2:00 to 3:00, 2026-10-25 01:00Z from 3:00 to 2:00
    ("the short night", "Sat 22:00-06:00 Europe/Berlin", "2026-03-28T22:00", "2026-03-29T04:00"),
    ("the long night", "Sat 22:00-06:00 Europe/Berlin", "2026-10-24T21:00", "2026-10-25T05:00"),
    ("the hour that comes twice", "02:00-03:00 Europe/Berlin", "2026-10-25T01:30",
     "2026-10-25T02:00"),
    ("an end that is skipped", "01:00-02:30 Europe/Berlin", "2026-03-29T01:15",
     "2026-03-29T01:30"),
]  # fmt: skip
OUTSIDE = [
    ("not begun", NIGHTS, "2026-01-12T20:59", "2026-01-12T21:00"),
    ("just over", NIGHTS, "2026-01-13T05:00", "2026-01-13T21:00"),
    ("Sunday has no night", NIGHTS, "2026-01-18T23:00", "2026-01-19T21:00"),
    ("once a week, just missed", "Wed 10:00-11:00", "2026-01-14T11:00", "2026-01-21T10:00"),
    ("the hour that is skipped", "02:00-03:00 Europe/Berlin", "2026-03-29T00:59",
     "2026-03-30T00:00"),
    ("once, over", CHRISTMAS, "2026-12-27T00:00", None),
    ("once, to come", CHRISTMAS, "2026-12-01T00:00", "2026-12-24T00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "text", "now", "end"), INSIDE, ids=[one[0] for one in INSIDE])
def test_inside(case: str, text: str, now: str, end: str) -> None:
    assert until(text, now) == end
    assert until(text, end) is None


@pytest.mark.parametrize(("case", "text", "now", "next_"), OUTSIDE, ids=[one[0] for one in OUTSIDE])
def test_outside(case: str, text: str, now: str, next_: str | None) -> None:
    assert until(text, now) is None
    assert opens(text, now) == next_
    if next_:
        assert until(text, next_) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at night", "write '[DAYS] HH:MM-HH:MM [ZONE]'"),
        ("22:00-06:00 Europe/Berlyn", "'Europe/Berlyn' in '22:00-06:00 Europe/Berlyn' is no time"),
        ("22:00-06:00 ../../etc/passwd", "is no time zone"),
        ("Mon-Fry 22:00-06:00", "'mon-fry' in 'Mon-Fry 22:00-06:00' is no day; the days are Mon,"),
        ("Mon 25:00-26:00", "'25:00' in 'Mon 25:00-26:00' is no time of day"),
        ("Mon 22:61-23:00", "is no time of day"),
        ("22:00-22:00", "is empty; the whole day is 00:00-24:00"),
        ("24:00-06:00", "is empty"),
        ("2026-12-24T00:00/2026-12-27T00:00", "has no zone: end it with Z"),
        ("2026-12-27T00:00Z/2026-12-24T00:00Z", "ends before it begins"),
        ("2026-13-24T00:00Z/2026-12-27T00:00Z", "is no date and time"),
        ("Mon 01:00-02:00; nonsense", "'nonsense' cannot be read"),
    ],
)
def test_what_cannot_be_read_says_how_to_write_it(text: str, said: str) -> None:
    assert said in str(find_problem(parse_periods, text))
    with pytest.raises(UnreadableRules):
        inside_until(text, 0)


@pytest.mark.parametrize("text", ["", " ", " ; "])
def test_nothing_is_no_period(text: str) -> None:
    assert (parse_periods(text), find_problem(parse_periods, text), inside_until(text, 0)) == (
        (),
        None,
        None,
    )


def test_a_year_of_nights_never_overlaps_or_loses_one() -> None:
    """Each night's end is 06:00 in Berlin, each beginning 22:00, also where clocks are moved."""
    now, nights = datetime(2026, 1, 1, 12, tzinfo=UTC), 0
    while now.year == 2026:
        begin = opens_ms("22:00-06:00 Europe/Berlin", int(now.timestamp() * 1000))
        assert begin is not None
        end = inside_until("22:00-06:00 Europe/Berlin", begin)
        assert end is not None
        assert end - begin in {7 * 3_600_000, 8 * 3_600_000, 9 * 3_600_000}
        nights += 1
        now = datetime.fromtimestamp(end / 1000, UTC) + timedelta(hours=6)
    assert nights == 365
