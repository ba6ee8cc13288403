"""One contract for the console's read model, held by the twin in memory and by Redis itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from firnline_console.in_memory import MemoryReadModel
from firnline_console.keys import Keys
from firnline_console.listing import BadQuery, Query
from firnline_console.readmodel import Built, Limits, ReadModel, ViewLost
from firnline_console.redis_model import RedisReadModel
from firnline_domain.identity import TableName
from firnline_domain.records.events import TableChange
from firnline_domain.values import replace

from tests.examples import make

LIMITS = Limits(events=5, tasks=3, letters=2, dropped=1)
FIRST = Built("first", 1_000)


@dataclass
class Bench:
    """A model with a first generation in force, and a way to lose everything."""

    model: ReadModel
    lose: Callable[[], None]

    def tell(self, *facts: Any) -> None:
        self.model.apply(FIRST.generation, facts)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.stack)])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "memory":
        twin = MemoryReadModel(LIMITS)
        twin.begin(FIRST, replace=False)
        return Bench(twin, twin.lose)
    client = redis.Redis.from_url(request.getfixturevalue("redis_url"), decode_responses=True)
    keys = Keys(f"t{uuid.uuid4().hex}:view:")
    model = RedisReadModel(client, keys, LIMITS)
    model.begin(FIRST, replace=False)

    def lose() -> None:
        client.delete(*keys.all(), keys["seq"])

    return Bench(model, lose)


def table(number: int, name: str = "") -> TableName:
    return TableName(f"uuid-{number}", ("shop",), name or f"t{number}")


def order(number: int, at_ms: int = 10, **changes: Any) -> Any:
    return make("rewrite_files/compact", task_id=f"task-{number}", ordered_at_ms=at_ms, **changes)


def commit(number: int, at_ms: int, **changes: Any) -> Any:
    return make(
        "rewrite_committed/native", task_id=f"task-{number}", committed_at_ms=at_ms, **changes
    )


def dropped(number: int, at_ms: int) -> Any:
    return make(
        "table_committed/dropped",
        event_id=f"drop-{number}",
        table=table(number),
        committed_at_ms=at_ms,
    )


def listed(bench: Bench, **query: Any) -> list[str]:
    """Uuids of a page of tables."""
    page, views = bench.model.tables(Query(**query))
    assert [one.uuid for one in views] == page.uuids
    return page.uuids


def told(model: ReadModel) -> list[str]:
    return [one.event.id for one in model.events(None, 100)]


def test_nothing_is_known_at_first(bench: Bench) -> None:
    assert bench.model.totals(0) == {"tasks_running": 0, "tasks_overdue": 0}
    assert listed(bench) == []
    assert bench.model.table("shop.orders") is None
    assert bench.model.states("x").refs == {}
    assert bench.model.task("x") is None
    assert bench.model.tasks(10) == bench.model.letters(10) == bench.model.events(None, 10) == []


def test_documents_come_back_as_they_were_folded(bench: Bench) -> None:
    state, twin = make("table_state/in_flight"), MemoryReadModel()
    facts = [
        state,
        make("table_committed/upsert"),
        make("files_changed/upsert"),
        make("rewrite_files/compact"),
        make("expire_snapshots/old_snapshots"),
        make("rewrite_conflicted/new_position_deletes"),
        make("dead_lettered/unknown_schema"),
    ]
    twin.begin(FIRST, replace=False)
    twin.apply(FIRST.generation, facts)
    bench.tell(*facts)
    uuid_ = state.table.uuid
    assert bench.model.table(uuid_) == twin.table(uuid_)
    assert bench.model.states(uuid_).refs == {"main": state}
    assert bench.model.tasks(10) == twin.tasks(10)
    assert bench.model.letters(10) == twin.letters(10)
    assert bench.model.totals(0) == twin.totals(0)


def test_told_twice_is_told_once(bench: Bench) -> None:
    facts = [order(1), commit(1, 20), make("table_state/in_flight"), dropped(1, 9)]
    bench.tell(*facts)
    before = (bench.model.totals(0), bench.model.events(None, 100), bench.model.tasks(10))
    bench.tell(*facts)
    bench.tell(*facts, *facts)
    after = (bench.model.totals(0), bench.model.events(None, 100), bench.model.tasks(10))
    assert after == before


def test_totals_follow_the_documents(bench: Bench) -> None:
    state = make("table_state/in_flight")
    bench.tell(state)
    assert bench.model.totals(0)["data_files"] == 1
    bench.tell(replace(state, table=table(2)))
    assert (bench.model.totals(0)["tables"], bench.model.totals(0)["debt_files"]) == (2, 4)
    bench.tell(dropped(2, 2**42))
    found = bench.model.totals(0)
    assert (found["tables"], found["tables_dropped"], found["data_files"]) == (1, 1, 1)


def test_tasks_run_until_their_deadline(bench: Bench) -> None:
    bench.tell(order(1, deadline_ms=100), order(2, deadline_ms=200), order(3, deadline_ms=300))
    bench.tell(commit(3, 50))
    found = bench.model.totals(150)
    assert (found["tasks_running"], found["tasks_overdue"]) == (1, 1)
    assert [one.task_id for one in bench.model.open_tasks(9)] == ["task-1", "task-2"]
    assert [one.task_id for one in bench.model.open_tasks(1)] == ["task-1"]
    assert found["tasks_committed"] == 1


def test_a_table_is_found_by_name_and_by_uuid(bench: Bench) -> None:
    bench.tell(make("table_state/in_flight", table=table(1)))
    by_name, by_uuid = bench.model.table("shop.t1"), bench.model.table("uuid-1")
    assert by_name is not None
    assert by_name == by_uuid
    assert bench.model.table("shop.t") is None
    assert bench.model.table("shop.t11") is None


def test_a_renamed_table_leaves_its_old_name(bench: Bench) -> None:
    bench.tell(make("table_committed/upsert", table=table(1), committed_at_ms=10))
    renamed = make(
        "table_committed/upsert",
        table=table(1, "new"),
        change=TableChange.RENAMED,
        committed_at_ms=20,
    )
    bench.tell(renamed)
    assert bench.model.table("shop.t1") is None
    assert bench.model.table("shop.new") == bench.model.table("uuid-1")


@pytest.mark.parametrize("old_first", [True, False])
def test_a_name_used_again_is_the_new_table(bench: Bench, old_first: bool) -> None:
    old = [make("table_committed/upsert", table=table(1, "t"), committed_at_ms=10)]
    old.append(replace(dropped(1, 20), table=table(1, "t")))
    # Two clocks: the new one is seen before the old one goes.
    new = [make("table_committed/upsert", table=table(2, "t"), committed_at_ms=15)]
    for fact in (*old, *new) if old_first else (*new, *old):
        bench.tell(fact)
    found = bench.model.table("shop.t")
    assert found is not None
    assert found.uuid == "uuid-2"
    assert listed(bench) == ["uuid-2"]


def test_the_deepest_in_debt_comes_first(bench: Bench) -> None:
    state = make("table_state/in_flight")
    deep = replace(state, table=table(2), debt_files=4)
    bench.tell(replace(state, table=table(1)), deep, replace(state, table=table(3)))
    page, views = bench.model.tables(Query())
    assert [view.summary and view.summary.debt_files for view in views] == [4, 2, 2]
    assert (page.matched, page.total, page.statuses) == (3, 3, {"working": 3})
    assert listed(bench, limit=1) == ["uuid-2"]


def test_tables_are_found_sorted_and_paged_by_the_store(bench: Bench) -> None:
    state = make("table_state/in_flight")
    for number in range(5):
        bench.tell(replace(state, table=table(number), debt_files=number % 3))
    bench.tell(replace(state, table=TableName("uuid-9", ("ops", "raw"), "audit"), statuses={}))
    assert listed(bench, text="T3") == ["uuid-3"]
    assert listed(bench, namespace="ops") == ["uuid-9"]
    assert listed(bench, namespace="op") == []
    assert listed(bench, status="waiting") == ["uuid-9"]
    assert listed(bench, sort="table") == [f"uuid-{n}" for n in (9, 0, 1, 2, 3, 4)]
    first, _ = bench.model.tables(Query(sort="-debt", limit=2))
    second, _ = bench.model.tables(Query(sort="-debt", limit=2, cursor=first.cursor or ""))
    bench.tell(dropped(9, 2**42))  # of the first page: no table moves off the third
    third, _ = bench.model.tables(Query(sort="-debt", limit=2, cursor=second.cursor or ""))
    found = [first.uuids, second.uuids, third.uuids]
    assert found == [["uuid-9", "uuid-2"], ["uuid-4", "uuid-1"], ["uuid-3", "uuid-0"]]
    assert third.cursor is None
    for wrong in ({"sort": "colour"}, {"cursor": "nonsense"}):
        with pytest.raises(BadQuery):
            bench.model.tables(Query(**wrong))


def test_a_row_follows_its_table_and_a_rebuild(bench: Bench) -> None:
    """A store may keep rows: they are those of the newest state, and of this generation."""
    state = make("table_state/in_flight")
    bench.tell(replace(state, table=table(1)), replace(state, table=table(2)))
    assert listed(bench, sort="-files") == ["uuid-2", "uuid-1"]
    later = replace(state, table=table(1), holds=state.holds + state.holds, updated_at_ms=2**42)
    bench.tell(later)
    assert listed(bench, sort="-files") == ["uuid-1", "uuid-2"]
    bench.model.begin(Built("second", 2_000), replace=True)
    bench.model.apply("second", [replace(state, table=table(3))])
    assert listed(bench) == ["uuid-3"]


def test_tasks_come_newest_first_of_all_or_of_one_table(bench: Bench) -> None:
    bench.tell(order(1, 10, table=table(1)), order(2, 30, table=table(2)))
    bench.tell(order(3, 20, table=table(1)))
    assert [one.task_id for one in bench.model.tasks(10)] == ["task-2", "task-3", "task-1"]
    assert [one.task_id for one in bench.model.tasks(10, "uuid-1")] == ["task-3", "task-1"]
    bench.tell(commit(1, 40, table=table(1)))
    assert [one.task_id for one in bench.model.tasks(10, "uuid-1")] == ["task-1", "task-3"]
    assert [one.task_id for one in bench.model.tasks(1, "uuid-1")] == ["task-1"]


def test_lists_are_bounded_and_the_oldest_go(bench: Bench) -> None:
    bench.tell(*(order(n, at_ms=n, table=table(1)) for n in range(6, 0, -1)))
    assert [one.task_id for one in bench.model.tasks(10)] == ["task-6", "task-5", "task-4"]
    assert [one.task_id for one in bench.model.tasks(10, "uuid-1")][-1] == "task-4"
    assert bench.model.totals(0)["tasks_running"] == 3
    assert told(bench.model) == [f"order:task-{n}:1" for n in range(2, 7)]
    for n in range(3):
        bench.tell(make("dead_lettered/unknown_schema", offset=n, at_ms=n))
    assert [one.offset for one in bench.model.letters(10)] == [2, 1]
    bench.tell(dropped(1, 10), dropped(2, 20))
    assert bench.model.table("shop.t1") is None
    assert bench.model.table("shop.t2") is not None


@pytest.mark.stack
def test_nothing_hangs_on_what_was_trimmed(redis_url: str) -> None:
    """Of Redis alone: what no reader sees still takes memory."""
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    keys = Keys(f"t{uuid.uuid4().hex}:view:")
    model = RedisReadModel(client, keys, LIMITS)
    model.begin(FIRST, replace=False)
    model.apply(FIRST.generation, [order(n, at_ms=n, table=table(1)) for n in range(9)])
    model.apply(FIRST.generation, [dropped(n, at_ms=n) for n in range(4)])
    sorted_sets = ("tasks", "open-tasks", "table-tasks", "dropped", "names", "events")
    hashes = ("task-docs", "table-docs", "event-docs", "members")
    sizes = [client.zcard(keys[name]) for name in (*sorted_sets, "event-order")]
    assert sizes == [3, 3, 3, 1, 1, 5, 5]
    assert [client.hlen(keys[name]) for name in hashes] == [3, 1, 5, 4]


def test_a_record_rejected_again_by_a_rebuild_is_one_letter(bench: Bench) -> None:
    for at_ms, generation in ((20, "b"), (10, "a"), (30, "c")):
        service = f"firnline-console-{generation}"
        bench.tell(make("dead_lettered/unknown_schema", service=service, at_ms=at_ms))
    [letter] = bench.model.letters(10)
    assert (letter.service, letter.at_ms) == ("console", 10)
    assert bench.model.totals(0)["dead_letters"] == len(told(bench.model)) == 1


def test_a_cursor_sees_every_later_arrival_once(bench: Bench) -> None:
    bench.tell(order(1, at_ms=50))
    [first] = bench.model.events(None, 10)
    bench.tell(order(2, at_ms=10), order(1, at_ms=50))  # older by its time, later by its arrival
    [second] = bench.model.events(first.number, 10)
    assert bench.model.cursor() == second.number
    assert second.event.id == "order:task-2:1"
    assert second.number > first.number
    assert bench.model.events(second.number, 10) == []
    assert told(bench.model) == ["order:task-2:1", "order:task-1:1"]


def test_a_rebuild_clears_and_cursors_go_on(bench: Bench) -> None:
    bench.tell(order(1), make("table_state/in_flight"))
    [*_, last] = bench.model.events(None, 10)
    assert bench.model.begin(Built("second", 500), replace=True).generation == "second"
    assert listed(bench) == bench.model.tasks(10) == bench.model.events(None, 9) == []
    assert bench.model.totals(0) == {"tasks_running": 0, "tasks_overdue": 0}
    bench.model.apply("second", [order(1)])
    assert len(bench.model.events(last.number, 10)) == 1


def test_a_store_without_its_data_says_so(bench: Bench) -> None:
    bench.tell(order(1))
    [event] = bench.model.events(None, 10)
    bench.lose()
    assert bench.model.built() is None
    with pytest.raises(ViewLost):
        bench.tell(order(2))
    later = Built("second", event.number + 1)
    assert bench.model.begin(later, replace=False) == later
    bench.model.apply("second", [order(1)])
    assert bench.model.events(None, 10)[0].number > event.number


def test_a_generation_in_force_stays_unless_replaced(bench: Bench) -> None:
    bench.tell(order(1))
    assert bench.model.begin(Built("second", 2_000), replace=False) == FIRST
    assert bench.model.built() == FIRST
    assert len(bench.model.tasks(10)) == 1


def test_an_old_generation_writes_no_more(bench: Bench) -> None:
    bench.model.begin(Built("second", 2_000), replace=True)
    with pytest.raises(ViewLost):
        bench.tell(order(1))
    assert bench.model.tasks(10) == []


def test_switches_are_shown_while_they_are_pulled(bench: Bench) -> None:
    """The fleet's order is in every partition, and partitions are read in any order."""
    fleet, one = make("pause_maintenance/fleet"), make("pause_maintenance/table")
    resumed = make("resume_maintenance/fleet")
    bench.tell(one, fleet, fleet)
    assert [(view.table, view.by, view.reason) for view in bench.model.pauses()] == [
        ("", "ops", "storage migration"),
        ("shop.orders", "ops", ""),
    ]
    bench.tell(resumed, fleet)
    assert [view.table for view in bench.model.pauses()] == ["shop.orders"]
    assert len([one for one in bench.model.events(None, 5) if one.event.kind == "operator"]) == 3


def word(rule: str, at_ms: int, withdrawn: bool = False, number: int = 1) -> Any:
    path = "table_advice/withdrawn" if withdrawn else "table_advice/tiny_partitions"
    return make(path, table=table(number), rule=rule, since_ms=at_ms, at_ms=at_ms)


def listing(rules: tuple[str, ...], at_ms: int, number: int = 1, **more: Any) -> Any:
    return make(
        "table_state/in_flight", table=table(number), advised=rules, updated_at_ms=at_ms, **more
    )


def advised(bench: Bench) -> dict[str, list[str]]:
    found = {view.uuid: [one.rule for one in view.holding] for view in bench.model.advice(10)}
    for table_uuid, rules in found.items():
        of_one = bench.model.advice_of(table_uuid)
        assert of_one is not None
        assert [one.rule for one in of_one.holding] == rules
    return found


def test_advice_is_listed_by_table_those_with_most_of_it_first(bench: Bench) -> None:
    bench.tell(word("a", 1), listing(("a",), 1))
    bench.tell(word("a", 1, number=2), word("b", 1, number=2), listing(("a", "b"), 1, number=2))
    assert list(advised(bench).items()) == [("uuid-2", ["a", "b"]), ("uuid-1", ["a"])]
    assert [view.uuid for view in bench.model.advice(1)] == ["uuid-2"]
    assert bench.model.totals(0)["advice"] == 3
    assert bench.model.advice_of("uuid-3") is None


def test_advice_that_is_withdrawn_is_gone_in_whatever_order_it_is_told(bench: Bench) -> None:
    bench.tell(listing(("a",), 1), word("a", 3, withdrawn=True), word("a", 1))
    assert advised(bench) == {}
    bench.tell(word("a", 4))
    assert advised(bench) == {"uuid-1": ["a"]}


def test_advice_that_the_planner_does_not_list_any_more_is_gone(bench: Bench) -> None:
    """It has lost its state, and withdraws nothing that it does not know of."""
    bench.tell(word("a", 1), listing(("a",), 1), word("b", 1), listing(("b",), 5))
    assert advised(bench) == {"uuid-1": ["b"]}
    bench.tell(word("a", 6))
    assert advised(bench) == {"uuid-1": ["b", "a"]}


def test_advice_about_a_table_that_is_gone_is_gone(bench: Bench) -> None:
    bench.tell(word("a", 1), listing(("a",), 1))
    bench.tell(listing(("a",), 2, removed=True))
    assert advised(bench) == {}
    bench.tell(dropped(1, 3), dropped(2, 4))  # the first is trimmed
    assert bench.model.advice_of("uuid-1") is None
