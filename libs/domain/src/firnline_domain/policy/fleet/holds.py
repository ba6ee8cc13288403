"""Find what holds back the orders of a whole table: a pause, a window, the commit rate."""

from __future__ import annotations

from firnline_domain.base.times import earliest_of
from firnline_domain.counters.activity.commit_rate import burst_size
from firnline_domain.policy.policy_input import TableInput
from firnline_domain.records.pauses import HoldReason, Pause, TableHold
from firnline_domain.records.results import NEWEST_VERSION
from firnline_domain.settings.rule_lists import UnreadableRules
from firnline_domain.settings.windows import inside_until, opens_ms

BETWEEN_COMMITS = frozenset({HoldReason.COMMIT_CEILING, HoldReason.BATCHING})


def find_hold(given: TableInput) -> TableHold | None:
    """Return what holds the table back now; of several, the one to check first."""
    return _not_now(given) or _shadow_hold(given)


def _not_now(given: TableInput) -> TableHold | None:
    if given.table.pause is not None:
        return _pause_hold(given.table.pause)
    return _unread_hold(given) or _window_hold(given)


def find_rewrite_hold(given: TableInput) -> TableHold | None:
    """Return the hold of the table's rewrites, which also yield to other maintainers and keep the
    commit rate; None if there is none."""
    if hold := _not_now(given) or _maintainer_hold(given):
        return hold
    work, now_ms = given.table.work, given.now_ms
    out, most = len(work.uncommitted_times), given.settings.max_commits
    room_ms = work.commit_rate.free_at_ms(out, most, now_ms)
    said = f"{most} an hour, {burst_size(most)} of them at once"
    if room_ms != now_ms:
        return TableHold(HoldReason.COMMIT_CEILING, room_ms, detail=said)
    if (until_ms := work.commit_rate.batches_until_ms(out, most, now_ms)) > now_ms:
        return TableHold(HoldReason.BATCHING, until_ms, detail=said)
    return _shadow_hold(given)


def find_pause(given: TableInput) -> TableHold | None:
    """Return the hold that also stops orders with a deadline: an operator's pause, shadow mode, or
    files that cannot be read; None if there is none."""
    if given.table.pause is not None:
        return _pause_hold(given.table.pause)
    return _unread_hold(given) or _shadow_hold(given)


def hold_changes_ms(given: TableInput) -> int | None:
    """Return when time alone changes or ends the hold, in ms since 1970: the table's state is
    published again then. None = time alone changes nothing."""
    if hold := find_rewrite_hold(given):
        return hold.until_ms
    settings, now_ms = given.settings, given.now_ms
    # Both are readable, for else there was a hold.
    return earliest_of(inside_until(settings.window, now_ms), opens_ms(settings.blackout, now_ms))


def _shadow_hold(given: TableInput) -> TableHold | None:
    return TableHold(HoldReason.SHADOW) if given.settings.shadow else None


def _maintainer_hold(given: TableInput) -> TableHold | None:
    other, yield_ms = given.table.work.other, given.settings.yield_ms
    if other is None or (until_ms := other.until_ms(yield_ms)) <= given.now_ms:
        return None
    return TableHold(HoldReason.OTHER_MAINTAINER, until_ms, other.since_ms, other.describe())


def _pause_hold(pause: Pause) -> TableHold:
    return TableHold(HoldReason.PAUSED, since_ms=pause.since_ms, detail=str(pause))


def _unread_hold(given: TableInput) -> TableHold | None:
    """Return a hold if its counters are empty: no service can read its files."""
    is_newer = given.table.counters.format_version > NEWEST_VERSION
    return TableHold(HoldReason.FORMAT_VERSION_4) if is_newer else None


def _window_hold(given: TableInput) -> TableHold | None:
    window, blackout, now_ms = given.settings.window, given.settings.blackout, given.now_ms
    try:
        if (until_ms := inside_until(blackout, now_ms)) is not None:
            return TableHold(HoldReason.BLACKOUT, until_ms, detail=blackout)
        if window and inside_until(window, now_ms) is None:
            opens = opens_ms(window, now_ms)
            return TableHold(HoldReason.OUTSIDE_WINDOW, opens, detail=window)
    except UnreadableRules as error:
        return TableHold(HoldReason.UNREADABLE_WINDOW, detail=str(error))
    return None
