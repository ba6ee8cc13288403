"""The console's read model in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from firnline_console.read_model.fold import Key, fold_facts, sums_in, totals_moved, touched_keys
from firnline_console.read_model.listing import BadQuery, Query
from firnline_console.read_model.port import Built, Limits, ReadModel, ViewLost
from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from firnline_domain.records.events import TableChange

from tests.examples import make
from tests.kit.console_model import TestReadModel

pytestmark = pytest.mark.stack

LIMITS = Limits(events=5, tasks=3, letters=2, dropped=1)
FIRST = Built("first", 1_000)


@dataclass
class ReadModelHarness:
    """A model with a first generation in force."""

    model: TestReadModel

    def tell(self, *facts: Any) -> None:
        self.model.apply(FIRST.generation, facts)


@pytest.fixture
def harness(redis_url: str) -> ReadModelHarness:
    model = TestReadModel(redis_url, LIMITS)
    model.begin_generation(FIRST, replace=False)
    return ReadModelHarness(model)


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


def listed(harness: ReadModelHarness, **query: Any) -> list[str]:
    """Uuids of a page of tables."""
    page, views = harness.model.list_tables(Query(**query))
    assert [one.key for one in views] == page.keys
    return page.keys


def told(model: ReadModel) -> list[str]:
    return [one.event.id for one in model.list_events(None, 100)]


def test_nothing_is_known_at_first(harness: ReadModelHarness) -> None:
    model = harness.model
    assert model.read_totals(0) == {"tasks_running": 0, "tasks_overdue": 0}
    assert listed(harness) == []
    assert model.find_table("shop.orders") is None
    assert model.read_states("x").refs == {}
    assert model.find_task("x") is None
    assert model.list_tasks(10) == model.list_dead_letters(10) == model.list_events(None, 10) == []


def test_documents_come_back_as_they_were_folded(harness: ReadModelHarness) -> None:
    state = make("table_state/in_flight")
    facts = [
        state,
        make("table_committed/upsert"),
        make("files_changed/upsert"),
        make("rewrite_files/compact"),
        make("expire_snapshots/old_snapshots"),
        make("rewrite_conflicted/new_position_deletes"),
        make("dead_lettered/unknown_schema"),
    ]
    nothing = dict.fromkeys(key for fact in facts for key in touched_keys(fact))
    docs = fold_facts(nothing, facts).docs
    harness.tell(*facts)
    uuid_ = state.table.uuid
    assert harness.model.find_table(uuid_) == docs[Key("table", uuid_)]
    assert harness.model.read_states(uuid_).refs == {"main": state}
    tasks = {one.task_id: one for one in harness.model.list_tasks(10)}
    assert tasks == {key.id: doc for key, doc in docs.items() if key.kind == "task"}
    assert harness.model.list_dead_letters(10) == [
        doc for key, doc in docs.items() if key.kind == "letter"
    ]
    assert harness.model.read_totals(0).items() >= sums_in(totals_moved(nothing, docs)).items()


def test_told_twice_is_told_once(harness: ReadModelHarness) -> None:
    facts = [order(1), commit(1, 20), make("table_state/in_flight"), dropped(1, 9)]
    harness.tell(*facts)
    model = harness.model
    before = (model.read_totals(0), model.list_events(None, 100), model.list_tasks(10))
    harness.tell(*facts)
    harness.tell(*facts, *facts)
    after = (model.read_totals(0), model.list_events(None, 100), model.list_tasks(10))
    assert after == before


def test_totals_follow_the_documents(harness: ReadModelHarness) -> None:
    state = make("table_state/in_flight")
    harness.tell(state)
    assert harness.model.read_totals(0)["data_files"] == 1
    harness.tell(replace(state, table=table(2)))
    found = harness.model.read_totals(0)
    assert (found["tables"], found["debt_files"]) == (2, 4)
    harness.tell(dropped(2, 2**42))
    found = harness.model.read_totals(0)
    assert (found["tables"], found["tables_dropped"], found["data_files"]) == (1, 1, 1)


def test_tasks_run_until_their_deadline(harness: ReadModelHarness) -> None:
    harness.tell(order(1, deadline_ms=100), order(2, deadline_ms=200), order(3, deadline_ms=300))
    harness.tell(commit(3, 50))
    found = harness.model.read_totals(150)
    assert (found["tasks_running"], found["tasks_overdue"]) == (1, 1)
    assert [one.task_id for one in harness.model.list_open_tasks(9)] == ["task-1", "task-2"]
    assert [one.task_id for one in harness.model.list_open_tasks(1)] == ["task-1"]
    assert found["tasks_committed"] == 1


def test_a_table_is_found_by_name_and_by_uuid(harness: ReadModelHarness) -> None:
    harness.tell(make("table_state/in_flight", table=table(1)))
    by_name, by_uuid = harness.model.find_table("shop.t1"), harness.model.find_table("uuid-1")
    assert by_name is not None
    assert by_name == by_uuid
    assert harness.model.find_table("shop.t") is None
    assert harness.model.find_table("shop.t11") is None
    same = TableName("uuid-1", ("shop",), "t", "archive")
    harness.tell(*(make("table_state/in_flight", table=one) for one in (same, table(11))))
    found = harness.model.list_tables_with_uuid("uuid-1")
    assert [one.key for one in found] == ["uuid-1", same.key]


def test_a_renamed_table_leaves_its_old_name(harness: ReadModelHarness) -> None:
    harness.tell(make("table_committed/upsert", table=table(1), committed_at_ms=10))
    renamed = make(
        "table_committed/upsert",
        table=table(1, "new"),
        change=TableChange.RENAMED,
        renamed_from=("shop", "t1"),
        committed_at_ms=20,
    )
    harness.tell(renamed)
    assert harness.model.find_table("shop.t1") is None
    assert harness.model.find_table("shop.new") == harness.model.find_table("uuid-1")


@pytest.mark.parametrize("old_first", [True, False])
def test_a_name_used_again_is_the_new_table(harness: ReadModelHarness, old_first: bool) -> None:
    old = [make("table_committed/upsert", table=table(1, "t"), committed_at_ms=10)]
    old.append(replace(dropped(1, 20), table=table(1, "t")))
    # Two clocks: the new one is seen before the old one goes.
    new = [make("table_committed/upsert", table=table(2, "t"), committed_at_ms=15)]
    for fact in (*old, *new) if old_first else (*new, *old):
        harness.tell(fact)
    found = harness.model.find_table("shop.t")
    assert found is not None
    assert found.key == "uuid-2"
    assert listed(harness) == ["uuid-2"]


def test_the_deepest_in_debt_comes_first(harness: ReadModelHarness) -> None:
    state = make("table_state/in_flight")
    deep = replace(state, table=table(2), debt_files=4)
    harness.tell(replace(state, table=table(1)), deep, replace(state, table=table(3)))
    page, views = harness.model.list_tables(Query())
    assert [view.summary and view.summary.debt_files for view in views] == [4, 2, 2]
    assert (page.matched, page.total, page.statuses) == (3, 3, {"working": 3})
    assert listed(harness, limit=1) == ["uuid-2"]


def test_tables_are_found_sorted_and_paged_by_the_store(harness: ReadModelHarness) -> None:
    state = make("table_state/in_flight")
    for number in range(5):
        harness.tell(replace(state, table=table(number), debt_files=number % 3))
    harness.tell(replace(state, table=TableName("uuid-9", ("ops", "raw"), "audit"), statuses={}))
    assert listed(harness, text="T3") == ["uuid-3"]
    assert listed(harness, namespace="ops") == ["uuid-9"]
    assert listed(harness, namespace="op") == []
    assert listed(harness, status="waiting") == ["uuid-9"]
    assert listed(harness, sort="table") == [f"uuid-{n}" for n in (9, 0, 1, 2, 3, 4)]
    first, _ = harness.model.list_tables(Query(sort="-debt", limit=2))
    second, _ = harness.model.list_tables(Query(sort="-debt", limit=2, cursor=first.cursor or ""))
    harness.tell(dropped(9, 2**42))  # of the first page: no table moves off the third
    third, _ = harness.model.list_tables(Query(sort="-debt", limit=2, cursor=second.cursor or ""))
    found = [first.keys, second.keys, third.keys]
    assert found == [["uuid-9", "uuid-2"], ["uuid-4", "uuid-1"], ["uuid-3", "uuid-0"]]
    assert third.cursor is None
    for wrong in ({"sort": "colour"}, {"cursor": "nonsense"}):
        with pytest.raises(BadQuery):
            harness.model.list_tables(Query(**wrong))


def test_a_row_follows_its_table_and_a_rebuild(harness: ReadModelHarness) -> None:
    """A store may keep rows: they are those of the newest state, and of this generation."""
    state = make("table_state/in_flight")
    harness.tell(replace(state, table=table(1)), replace(state, table=table(2)))
    assert listed(harness, sort="-files") == ["uuid-2", "uuid-1"]
    later = replace(state, table=table(1), holds=state.holds + state.holds, updated_at_ms=2**42)
    harness.tell(later)
    assert listed(harness, sort="-files") == ["uuid-1", "uuid-2"]
    harness.model.begin_generation(Built("second", 2_000), replace=True)
    harness.model.apply("second", [replace(state, table=table(3))])
    assert listed(harness) == ["uuid-3"]


def test_tasks_come_newest_first_of_all_or_of_one_table(harness: ReadModelHarness) -> None:
    harness.tell(order(1, 10, table=table(1)), order(2, 30, table=table(2)))
    harness.tell(order(3, 20, table=table(1)))
    assert [one.task_id for one in harness.model.list_tasks(10)] == ["task-2", "task-3", "task-1"]
    assert [one.task_id for one in harness.model.list_tasks(10, "uuid-1")] == ["task-3", "task-1"]
    harness.tell(commit(1, 40, table=table(1)))
    assert [one.task_id for one in harness.model.list_tasks(10, "uuid-1")] == ["task-1", "task-3"]
    assert [one.task_id for one in harness.model.list_tasks(1, "uuid-1")] == ["task-1"]


def test_lists_are_bounded_and_the_oldest_go(harness: ReadModelHarness) -> None:
    harness.tell(*(order(n, at_ms=n, table=table(1)) for n in range(6, 0, -1)))
    assert [one.task_id for one in harness.model.list_tasks(10)] == ["task-6", "task-5", "task-4"]
    assert [one.task_id for one in harness.model.list_tasks(10, "uuid-1")][-1] == "task-4"
    assert harness.model.read_totals(0)["tasks_running"] == 3
    assert told(harness.model) == [f"order:task-{n}:1" for n in range(2, 7)]
    for n in range(3):
        harness.tell(make("dead_lettered/unknown_schema", offset=n, at_ms=n))
    assert [one.offset for one in harness.model.list_dead_letters(10)] == [2, 1]
    harness.tell(dropped(1, 10), dropped(2, 20))
    assert harness.model.find_table("shop.t1") is None
    assert harness.model.find_table("shop.t2") is not None


def test_nothing_hangs_on_what_was_trimmed(harness: ReadModelHarness) -> None:
    """What no reader sees still takes memory."""
    model = harness.model
    client, keys = model._client, model._keys
    model.apply(FIRST.generation, [order(n, at_ms=n, table=table(1)) for n in range(9)])
    model.apply(FIRST.generation, [dropped(n, at_ms=n) for n in range(4)])
    sorted_sets = ("tasks", "open-tasks", "table-tasks", "dropped", "names", "events")
    hashes = ("task-docs", "table-docs", "event-docs", "members")
    sizes = [client.zcard(keys[name]) for name in (*sorted_sets, "event-order")]
    assert sizes == [3, 3, 3, 1, 1, 5, 5]
    assert [client.hlen(keys[name]) for name in hashes] == [3, 1, 5, 4]


def test_a_record_rejected_again_by_a_rebuild_is_one_letter(harness: ReadModelHarness) -> None:
    for at_ms, generation in ((20, "b"), (10, "a"), (30, "c")):
        service = f"firnline-console-{generation}"
        harness.tell(make("dead_lettered/unknown_schema", service=service, at_ms=at_ms))
    [letter] = harness.model.list_dead_letters(10)
    assert (letter.service, letter.at_ms) == ("console", 10)
    assert harness.model.read_totals(0)["dead_letters"] == len(told(harness.model)) == 1


def test_a_cursor_sees_every_later_arrival_once(harness: ReadModelHarness) -> None:
    harness.tell(order(1, at_ms=50))
    [first] = harness.model.list_events(None, 10)
    harness.tell(order(2, at_ms=10), order(1, at_ms=50))  # older by its time, later by its arrival
    [second] = harness.model.list_events(first.number, 10)
    assert harness.model.last_event_number() == second.number
    assert second.event.id == "order:task-2:1"
    assert second.number > first.number
    assert harness.model.list_events(second.number, 10) == []
    assert told(harness.model) == ["order:task-2:1", "order:task-1:1"]


def test_a_rebuild_clears_and_cursors_go_on(harness: ReadModelHarness) -> None:
    harness.tell(order(1), make("table_state/in_flight"))
    [*_, last] = harness.model.list_events(None, 10)
    assert harness.model.begin_generation(Built("second", 500), replace=True).generation == "second"
    assert (
        listed(harness) == harness.model.list_tasks(10) == harness.model.list_events(None, 9) == []
    )
    assert harness.model.read_totals(0) == {"tasks_running": 0, "tasks_overdue": 0}
    harness.model.apply("second", [order(1)])
    assert len(harness.model.list_events(last.number, 10)) == 1


def test_a_store_without_its_data_says_so(harness: ReadModelHarness) -> None:
    harness.tell(order(1))
    [event] = harness.model.list_events(None, 10)
    harness.model.lose()
    assert harness.model.current_generation() is None
    with pytest.raises(ViewLost):
        harness.tell(order(2))
    later = Built("second", event.number + 1)
    assert harness.model.begin_generation(later, replace=False) == later
    harness.model.apply("second", [order(1)])
    assert harness.model.list_events(None, 10)[0].number > event.number


def test_a_generation_in_force_stays_unless_replaced(harness: ReadModelHarness) -> None:
    harness.tell(order(1))
    assert harness.model.begin_generation(Built("second", 2_000), replace=False) == FIRST
    assert harness.model.current_generation() == FIRST
    assert len(harness.model.list_tasks(10)) == 1


def test_an_old_generation_writes_no_more(harness: ReadModelHarness) -> None:
    harness.model.begin_generation(Built("second", 2_000), replace=True)
    with pytest.raises(ViewLost):
        harness.tell(order(1))
    assert harness.model.list_tasks(10) == []


def test_switches_are_shown_while_they_are_pulled(harness: ReadModelHarness) -> None:
    """The fleet's order is in every partition, and partitions are read in any order."""
    fleet, one = make("pause_maintenance/fleet"), make("pause_maintenance/table")
    resumed = make("resume_maintenance/fleet")
    harness.tell(one, fleet, fleet)
    assert [(view.table, view.by, view.reason) for view in harness.model.list_pauses()] == [
        ("", "ops", "storage migration"),
        ("shop.orders", "ops", ""),
    ]
    harness.tell(resumed, fleet)
    assert [view.table for view in harness.model.list_pauses()] == ["shop.orders"]
    assert (
        len([one for one in harness.model.list_events(None, 5) if one.event.kind == "operator"])
        == 3
    )


def word(rule: str, at_ms: int, withdrawn: bool = False, number: int = 1) -> Any:
    path = "table_advice/withdrawn" if withdrawn else "table_advice/tiny_partitions"
    return make(path, table=table(number), rule=rule, since_ms=at_ms, at_ms=at_ms)


def listing(rules: tuple[str, ...], at_ms: int, number: int = 1, **more: Any) -> Any:
    return make(
        "table_state/in_flight", table=table(number), advised=rules, updated_at_ms=at_ms, **more
    )


def advised(harness: ReadModelHarness) -> dict[str, list[str]]:
    found = {
        view.key: [one.rule for one in view.current_advice]
        for view in harness.model.list_advice(10)
    }
    for table_key, rules in found.items():
        of_one = harness.model.find_advice(table_key)
        assert of_one is not None
        assert [one.rule for one in of_one.current_advice] == rules
    return found


def test_advice_is_listed_by_table_those_with_most_of_it_first(harness: ReadModelHarness) -> None:
    harness.tell(word("a", 1), listing(("a",), 1))
    harness.tell(word("a", 1, number=2), word("b", 1, number=2), listing(("a", "b"), 1, number=2))
    assert list(advised(harness).items()) == [("uuid-2", ["a", "b"]), ("uuid-1", ["a"])]
    assert [view.key for view in harness.model.list_advice(1)] == ["uuid-2"]
    assert harness.model.read_totals(0)["advice"] == 3
    assert harness.model.find_advice("uuid-3") is None


def test_advice_that_is_withdrawn_is_gone_in_whatever_order_it_is_told(
    harness: ReadModelHarness,
) -> None:
    harness.tell(listing(("a",), 1), word("a", 3, withdrawn=True), word("a", 1))
    assert advised(harness) == {}
    harness.tell(word("a", 4))
    assert advised(harness) == {"uuid-1": ["a"]}


def test_advice_that_the_planner_does_not_list_any_more_is_gone(harness: ReadModelHarness) -> None:
    """It has lost its state, and withdraws nothing that it does not know of."""
    harness.tell(word("a", 1), listing(("a",), 1), word("b", 1), listing(("b",), 5))
    assert advised(harness) == {"uuid-1": ["b"]}
    harness.tell(word("a", 6))
    assert advised(harness) == {"uuid-1": ["b", "a"]}


def test_advice_about_a_table_that_is_gone_is_gone(harness: ReadModelHarness) -> None:
    harness.tell(word("a", 1), listing(("a",), 1))
    harness.tell(listing(("a",), 2, removed=True))
    assert advised(harness) == {}
    harness.tell(dropped(1, 3), dropped(2, 4))  # the first is trimmed
    assert harness.model.find_advice("uuid-1") is None
