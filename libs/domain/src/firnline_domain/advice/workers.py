"""Advice about the workers that rewrite a table: orders that wait, and work that takes long."""

from __future__ import annotations

from firnline_domain.advice.finding import Known, RuleFinding
from firnline_domain.counters.activity.writers import SLOW_TIMES, Hour
from firnline_domain.policy.partition.deadlines import waits_for_worker

MINUTE_MS = 60_000
WAITING_MINUTES = 15  # a heartbeat says within a minute of its begin that an order is at work
SLOW = 3  # an hour
SLOW_SHARE = 0.2  # of the table's rewrites


def waiting_orders(known: Known, ease: float) -> RuleFinding | None:
    """Find tasks that no worker has begun: too few workers, or none of the table's group."""
    since = [one.ordered_at_ms for one in known.table.work.running if waits_for_worker(one)]
    minutes = (known.now_ms - min(since, default=known.now_ms)) / MINUTE_MS
    if minutes < WAITING_MINUTES * ease:
        return None
    group = known.settings.served_by
    return RuleFinding(
        f"{len(since):,} tasks wait for a worker of the group '{group}', the oldest for "
        f"{minutes:,.0f} minutes",
        "see whether the group's workers run, and how many are wanted: /api/workers of the console",
        {"waiting_orders": len(since), "waiting_minutes": minutes},
        {"waiting_minutes": WAITING_MINUTES},
        lead=minutes,
    )


def slow_rewrites(known: Known, ease: float) -> RuleFinding | None:
    """Find a table whose rewrites take longer than estimated. Costs are learned per bucket, so a
    table of another speed is estimated wrongly, and a worker on a busy host is slow."""
    hours = known.table.work.activity.recent_hours(known.now_ms)
    hour = max(hours, key=lambda one: one.slow, default=Hour())
    share = hour.slow / max(hour.timed, 1)
    if hour.slow < SLOW * ease or share < SLOW_SHARE * ease:
        return None
    times = hour.slow_ms / max(hour.slow_expected_ms, 1)
    return RuleFinding(
        f"{hour.slow:,} of {hour.timed:,} rewrites in an hour took {times:,.1f} times as long as "
        "estimated",
        "see whether workers share their cores with others, wait for slow storage, or have too "
        "little memory; where only this table is slow, very wide rows or an expensive codec are",
        {"slow_per_hour": hour.slow, "slow_share": share, "times_foretold": times},
        {"slow_per_hour": SLOW, "slow_share": SLOW_SHARE, "times_foretold": SLOW_TIMES},
        lead=hour.slow,
    )
