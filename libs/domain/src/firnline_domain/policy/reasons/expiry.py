"""Reasons why snapshots are expired, or not."""

from __future__ import annotations

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.records.results import GRACE_PERIOD


class ExpiryReason(ReasonCode):
    """Reasons why expiry was, or was not, ordered, that are of no other action."""

    OLD_SNAPSHOTS = (
        "old_snapshots",
        "Snapshots are older than the retention: an expiry is scheduled.",
        "snapshots are older than the retention",
    )
    ANNOUNCED = (
        "expiry_announced",
        "A worker counts the files that would be deleted, for the announcement.",
        "counting files that would be deleted, for the announcement",
    )
    IN_FLIGHT = (
        "expiry_in_flight",
        "An expiry is scheduled or running.",
        "an expiry is scheduled or running",
    )
    GC_DISABLED = (
        "gc_disabled",
        "`gc.enabled=false`: another table may share the files.",
        "disabled by gc.enabled=false",
    )
    NEVER = (
        "expire_disabled",
        "`firnline.expire.enabled=false` is set.",
        "switched off (firnline.expire.enabled=false)",
    )
    EXTERNAL_FILES = (
        "external_files",
        "The table has, or had, files outside its own locations, which other tables may use. "
        "`firnline.expire.enabled=true` on the table itself permits expiry.",
        "the table has, or had, files outside its own locations; firnline.expire.enabled=true "
        "on the table permits expiry",
    )
    UNREADABLE_RULES = (
        "unreadable_rules",
        "`firnline.expire.tags` or `firnline.expire.branches` cannot be parsed. Nothing "
        "expires until it is corrected.",
        "firnline.expire.tags or firnline.expire.branches cannot be read; waits until it is "
        "corrected",
    )
    GRACE_PERIOD = (
        GRACE_PERIOD,
        "The expiry was announced and starts after `firnline.expire.grace-ms`.",
        "announced, starts after firnline.expire.grace-ms; firnline.expire.enabled=false stops "
        "it, =true starts it now",
    )
    NOTHING_OLD_ENOUGH = (
        "nothing_old_enough",
        "No snapshot is older than the retention.",
        "no snapshot is old enough",
    )
    TOO_FEW = (
        "too_few_snapshots",
        "The table has no more snapshots than `history.expire.min-snapshots-to-keep`.",
        "no more snapshots than the table keeps (history.expire.min-snapshots-to-keep)",
    )
    TOO_SOON = (
        "too_soon",
        "The last expiry was less than `firnline.expire.min-interval-ms` ago.",
        "the last expiry was recent (firnline.expire.min-interval-ms)",
    )
    HELD_BY_TASK = (
        "held_by_task",
        "A running task may still read every snapshot that is old enough.",
        "a running task may still read the old snapshots",
    )
    UNKNOWN = (
        "snapshots_unknown",
        "The number of snapshots is unknown after an expiry by another program or a commit to "
        "another branch.",
        "the number of snapshots is not known yet",
    )
