"""Defaults of a fleet, read once at start; what is wrong with them keeps the planner from it."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.errors import Misconfigured
from firnline_domain.settings.groups import parse_groups
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.default_settings import with_defaults

LIMITS = Thresholds(min_fragments=20)
NOW_MS = 1_795_000_000_000


def test_settings_by_their_names_and_the_others_stay() -> None:
    text = '{"firnline.retain.hours": "48", "firnline.rewrite.max-age-ms": "60000"}'
    found = with_defaults(text, LIMITS, NOW_MS)
    assert (found.retain_hours, found.max_age_ms, found.min_fragments) == (48, 60_000, 20)
    assert with_defaults("", LIMITS, NOW_MS) == LIMITS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("retain: 48", "is no JSON"),
        ('["firnline.retain.hours"]', "write a JSON object of texts"),
        ('{"firnline.retain.hours": 48}', "write a JSON object of texts"),
        ('{"firnline.retain.hour": "48"}', "firnline.retain.hours is meant?"),
        ('{"firnline.retain.hours": "two days"}', "cannot be read"),
        ('{"firnline.window": "at night"}', "write '[DAYS] HH:MM-HH:MM"),
        ('{"write.target-file-size-bytes": "1"}', "writers and workers read it there"),
        ('{"firnline.sort": "order"}', "workers read it there"),
        ('{"firnline.tags.create": "daily-{date}"}', "workers read it there"),
        ('{"firnline.statistics": "a,b"}', "as a default write all"),
        ('{"firnline.rewrite.deadline-ms": "1"}', "whole number from 10,000"),
        ('{"firnline.blackout": "2026-12-01T00:00/9999-12-31T23:59 Mars"}', "is no time zone"),
        ('{"firnline.window": "\\ud800"}', "nothing is ordered"),
        ("[" * 100_000, "is no JSON"),
        ('{"firnline.retain.hours": 1e999}', "write a JSON object of texts"),
        ('{"firnline.retain.hours": "1e999"}', "cannot be read"),
        ('{"firnline.retain.hours": ' + "9" * 5_000 + "}", "is no JSON"),
        ('{"firnline.partitions.grace-ms": "٣٠٠٠"}', "cannot be read"),
        ('{"firnline.group": "etl"}', "firnline.group=etl: no such group in this deployment"),
        ('{"firnline.rewrite.max-in-flight": "0"}', "no rewrite is ever ordered"),
    ],
)
def test_what_is_wrong_is_said_at_once(text: str, said: str) -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_DEFAULTS") as error:
        with_defaults(text, LIMITS, NOW_MS)
    assert said in str(error.value)


def test_a_group_of_the_fleet_may_be_its_default() -> None:
    fleet = replace(LIMITS, groups=parse_groups("etl"))
    assert with_defaults('{"firnline.group": "etl"}', fleet, NOW_MS).served_by == "etl"
