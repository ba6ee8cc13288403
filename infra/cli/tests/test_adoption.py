"""`firnline adopt` with the twins of catalog and broker: order, pace, and being started again."""

from __future__ import annotations

from itertools import count, pairwise

import pytest
from firnline_adapters.in_memory import MemoryPublisher
from firnline_cli.adoption.requests import (
    SLOW_S,
    AdoptionStopped,
)
from firnline_cli.adoption.run import UNREAD_IN_A_ROW
from firnline_domain.base.values import replace
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.orders import ResyncTable

from infra.cli.tests.adoption_world import REQUESTS, World, named


@pytest.fixture
def world() -> World:
    world = World()
    for name, weight in (("db.fair", 1.0), ("db.worst", 9.0), ("other.bad", 5.0), ("db.fine", 0.0)):
        world.lake.put(name, weight)
    return world


def test_all_are_asked_for_the_worst_first(world: World) -> None:
    adoption = world.adopt()
    assert world.told.adopted == ["worst", "bad", "fair", "fine"]
    assert [one.table.name for one in world.requests] == world.told.adopted
    [first, *_] = world.requests
    assert (first.known_snapshot_id, first.ref, first.reason) == (None, MAIN, "adopted")
    assert (adoption.tally.listed, adoption.tally.asked, world.told.count) == (4, 4, 4)


def test_never_faster_than_the_rate(world: World) -> None:
    world.adopt(interval_s=30.0)
    times = [one.requested_at_ms for one in world.requests]
    assert [after - before for before, after in pairwise(times)] == [30_000] * 3
    assert world.told.left[0][:2] == (1, 3)
    assert world.told.left[-1] == (4, 0, 0.0)


def test_what_was_missed_while_others_were_slow_is_not_made_up_for(world: World) -> None:
    world.at_once = 0

    def later() -> None:
        world.at_once = 1_000_000 if world.now_s >= 1_100 else 0

    world.then = later
    world.adopt(interval_s=10.0, waiting=2)
    times = [one.requested_at_ms for one in world.requests]
    assert times[1] - times[0] == 10_000
    assert times[2] - times[0] >= 100_000
    assert times[3] - times[2] >= 10_000


@pytest.mark.parametrize("waiting", [1, 2, 3])
def test_no_more_are_under_way_than_may_be(world: World, waiting: int) -> None:
    world.at_once = 1
    for n in range(20):
        world.lake.put(f"more.t{n}", 2.0)
    world.adopt(interval_s=0.001, waiting=waiting)
    assert len(world.requests) == 24
    assert world.most == waiting


def test_a_planner_that_is_behind_is_waited_for(world: World) -> None:
    """The enricher has dealt with all of it; what it said is not counted yet."""
    world.shows = lambda: world.now_s >= 1_060
    world.adopt(waiting=2)
    times = [one.requested_at_ms for one in world.requests]
    assert times[1] < 1_010_000
    assert times[2] >= 1_060_000


def test_a_request_that_others_have_sent_takes_room_too(world: World) -> None:
    for _ in range(5):
        MemoryPublisher(world.broker).publish(
            REQUESTS, "x", ResyncTable(named(("x", "y")), MAIN, None, None, "missing_parent", 1)
        )
    world.at_once = 0
    with pytest.raises(AdoptionStopped, match="5 requests wait for the enricher"):
        world.adopt(waiting=5)
    assert [kind for kind, _ in world.told.others] == ["waiting"]


def test_without_an_enricher_it_stops_and_says_what_to_do(world: World) -> None:
    world.at_once = 0
    with pytest.raises(AdoptionStopped, match="firnline status"):
        world.adopt(waiting=2)
    assert len(world.requests) == 2
    assert world.now_s > 1_000 + SLOW_S


def test_what_is_known_is_neither_loaded_nor_asked_for(world: World) -> None:
    world.show(named(("db", "worst")))
    adoption = world.adopt()
    assert world.told.adopted == ["bad", "fair", "fine"]
    assert ("db", "worst") not in world.lake.loaded
    assert adoption.tally.known == 1


def test_a_table_that_was_removed_and_came_again_is_new(world: World) -> None:
    world.show(named(("db", "worst")))
    world.show(named(("db", "worst")), removed=True)
    world.adopt()
    assert world.told.adopted[0] == "worst"


def test_a_known_table_under_a_new_name_is_not_asked_for(world: World) -> None:
    world.show(replace(named(("db", "worst")), name="before"))
    adoption = world.adopt()
    assert "worst" not in world.told.adopted
    assert adoption.tally.known == 1


def alike(world: World, one: TableName, other: TableName) -> bool:
    return world.partition(one) == world.partition(other)


@pytest.mark.parametrize(("head", "asked"), [(1, []), (2, ["fair"]), (None, ["fair"])])
def test_a_known_table_that_is_named_is_counted_again_if_it_has_changed(
    world: World, head: int | None, asked: list[str]
) -> None:
    """Its commits were lost with an outbox, or the catalog was restored. Its answer is waited
    for."""
    world.lake.put("db.fair", 1.0, head_snapshot_id=head)
    world.show(named(("db", "fair")))
    world.shows = lambda: world.now_s >= 1_060
    adoption = world.adoption()
    adoption.adopt_all(adoption.find_newcomers([], [("db", "fair")]))
    assert [one.table.name for one in world.requests] == asked
    assert adoption.tally.known == 1 - len(asked)
    assert (world.now_s >= 1_060) is bool(asked)


def test_a_name_that_another_table_has_taken_is_known_for_that_one(world: World) -> None:
    new = named(("db", "worst"))
    uuids = (f"older{n}" for n in count())  # one that is told of in the same partition
    old = next(one for one in (replace(new, uuid=u) for u in uuids) if alike(world, one, new))
    world.show(old)
    world.show(new)
    world.show(replace(old, name="put_aside"))
    world.adopt()
    assert "worst" not in world.told.adopted
    assert ("db", "worst") not in world.lake.loaded


def test_killed_and_started_again_it_goes_on(world: World) -> None:
    world.adopt(most=2)
    world.adopt()
    assert [one.table.name for one in world.requests] == ["worst", "bad", "fair", "fine"]


def test_a_table_that_vanishes_is_told_of_and_left_out(world: World) -> None:
    adoption = world.adoption()
    newcomers = list(adoption.find_newcomers([()], []))
    del world.lake.tables["other", "bad"]
    adoption.adopt_all(newcomers)
    assert world.told.adopted == ["worst", "fair", "fine"]
    assert ("left_out", "other.bad") in world.told.others
    assert (adoption.tally.left_out, adoption.tally.unread) == (1, 0)


def test_a_table_that_the_planner_meets_by_itself_is_left_out(world: World) -> None:
    adoption = world.adoption()
    newcomers = list(adoption.find_newcomers([()], []))
    world.show(named(("db", "fair")))
    adoption.adopt_all(newcomers)
    assert ("left_out", "db.fair") in world.told.others


def test_nothing_is_asked_for_twice_within_a_run(world: World) -> None:
    adoption = world.adoption()
    adoption.adopt_all(adoption.find_newcomers([("db",), ()], [("db", "fair")]))
    assert sorted(one.table.name for one in world.requests) == ["bad", "fair", "fine", "worst"]
    assert all(kind != "left_out" for kind, _ in world.told.others)


def test_manifests_say_who_is_the_worst_where_the_summary_does_not(world: World) -> None:
    world.lake.put("db.unsaid", float("inf"), exact=False)
    world.lake.put("db.seeming", 8.0, exact=False)
    world.lake.exact = {("db", "unsaid"): 2.0, ("db", "seeming"): 0.5}
    world.adopt()
    assert world.told.adopted == ["worst", "bad", "unsaid", "fair", "seeming", "fine"]


@pytest.mark.parametrize("kind", ["broken", "odd"])
def test_many_in_a_row_that_are_odd_stop_nothing(world: World, kind: str) -> None:
    for n in range(2 * UNREAD_IN_A_ROW):
        world.lake.put(f"a.t{n}", 9.0)
        getattr(world.lake, kind).add(("a", f"t{n}"))
    adoption = world.adopt()
    assert sorted(world.told.adopted) == ["bad", "fair", "fine", "worst"]
    assert adoption.tally.unread == 2 * UNREAD_IN_A_ROW


@pytest.mark.parametrize("kind", ["broken", "odd", "away"])
def test_one_table_that_cannot_be_read_stops_nothing(world: World, kind: str) -> None:
    getattr(world.lake, kind).add(("other", "bad"))
    adoption = world.adopt()
    assert world.told.adopted == ["worst", "fair", "fine"]
    assert ("unread", "other.bad") in world.told.others
    assert adoption.tally.unread == 1


def test_many_in_a_row_are_the_catalogs_fault(world: World) -> None:
    for n in range(UNREAD_IN_A_ROW):
        world.lake.put(f"x.t{n}", 1.0)
        world.lake.away.add(("x", f"t{n}"))
    with pytest.raises(AdoptionStopped, match="in a row"):
        world.adopt()
    assert world.requests == []


def test_those_that_get_no_answer_are_told_and_keep_no_place(world: World) -> None:
    for n in range(100):
        world.lake.put(f"more.t{n}", 2.0)
    world.unanswerable = {"worst", "bad", "t60"}  # more than there is room for
    adoption = world.adopt(interval_s=5.0, waiting=3)
    assert len(world.requests) == 104
    assert adoption.requests is not None
    assert [one.name for one in adoption.requests.unanswered] == ["worst", "bad", "t60"]


def test_one_without_an_answer_at_the_end_is_told(world: World) -> None:
    world.unanswerable = {"fine"}
    adoption = world.adopt()
    assert adoption.requests is not None
    assert [one.name for one in adoption.requests.unanswered] == ["fine"]


def test_a_dry_run_asks_for_nothing(world: World) -> None:
    adoption = world.adoption()
    adoption.requests = None
    adoption.adopt_all(adoption.find_newcomers([()], []))
    assert world.told.adopted == ["worst", "bad", "fair", "fine"]
    assert world.requests == []
