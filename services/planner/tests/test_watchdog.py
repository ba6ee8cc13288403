"""What stands still is noticed; what has nothing to do is not."""

from __future__ import annotations

from collections.abc import Hashable

from firnline_planner.watchdog import Watchdog


def looks(marks: list[Hashable | None], stall_s: float = 30.0) -> list[str]:
    """Complaints over one look every 10 s."""
    found: list[str] = []
    following = iter(marks)
    dog = Watchdog({"commits": lambda: next(following)}, stall_s, found.append)
    for _ in marks:
        dog.check_progress(10.0)
    return found


def test_progress_is_no_stall() -> None:
    assert looks([1, 2, 3, 4, 5, 6, 7]) == []


def test_a_mark_that_stays_is_a_stall() -> None:
    assert looks([1, 1, 1]) == []
    assert looks([1, 1, 1, 1]) == ["no progress in commits for 30 s"]


def test_a_step_starts_the_time_anew() -> None:
    assert looks([1, 1, 1, 2, 2, 2]) == []


def test_nothing_to_do_is_no_stall() -> None:
    assert looks([None] * 9) == []
    assert looks([1, 1, None, 1, 1, 1]) == []


def test_each_sign_is_watched_by_itself() -> None:
    found: list[str] = []
    moving = iter(range(9))
    signs = {"events": lambda: next(moving), "commits": lambda: 7}
    dog = Watchdog(signs, 20.0, found.append)
    for _ in range(3):
        dog.check_progress(10.0)
    assert found == ["no progress in commits for 20 s"]
