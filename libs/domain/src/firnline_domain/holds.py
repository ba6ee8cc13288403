"""What keeps orders of a whole table back, whatever its partitions want: values and one verdict."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from firnline_domain.pace import at_once
from firnline_domain.schedule import earliest
from firnline_domain.values import Value
from firnline_domain.windows import UnreadablePeriod, inside_until, opens_ms

if TYPE_CHECKING:
    from firnline_domain.progress import Table
    from firnline_domain.thresholds import Thresholds


class HoldReason(StrEnum):
    """Why nothing is ordered for a table that wants something. Stable, as `policy.Reason` is."""

    PAUSED = "paused"  # a person pulled the switch
    BLACKOUT = "blackout"  # firnline.blackout
    OUTSIDE_WINDOW = "outside_window"  # firnline.window
    UNREADABLE_WINDOW = "unreadable_window"  # one of them is not written as it has to be
    OTHER_MAINTAINER = "other_maintainer"  # somebody else maintains the table as well
    COMMIT_CEILING = "commit_ceiling"  # Firnline has committed as often as it may
    GATHERING = "gathering"  # it has committed often: more are to share the next commit
    SHADOW = "shadow"  # firnline.shadow: all else being equal it would be ordered


BETWEEN_COMMITS = frozenset({HoldReason.COMMIT_CEILING, HoldReason.GATHERING})


class Pause(Value):
    """The switch, pulled: for one table or for all, until a person lets go."""

    since_ms: int
    by: str
    reason: str  # in the person's words; may be empty

    def __str__(self) -> str:
        return f"by {self.by}" + (f": {self.reason}" if self.reason else "")


class Hold(Value):
    """`until_ms`: when time alone ends it; None = only an event does. `detail` is for people."""

    reason: str  # a HoldReason
    until_ms: int | None = None
    since_ms: int | None = None
    detail: str = ""


def hold_of(table: Table, limits: Thresholds, now_ms: int) -> Hold | None:
    """What holds the table back now; of several the one that a person looks for first."""
    return _not_now(table, limits, now_ms) or _shadow(limits)


def _not_now(table: Table, limits: Thresholds, now_ms: int) -> Hold | None:
    if table.pause is not None:
        return _paused(table.pause)
    return _untimely(limits, now_ms)


def rewrite_hold_of(table: Table, limits: Thresholds, now_ms: int) -> Hold | None:
    """The same for rewrites alone, which add snapshots and meet others at the same files."""
    if hold := _not_now(table, limits, now_ms) or _yielding(table, limits, now_ms):
        return hold
    work = table.work
    out, most = len(work.uncommitted), limits.max_commits
    room_ms = work.pace.room_ms(out, most, now_ms)
    said = f"{most} an hour, {at_once(most)} of them at once"
    if room_ms != now_ms:
        return Hold(HoldReason.COMMIT_CEILING, room_ms, detail=said)
    if (until_ms := work.pace.gathers_until_ms(out, most, now_ms)) > now_ms:
        return Hold(HoldReason.GATHERING, until_ms, detail=said)
    return _shadow(limits)


def turns_ms(table: Table, limits: Thresholds, now_ms: int) -> int | None:
    """When time alone makes another hold of it, or none: it has to be shown anew then."""
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


def _untimely(limits: Thresholds, now_ms: int) -> Hold | None:
    try:
        if (until_ms := inside_until(limits.blackout, now_ms)) is not None:
            return Hold(HoldReason.BLACKOUT, until_ms, detail=limits.blackout)
        if limits.window and inside_until(limits.window, now_ms) is None:
            opens = opens_ms(limits.window, now_ms)
            return Hold(HoldReason.OUTSIDE_WINDOW, opens, detail=limits.window)
    except UnreadablePeriod as error:
        return Hold(HoldReason.UNREADABLE_WINDOW, detail=str(error))
    return None
