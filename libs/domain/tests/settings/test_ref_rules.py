"""Which tags and branches go, by an owner's patterns."""

from __future__ import annotations

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.settings.ref_rules import NamedRef, expired_refs, parse_ref_rules
from firnline_domain.settings.rule_lists import UnreadableRules, find_problem

NOW = 1_000 * DAY_MS


def ref(name: str, days: float) -> NamedRef:
    return NamedRef(name, NOW - int(days * DAY_MS))


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        ("", ""),
        ("daily-* 30d", "daily-2 daily-3"),
        ("daily-* 30d keep 2", "daily-3"),
        ("daily-* 30d keep 3", ""),
        ("daily-* never; * 1h", "release-1"),
        ("* 1h; daily-* never", "daily-1 daily-2 daily-3 release-1"),  # the first rule that fits
        ("release-? 99d", "release-1"),
        ("release-? 100d", ""),  # not older than that
        ("DAILY-* 1h", ""),
        ("main 1h; mai* 1h", ""),
    ],
)
def test_what_goes(rules: str, gone: str) -> None:
    known = [ref("daily-1", 1), ref("daily-3", 33), ref("daily-2", 32), ref("release-1", 100)]
    known.append(ref("main", 900))
    assert " ".join(expired_refs(known, rules, NOW)) == gone


def test_of_refs_that_are_as_old_as_each_other_the_same_stay() -> None:
    known = [ref("b", 40), ref("a", 40), ref("c", 40)]
    assert expired_refs(known, "* 30d keep 1", NOW) == ("b", "c")
    assert expired_refs(reversed(known), "* 30d keep 1", NOW) == ("b", "c")


def test_an_age_in_hours() -> None:
    young = NamedRef("t", NOW - 12 * HOUR_MS)
    assert expired_refs([young], "t 12h", NOW) == ()
    assert expired_refs([young], "t 11h", NOW) == ("t",)


@pytest.mark.parametrize("text", ["daily-*", "daily-* 30", "x 0d", "x 30d keep", "x 1d, y 2d"])
def test_what_cannot_be_read_expires_nothing(text: str) -> None:
    with pytest.raises(UnreadableRules, match=r"write 'PATTERN AGE \[keep NUMBER\]'"):
        expired_refs([ref("x", 100)], text, NOW)
    assert find_problem(parse_ref_rules, text)
    assert find_problem(parse_ref_rules, "x 1d; y never keep 2") is None
