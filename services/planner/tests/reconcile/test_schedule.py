"""What is due, and what is not any more."""

from __future__ import annotations

from firnline_domain.base.times import earliest_of
from firnline_planner.reconcile.schedule import Schedule


def test_due_keys_come_earliest_first_and_once() -> None:
    schedule: Schedule[bytes] = Schedule()
    for key, due_ms in ((b"c", 30), (b"a", 10), (b"b", 20)):
        schedule.set_due(key, due_ms)
    assert schedule.take_due(5) == []
    assert schedule.take_due(20) == [b"a", b"b"]
    assert schedule.take_due(20) == []
    assert (schedule.take_due(99), len(schedule)) == ([b"c"], 0)


def test_the_last_plan_of_a_key_holds() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.set_due("later", 10)
    schedule.set_due("later", 50)
    schedule.set_due("sooner", 50)
    schedule.set_due("sooner", 10)
    schedule.set_due("never", 10)
    schedule.set_due("never", None)
    assert schedule.take_due(20) == ["sooner"]
    assert schedule.take_due(60) == ["later"]


def test_a_key_taken_can_be_planned_for_the_same_moment_again() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.set_due("a", 10)
    assert schedule.take_due(10) == ["a"]
    schedule.set_due("a", 10)
    assert schedule.take_due(10) == ["a"]


def test_keys_that_do_not_compare_may_share_a_moment() -> None:
    schedule: Schedule[complex] = Schedule()
    schedule.set_due(1j, 10)
    schedule.set_due(2j, 10)
    assert schedule.take_due(10) == [1j, 2j]


def test_earliest() -> None:
    assert earliest_of(None, 7, 3, None) == 3
    assert earliest_of(None) is None
