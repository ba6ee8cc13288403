"""Who waits behind whom, and for how long."""

from __future__ import annotations

from firnline_listener.core.known_tables import Place
from firnline_listener.core.queue import FIRST_REST_S, LookQueue, PlaceLook
from firnline_listener.core.settlements import Ring, Settlements


def table(name: str) -> Place:
    return Place("lake", ("db",), name)


def begin(queue: LookQueue, now: float = 0.0) -> PlaceLook:
    look = queue.next_look(now)
    assert look is not None
    return look


def test_doorbells_of_one_table_cost_one_look() -> None:
    queue, rings = LookQueue(), [Ring(number) for number in range(5)]
    for ring in rings:
        queue.ring(table("t"), "kafka", ring, 0.0)
    look = begin(queue)
    assert queue.next_look(0.0) is None
    queue.end_look(look, 1.0, failed=False)
    assert all(ring.is_done for ring in rings)


def test_a_doorbell_during_a_look_is_one_more_look() -> None:
    queue, late = LookQueue(), Ring("late")
    queue.ring(table("t"), "kafka", None, 0.0)
    look = begin(queue)
    queue.ring(table("t"), "kafka", late, 0.5)
    queue.end_look(look, 1.0, failed=False)
    assert not late.is_done  # the catalog may have answered before
    queue.end_look(begin(queue), 2.0, failed=False)
    assert late.is_done
    assert queue.next_look(2.0) is None


def test_sources_take_turns() -> None:
    queue = LookQueue()
    for number in range(100):
        queue.ring(table(f"flood-{number}"), "webhooks", None, 0.0)
    for source in ("webhooks", "kafka", "kafka"):
        queue.ring(table("mine"), source, None, 0.0)
    assert [begin(queue).place.name for _ in range(2)] == ["flood-0", "mine"]
    assert sum(queue.next_look(0.0) is not None for _ in range(200)) == 99


def test_a_place_that_fails_rests_and_its_doorbells_are_dealt_with() -> None:
    queue, first, second = LookQueue(), Ring(1), Ring(2)
    queue.ring(table("bad"), "kafka", first, 0.0)
    look = begin(queue)
    queue.end_look(look, 0.1, failed=True)
    queue.ring(table("bad"), "kafka", second, 1.0)
    assert (first.is_done, second.is_done) == (True, True)
    queue.ring(table("good"), "kafka", None, 1.0)
    assert begin(queue, 1.0).place.name == "good"
    assert queue.next_look(FIRST_REST_S) is None
    again = begin(queue, FIRST_REST_S + 0.2)  # by itself
    assert again.place.name == "bad"
    queue.end_look(again, FIRST_REST_S + 0.3, failed=True)
    assert queue.next_look(2 * FIRST_REST_S) is None  # it rests twice as long


def test_a_place_that_hangs_has_a_thread_for_a_small_share_of_the_time() -> None:
    queue = LookQueue()
    queue.ring(table("hangs"), "kafka", None, 0.0)
    queue.end_look(begin(queue), 30.0, failed=True)
    assert queue.next_look(30.0 + 599) is None
    assert queue.next_look(30.0 + 601) is not None


def test_a_source_hears_of_doorbells_in_its_order() -> None:
    settlements = Settlements()
    first, second, third = (settlements.begin(number) for number in (1, 2, 3))
    second.is_done = third.is_done = True
    assert settlements.take_settled() is None
    first.is_done = True
    assert settlements.take_settled() is third
    assert len(settlements) == 0
