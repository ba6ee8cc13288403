"""When snapshots are expired, and why not: a line per case, at NOW."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import ExpiryWork, RunningTask, Table, TableWork
from firnline_domain.identity import Scope, TableName, task_id
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.snapshot_retention import (
    DEADLINE_MS,
    ExpiryReason,
    after_announcement,
    after_expired,
    begins_ms,
    configured_retention,
    decide_expiry,
    expiry_ended,
    expiry_order,
    refusal_reason,
    retry_allowed,
)
from firnline_domain.records.orders import ExpireSnapshots
from firnline_domain.records.results import ExpiryPreview
from firnline_domain.settings.thresholds import ExpiryMode, Thresholds

from tests.kit.expiries import expire, expired
from tests.kit.partitions import table_input

NOW = 100 * DAY_MS
OLD = NOW - 5 * DAY_MS - 1  # just older than the default retention
LIMITS = Thresholds(expire=ExpiryMode.ALWAYS)  # else it is announced first: below


def table(work: TableWork | None = None, **counters: Any) -> Table:
    known = TableCounters(
        TableName("u", ("db",), "t"),
        "main",
        known=True,
        head_snapshot_id=77,
        snapshot_count=9,
        oldest_snapshot_ms=OLD,
    )
    return Table(replace(known, **counters), work or TableWork())


def expiry(**work: Any) -> TableWork:
    return TableWork(expiry=ExpiryWork(**work))


def task(trigger: int, ordered_at_ms: int) -> RunningTask:
    return RunningTask(f"t{trigger}", Scope(0, "[]"), "c", "r", trigger, 1, ordered_at_ms, NOW + 9)


def agreed(**limits: Any) -> Thresholds:
    return Thresholds(expire=ExpiryMode.ALWAYS, **limits)


REFUSED = [
    ("a day too young", table(oldest_snapshot_ms=OLD + DAY_MS), LIMITS,
     ExpiryReason.NOTHING_OLD_ENOUGH, NOW + DAY_MS),
    ("exactly as old as retained", table(oldest_snapshot_ms=OLD + 1), LIMITS,
     ExpiryReason.NOTHING_OLD_ENOUGH, NOW + 1),
    ("kept for longer by hours", table(), agreed(retain_hours=24 * 30),
     ExpiryReason.NOTHING_OLD_ENOUGH, OLD + 30 * DAY_MS + 1),
    ("gc.enabled=false", table(), agreed(gc_enabled=False), ExpiryReason.GC_DISABLED, None),
    ("firnline.enabled=false", table(), agreed(enabled=False), Reason.DISABLED, None),
    ("only as many as are to be kept", table(snapshot_count=3), agreed(min_snapshots=3),
     ExpiryReason.TOO_FEW, None),
    ("one snapshot is always kept", table(snapshot_count=1), agreed(min_snapshots=0),
     ExpiryReason.TOO_FEW, None),
    ("one is out", table(expiry(task_id="x", deadline_ms=NOW + 1)), LIMITS,
     ExpiryReason.IN_FLIGHT, NOW + 1),
    ("too soon after the last", table(expiry(finished_ms=NOW - 1)), LIMITS,
     ExpiryReason.TOO_SOON, NOW - 1 + LIMITS.expire_interval_ms),
    ("nothing was expired three times", table(expiry(finished_ms=NOW - 1, fruitless=3)), LIMITS,
     ExpiryReason.TOO_SOON, NOW - 1 + 8 * LIMITS.expire_interval_ms),
    ("a task was ordered before", table(TableWork(running=(task(5, OLD),))), LIMITS,
     ExpiryReason.HELD_BY_TASK, None),
    ("dropped", table(removed=True), LIMITS, Reason.REMOVED, None),
    ("age unknown", table(oldest_snapshot_ms=None), LIMITS, ExpiryReason.UNKNOWN, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "of_it", "limits", "reason", "until_ms"), REFUSED, ids=[one[0] for one in REFUSED]
)
def test_not_ordered(
    case: str, of_it: Table, limits: Thresholds, reason: ReasonCode, until_ms: int | None
) -> None:
    decision = decide_expiry(table_input(of_it, limits, NOW))
    assert (decision.reason, decision.until_ms) == (reason, until_ms)
    assert decision.older_than_ms is None


ORDERED = [
    ("old enough", table(), LIMITS, NOW - 5 * DAY_MS),
    ("by hours", table(), agreed(retain_hours=2), NOW - 2 * HOUR_MS),
    ("how many is not known", table(snapshot_count=None), LIMITS, NOW - 5 * DAY_MS),
    ("the last order was lost", table(expiry(task_id="x", deadline_ms=NOW)), LIMITS,
     NOW - 5 * DAY_MS),
    ("a task in flight bounds it", table(TableWork(running=(task(5, OLD + 1),))), LIMITS, OLD + 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "of_it", "limits", "older_than_ms"), ORDERED, ids=[one[0] for one in ORDERED]
)
def test_ordered(case: str, of_it: Table, limits: Thresholds, older_than_ms: int) -> None:
    decision = decide_expiry(table_input(of_it, limits, NOW))
    assert (decision.reason, decision.older_than_ms) == (ExpiryReason.OLD_SNAPSHOTS, older_than_ms)


def test_the_order_protects_what_tasks_in_flight_started_from() -> None:
    work = TableWork(running=(task(8, NOW - 9), task(5, NOW - 7), task(8, NOW)))
    decision = decide_expiry(table_input(table(work), LIMITS, NOW))
    order, kept = expiry_order(table_input(table(work), agreed(min_snapshots=4), NOW), decision)
    assert order.protected_snapshot_ids == (5, 8)
    assert (order.retain_last, order.older_than_ms) == (4, NOW - 5 * DAY_MS)
    assert order.task_id == kept.task_id == task_id("u", "main", "0", "expire", 77)
    assert kept.deadline_ms == NOW + DEADLINE_MS


def test_the_next_round_at_the_same_head_is_another_task() -> None:
    first = table_input(table(), LIMITS, NOW)
    order, kept = expiry_order(first, decide_expiry(first))
    ended = table(TableWork(expiry=expiry_ended(kept, 3, "", NOW)))
    second = table_input(ended, LIMITS, NOW + DAY_MS)
    again, _ = expiry_order(second, decide_expiry(second))
    assert again.task_id != order.task_id


def test_rounds_that_expire_nothing_are_counted_until_one_does() -> None:
    work = expiry_ended(expiry_ended(ExpiryWork(task_id="x"), 0, "", 1), 0, "no", 2)
    assert (work.fruitless, work.rounds, work.refused, work.task_id) == (2, 2, "no", None)
    assert expiry_ended(work, 1, "", 3).fruitless == 0


def left(of_it: Table) -> int | None:
    return of_it.counters.snapshot_count


def test_what_our_expiry_did_is_not_taken_off_twice() -> None:
    ours = table(expiry(task_id="x"))
    told_first = after_expired(ours, 4)
    ended = replace(told_first.work, expiry=expiry_ended(told_first.work.expiry, 4, "", NOW))
    assert (left(told_first), ended.expiry.unobserved) == (9, 0)
    told_last = after_expired(table(TableWork(expiry=expiry_ended(ExpiryWork(), 4, "", NOW))), 4)
    assert (left(told_last), told_last.work.expiry.unobserved) == (9, 0)


def test_after_anothers_expiry_the_number_is_unknown() -> None:
    assert left(after_expired(table(), 4)) is None


def test_a_clock_that_was_set_back_does_not_stop_expiry() -> None:
    ahead = table(TableWork(expiry=expiry_ended(ExpiryWork(), 3, "", NOW + 3_600_000)))
    assert decide_expiry(table_input(ahead, LIMITS, NOW)).reason is ExpiryReason.OLD_SNAPSHOTS


# ---- careful, as by default

CAREFUL = Thresholds()


def announced(at_ms: int) -> TableWork:
    told = expired(
        "x", table().counters.table, 0, 9, OLD,
        finished_at_ms=at_ms, begins_at_ms=at_ms, going_snapshots=4, going_files=7,
    )  # fmt: skip
    work = after_announcement(ExpiryWork(task_id="x"), told, at_ms)
    return TableWork(expiry=work)


def test_a_table_is_told_of_before_anything_goes() -> None:
    decision = decide_expiry(table_input(table(), CAREFUL, NOW))
    assert decision.reason is ExpiryReason.ANNOUNCED
    order, out = expiry_order(table_input(table(), CAREFUL, NOW), decision)
    assert order.begins_at_ms == NOW + DAY_MS
    assert order.older_than_ms == NOW + DAY_MS - 5 * DAY_MS  # what will have gone then
    assert (order.agreed, out.announced_ms) == (False, None)


def test_the_grace_period_runs_from_the_announcement() -> None:
    told = table(announced(NOW))
    assert told.work.expiry.going == ExpiryPreview(4, 7)
    early = decide_expiry(table_input(told, CAREFUL, NOW + DAY_MS - 1))
    assert (early.reason, early.until_ms) == (ExpiryReason.GRACE_PERIOD, NOW + DAY_MS)
    begun = decide_expiry(table_input(told, CAREFUL, NOW + DAY_MS))
    assert begun.reason is ExpiryReason.OLD_SNAPSHOTS
    order, _ = expiry_order(table_input(told, CAREFUL, NOW + DAY_MS), begun)
    assert (order.begins_at_ms, order.announced_at_ms, order.grace_ms) == (None, NOW, DAY_MS)


def test_a_table_that_was_always_here_is_told_in_time_and_loses_none() -> None:
    young = table(oldest_snapshot_ms=NOW - 4 * DAY_MS + 1)
    assert decide_expiry(table_input(young, CAREFUL, NOW)).reason is ExpiryReason.NOTHING_OLD_ENOUGH
    due = NOW + DAY_MS + 2
    decision = decide_expiry(table_input(young, CAREFUL, NOW + 2))
    assert (decision.reason, decision.begins_ms) == (ExpiryReason.ANNOUNCED, due)
    told = replace(young, work=announced(NOW + 2))
    assert decide_expiry(table_input(told, CAREFUL, due)).reason is ExpiryReason.OLD_SNAPSHOTS


def test_a_lost_state_begins_the_grace_period_once_more_and_no_longer() -> None:
    """What is lost is the announcement, too: it is made again, and then the day runs once."""
    lost, at = table(), NOW + DAY_MS
    assert decide_expiry(table_input(lost, CAREFUL, at)).reason is ExpiryReason.ANNOUNCED
    again = table(announced(at))
    for hour in range(24):  # looks, restarts and rounds of others do not begin it anew
        assert begins_ms(table_input(again, CAREFUL, at + hour * HOUR_MS)) == at + DAY_MS
    assert (
        decide_expiry(table_input(again, CAREFUL, at + DAY_MS)).reason is ExpiryReason.OLD_SNAPSHOTS
    )


def test_rounds_that_follow_are_not_announced_again() -> None:
    first = announced(NOW).expiry
    work = TableWork(expiry=expiry_ended(replace(first, task_id="y"), 4, "", NOW + DAY_MS))
    decision = decide_expiry(table_input(table(work), CAREFUL, NOW + 2 * DAY_MS))
    assert decision.reason is ExpiryReason.OLD_SNAPSHOTS


def test_an_announcement_by_a_clock_that_was_ahead_is_made_again() -> None:
    ahead = table(announced(NOW + 365 * DAY_MS))
    assert decide_expiry(table_input(ahead, CAREFUL, NOW)).reason is ExpiryReason.ANNOUNCED


TRUE = {"firnline.expire.enabled": "true"}


@pytest.mark.parametrize(
    ("counters", "limits", "reason"),
    [
        ({"has_external_files": True}, CAREFUL, ExpiryReason.EXTERNAL_FILES),
        (
            {"has_external_files": True},
            LIMITS,
            ExpiryReason.EXTERNAL_FILES,
        ),  # the fleet's word is not enough
        ({"has_external_files": True, "settings": TRUE}, LIMITS, ExpiryReason.OLD_SNAPSHOTS),
        ({"settings": {"migrated": "true"}}, CAREFUL, ExpiryReason.EXTERNAL_FILES),
        ({"settings": {"snapshot": "True"}}, CAREFUL, ExpiryReason.EXTERNAL_FILES),
        ({"settings": {"migrated": "true", **TRUE}}, LIMITS, ExpiryReason.OLD_SNAPSHOTS),
        ({}, Thresholds(expire=ExpiryMode.NEVER), ExpiryReason.NEVER),
        ({}, Thresholds(shadow=True), Reason.SHADOW),
    ],
)
def test_who_has_to_agree(counters: dict[str, Any], limits: Thresholds, reason: ReasonCode) -> None:
    assert decide_expiry(table_input(table(**counters), limits, NOW)).reason is reason


def test_a_refusal_is_forgotten_when_the_settings_change() -> None:
    work = expiry_ended(ExpiryWork(), 0, "external_files", NOW)
    again = decide_expiry(
        table_input(table(TableWork(expiry=retry_allowed(work))), LIMITS, NOW + 1)
    )
    assert again.reason is ExpiryReason.OLD_SNAPSHOTS


# ---- what whoever carries it out looks at again

ORDER = expire("e", table().counters.table, OLD, NOW, grace_ms=DAY_MS)
ANNOUNCED = replace(ORDER, announced_at_ms=NOW - DAY_MS)
AGREED = replace(ORDER, agreed=True)


@pytest.mark.parametrize(
    ("order", "settings", "reason"),
    [
        (ORDER, {}, "grace_period"),  # nobody was told
        (ANNOUNCED, {}, None),
        (replace(ANNOUNCED, announced_at_ms=NOW - DAY_MS + 1), {}, "grace_period"),
        (replace(ANNOUNCED, announced_at_ms=NOW + 1), {}, "grace_period"),
        (ANNOUNCED, {"firnline.expire.grace-ms": str(2 * DAY_MS)}, "grace_period"),  # said since
        (replace(ORDER, begins_at_ms=NOW + DAY_MS), {}, None),  # it only looks
        (ORDER, TRUE, None),
        (AGREED, {}, None),
        (AGREED, {"firnline.expire.enabled": "false"}, "expire_disabled"),
        (ANNOUNCED, {"namespace:firnline.expire.enabled": "false"}, "expire_disabled"),
        (AGREED, {"firnline.enabled": "false"}, "disabled"),
        (AGREED, {"gc.enabled": "false"}, "gc_disabled"),
        (AGREED, {"gc.enabled": "no"}, "gc_disabled"),  # as Java reads it
        (AGREED, {"migrated": "true"}, "external_files"),
        (AGREED, {"migrated": "true", "namespace:firnline.expire.enabled": "true"},
         "external_files"),
        (AGREED, {"migrated": "true", **TRUE}, None),
    ],
)  # fmt: skip
def test_an_order_is_only_an_order(
    order: ExpireSnapshots, settings: dict[str, str], reason: str | None
) -> None:
    assert refusal_reason(order, settings, NOW) == reason


def test_retention_that_was_prolonged_after_the_order_holds() -> None:
    assert configured_retention({}) == (0, 1)
    assert configured_retention({"firnline.retain.hours": "720"}) == (30 * DAY_MS, 1)
    said = {
        "namespace:history.expire.max-snapshot-age-ms": "5000",
        "history.expire.min-snapshots-to-keep": "7",
    }
    assert configured_retention(said) == (5_000, 7)
