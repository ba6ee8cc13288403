"""Why snapshots are expired, or not."""

from __future__ import annotations

from firnline_domain.policy.decisions import Reason
from firnline_domain.reason_code import ReasonCode
from firnline_domain.records.pauses import HoldReason
from firnline_domain.records.results import GRACE_PERIOD


class ExpiryReason(ReasonCode):
    """Why expiry was, or was not, ordered."""

    OLD_SNAPSHOTS = (
        "old_snapshots",
        "ordered: snapshots are older than the retention",
        "snapshots are older than the table keeps them",
    )
    ANNOUNCED = (
        "expiry_announced",
        "ordered: a worker counts what would be deleted",
        "what would go is being found out, to be announced",
    )
    IN_FLIGHT = (
        "expiry_in_flight",
        "an expiry is running",
        "an expiry is at work",
    )
    GC_DISABLED = (
        "gc_disabled",
        "`gc.enabled=false`",
        "forbidden by gc.enabled=false",
    )
    DISABLED = Reason.DISABLED.entry
    NEVER = (
        "expire_disabled",
        "`firnline.expire.enabled=false`",
        "switched off (firnline.expire.enabled=false)",
    )
    EXTERNAL_FILES = (
        "external_files",
        "the table has files outside its own locations, which others may need",
        "the table has, or had, files outside its own locations, which others may need; "
        "firnline.expire.enabled=true of the table lets them go",
    )
    UNREADABLE_RULES = (
        "unreadable_rules",
        "`firnline.expire.tags` or `firnline.expire.branches` cannot be read",
        "firnline.expire.tags or firnline.expire.branches cannot be read; it waits until the rule "
        "is corrected",
    )
    GRACE_PERIOD = (
        GRACE_PERIOD,
        "announced, not begun yet",
        "announced, and not begun yet (firnline.expire.grace-ms); firnline.expire.enabled=false "
        "stops it, =true lets it begin at once",
    )
    NOTHING_OLD_ENOUGH = (
        "nothing_old_enough",
        "no snapshot is older than the retention",
        "no snapshot is old enough",
    )
    TOO_FEW = (
        "too_few_snapshots",
        "no more than `min-snapshots-to-keep`",
        "no more snapshots than the table always keeps",
    )
    TOO_SOON = (
        "too_soon",
        "the last expiry was less than `min-interval-ms` ago",
        "the last expiry was a short while ago",
    )
    HELD_BY_TASK = (
        "held_by_task",
        "a running task may read everything that is old enough",
        "a task in flight may still read what is old enough",
    )
    PAUSED = HoldReason.PAUSED.entry
    FORMAT_VERSION_4 = HoldReason.FORMAT_VERSION_4.entry
    BLACKOUT = HoldReason.BLACKOUT.entry
    OUTSIDE_WINDOW = HoldReason.OUTSIDE_WINDOW.entry
    UNREADABLE_WINDOW = HoldReason.UNREADABLE_WINDOW.entry
    SHADOW = HoldReason.SHADOW.entry
    UNKNOWN = (
        "snapshots_unknown",
        "the number of snapshots is unknown, after another's expiry or a commit on another branch",
        "the snapshots are not known yet",
    )
    REMOVED = Reason.REMOVED.entry
