"""Compares this host's clock with others: Redis' TIME, the Date of HTTP answers, records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from firnline_cli.checks.findings import Check, CheckAnswer, Failed, NotTried, remark
from firnline_cli.checks.redis import RedisChecks
from firnline_cli.checks.settings import OF_REDIS, Given
from firnline_cli.checks.signatures import Signatures

WRONG_S = 60.0  # signed requests to storage end at 15 min, results and leases sooner
OFF_S = 5.0
SET = (
    "set the clock (chronyc tracking, timedatectl) here or there: signatures and leases rest on it"
)


def clock_checks(given: Given, signatures: Signatures) -> Iterator[Check]:
    """Yield the checks against Redis and Kafka."""
    if given.concerns(OF_REDIS):
        redis = RedisChecks(given)
        tried = "compare our clock with that of Redis"
        yield Check("clock.redis", tried, lambda: compare_clocks(redis.now_s), ("redis.reach",))
    tried = "compare the clock with the newest record"
    yield Check("clock.kafka", tried, lambda: _check_newest_record(signatures), ("kafka.reach",))


def compare_clocks(theirs: Callable[[], float]) -> CheckAnswer | str:
    """Compare our clock with another one, in seconds since 1970. The time on the way there counts
    for both."""
    before = time.time()
    there = theirs()
    after = time.time()
    if before - 1 <= there <= after:  # that of HTTP counts whole seconds
        return judge_offset(0.0)
    return judge_offset(before - 1 - there if there < before else after - there)


def judge_offset(ahead_s: float) -> CheckAnswer | str:
    """Judge `ahead_s`: by how many seconds our clock is ahead."""
    if abs(ahead_s) < OFF_S:
        return f"{abs(ahead_s):.1f} s apart"
    text = f"our clock is {abs(ahead_s):.0f} s {'ahead' if ahead_s > 0 else 'behind'}"
    if abs(ahead_s) < WRONG_S:
        return remark(text, SET)
    raise Failed(text, SET)


def _check_newest_record(signatures: Signatures) -> CheckAnswer | str:
    """Check that no record is newer than now. The age of an older one is unknown, so it proves
    nothing about our clock."""
    ahead_s = time.time() - signatures.newest_record().at_ms / 1000
    if ahead_s > 0:
        raise NotTried("the newest record is from before now; that says nothing of our clock")
    return judge_offset(ahead_s)


def http_clock(connection: Any) -> Callable[[], CheckAnswer | str]:
    """Return the check against a catalog's clock, by the date of its answers."""

    def compare() -> CheckAnswer | str:
        from firnline_iceberg.catalog_probe import clock_of

        def catalog_clock() -> float:
            if (found := clock_of(connection)) is None:
                raise NotTried("its answers have no date")
            return found

        return compare_clocks(catalog_clock)

    return compare
