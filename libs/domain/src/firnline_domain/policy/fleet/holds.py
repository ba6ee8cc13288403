"""Find what holds back the orders of a whole table: a pause, a window, the commit rate."""

from __future__ import annotations

from firnline_domain.base.times import earliest
from firnline_domain.counters.activity.commit_rate import burst
from firnline_domain.counters.state.work import Table
from firnline_domain.records.pauses import Hold, HoldReason, Pause
from firnline_domain.records.results import NEWEST_VERSION
from firnline_domain.settings.rule_lists import UnreadableRules
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.settings.windows import inside_until, opens_ms

BETWEEN_COMMITS = frozenset({HoldReason.COMMIT_CEILING, HoldReason.BATCHING})


def hold_of(table: Table, limits: Thresholds, now_ms: int) -> Hold | None:
    """Return what holds the table back now; of several, the one to check first."""
    return _not_now(table, limits, now_ms) or _shadow(limits)


def _not_now(table: Table, limits: Thresholds, now_ms: int) -> Hold | None:
    if table.pause is not None:
        return _paused(table.pause)
    return _unread(table) or _untimely(limits, now_ms)


def rewrite_hold_of(table: Table, limits: Thresholds, now_ms: int) -> Hold | None:
    """Return what holds rewrites back: they also yield to other maintainers and keep the commit
    rate."""
    if hold := _not_now(table, limits, now_ms) or _yielding(table, limits, now_ms):
        return hold
    work = table.work
    out, most = len(work.uncommitted), limits.max_commits
    room_ms = work.commit_rate.free_at_ms(out, most, now_ms)
    said = f"{most} an hour, {burst(most)} of them at once"
    if room_ms != now_ms:
        return Hold(HoldReason.COMMIT_CEILING, room_ms, detail=said)
    if (until_ms := work.commit_rate.batches_until_ms(out, most, now_ms)) > now_ms:
        return Hold(HoldReason.BATCHING, until_ms, detail=said)
    return _shadow(limits)


def pause_of(table: Table, limits: Thresholds) -> Hold | None:
    """Return what holds back even an order that has a deadline: an operator's pause, and shadow
    mode."""
    if table.pause is not None:
        return _paused(table.pause)
    return _unread(table) or _shadow(limits)


def hold_changes_ms(table: Table, limits: Thresholds, now_ms: int) -> int | None:
    """Return when time alone changes or ends the hold: then the table's state is published
    again."""
    if hold := rewrite_hold_of(table, limits, now_ms):
        return hold.until_ms
    # Both are readable, for else there was a hold.
    return earliest(inside_until(limits.window, now_ms), opens_ms(limits.blackout, now_ms))


def _shadow(limits: Thresholds) -> Hold | None:
    return Hold(HoldReason.SHADOW) if limits.shadow else None


def _yielding(table: Table, limits: Thresholds, now_ms: int) -> Hold | None:
    other = table.work.other
    if other is None or (until_ms := other.until_ms(limits.yield_ms)) <= now_ms:
        return None
    return Hold(HoldReason.OTHER_MAINTAINER, until_ms, other.since_ms, other.described())


def _paused(pause: Pause) -> Hold:
    return Hold(HoldReason.PAUSED, since_ms=pause.since_ms, detail=str(pause))


def _unread(table: Table) -> Hold | None:
    """Return a hold if its counters are empty: no service can read its files."""
    is_newer = table.counters.format_version > NEWEST_VERSION
    return Hold(HoldReason.FORMAT_VERSION_4) if is_newer else None


def _untimely(limits: Thresholds, now_ms: int) -> Hold | None:
    try:
        if (until_ms := inside_until(limits.blackout, now_ms)) is not None:
            return Hold(HoldReason.BLACKOUT, until_ms, detail=limits.blackout)
        if limits.window and inside_until(limits.window, now_ms) is None:
            opens = opens_ms(limits.window, now_ms)
            return Hold(HoldReason.OUTSIDE_WINDOW, opens, detail=limits.window)
    except UnreadableRules as error:
        return Hold(HoldReason.UNREADABLE_WINDOW, detail=str(error))
    return None
