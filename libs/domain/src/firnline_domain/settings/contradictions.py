"""Settings that can be read, and yet mean nothing or something that nobody can want."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from firnline_domain.settings.in_force import settings_in_force
from firnline_domain.settings.ref_rules import parse_ref_rules, parse_tag_rules, periods_ended
from firnline_domain.settings.rule_lists import UnreadableRules, find_problem
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.settings.windows import TimeSpan, list_openings, opens_ms

DAYS_AHEAD_MS = 8 * 24 * 3_600_000  # whatever recurs has come once by then


def find_contradictions(
    settings: Mapping[str, str], limits: Thresholds, fleet: Thresholds, now_ms: int
) -> Iterator[str]:
    """Yield what is wrong, and what happens instead. `limits` is what `settings` come to."""
    yield from _check_numbers(limits)
    yield from _check_expiry(settings, limits, fleet)
    yield from _check_tags(limits, now_ms)
    if limits.archive_after_h > 0 and limits.partition_ttl_h > 0:
        yield (
            f"firnline.partitions.ttl-hours={limits.partition_ttl_h:g} has no effect: old rows are "
            "archived (firnline.archive.after-hours); a TTL of the archive is a property of its own"
        )
    try:
        yield from _check_periods(limits, now_ms)
    except UnreadableRules:
        return  # reported as such


def _check_numbers(limits: Thresholds) -> Iterator[str]:
    if limits.min_fragments < 2:
        yield (
            f"firnline.rewrite.min-fragments={limits.min_fragments}: "
            "one small file has none to be merged with; 2 is used"
        )
    for name, value in (
        ("min-equality-deletes", limits.min_equality_deletes),
        ("min-position-deletes", limits.min_position_deletes),
    ):
        if value < 1:
            yield f"firnline.rewrite.{name}=0: without a delete file there is no work; 1 is used"
    if limits.max_in_flight < 1:
        yield (
            "firnline.rewrite.max-in-flight=0: no rewrite is ever ordered; "
            "firnline.enabled=false says so more clearly"
        )


def _check_expiry(
    settings: Mapping[str, str], limits: Thresholds, fleet: Thresholds
) -> Iterator[str]:
    if limits.retain_hours is None:
        return
    in_force = settings_in_force(settings, fleet)
    hours, age = in_force["firnline.retain.hours"], in_force["history.expire.max-snapshot-age-ms"]
    if not limits.gc_enabled:
        yield (
            f"firnline.retain.hours={hours.value} has no effect: gc.enabled=false forbids every "
            "expiry"
        )
    elif age.origin == hours.origin:
        yield (
            f"history.expire.max-snapshot-age-ms={age.value} has no effect: "
            f"firnline.retain.hours={hours.value} stands in its place"
        )


def _check_tags(limits: Thresholds, now_ms: int) -> Iterator[str]:
    if find_problem(parse_tag_rules, limits.create_tags) or find_problem(
        parse_ref_rules, limits.expire_tags
    ):
        return  # reported as such
    names = [one.tag for one in periods_ended(limits.create_tags, now_ms)]
    rules = parse_ref_rules(limits.expire_tags)
    left = [one for one in names if not any(fnmatchcase(one, rule.pattern) for rule in rules)]
    if left:
        yield (
            f"firnline.tags.create={limits.create_tags}: no rule of firnline.expire.tags names "
            f"{', '.join(left)}: such tags never expire, and keep the files of their snapshots"
        )


def _check_periods(limits: Thresholds, now_ms: int) -> Iterator[str]:
    if not limits.window:
        return
    until_ms = now_ms + DAYS_AHEAD_MS
    found = list_openings(limits.window, now_ms, until_ms)
    if not found:
        if opens_ms(limits.window, now_ms) is None:
            yield f"firnline.window={limits.window} is over for good: nothing is ordered any more"
    elif _is_within(found, list_openings(limits.blackout, now_ms, until_ms)):
        yield (
            f"firnline.window={limits.window} opens only within "
            f"firnline.blackout={limits.blackout}: nothing is ordered for a week at least"
        )


def _is_within(spans: Sequence[TimeSpan], others: Sequence[TimeSpan]) -> bool:
    """Return True if each span lies in one of the others; both are in order and merged."""
    starts = [one.start_ms for one in others]
    places = [bisect_right(starts, one.start_ms) - 1 for one in spans]
    return all(
        at >= 0 and span.end_ms <= others[at].end_ms for span, at in zip(spans, places, strict=True)
    )
