"""The loop folds what is on the topics, once per generation, and begins again when it must."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from threading import Event
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.observability.logs import Log
from firnline_console.follower import Follower
from firnline_console.handlers import TOPICS, on_deliveries, topics_read
from firnline_console.read_model import gauges as read_model_gauges
from firnline_console.read_model.gauges import Gauges
from firnline_console.read_model.listing import Query
from firnline_console.read_model.port import Built
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.lanes import lane_of_order
from firnline_domain.ports import Delivery, Inbox, Place
from firnline_domain.records.results import DeleteKind
from firnline_domain.records.states import TABLE_STATUSES
from firnline_domain.settings.groups import parse_groups
from prometheus_client import REGISTRY

from tests.kit.console_model import TestReadModel

Make = Callable[..., Any]


class Stage:
    """Topics, a view, and a follower that is stopped when it has read everything."""

    def __init__(self, redis: str) -> None:
        self.broker = MemoryBroker()
        self.model = TestReadModel(redis)
        self.groups: list[str] = []
        self.topics: Sequence[str] = TOPICS
        self.stop = Event()
        self.at_end: list[Callable[[], None]] = []
        self.generations = iter(Built(f"g{n}", n) for n in range(1, 99))

    def publish(self, topic: str, record: Any, key: str = "") -> None:
        MemoryPublisher(self.broker).publish(topic, key or record.table.uuid, record)

    def open_inbox(self, group: str) -> Inbox:
        self.groups.append(group)
        stage = self

        class Reading(MemoryInbox):
            def poll(self, timeout_s: float, full: Collection[Place] = ()) -> Sequence[Delivery]:
                found = super().poll(timeout_s, full)
                if not found and stage.at_end:
                    stage.at_end.pop(0)()
                elif not found:
                    stage.stop.set()
                return found

        return Reading(self.broker, group, self.topics)

    def run(self, rebuild: bool = False) -> None:
        self.stop.clear()
        follower = Follower(
            self.model, self.open_inbox, lambda: next(self.generations), Log("test")
        )
        follower.run(self.stop, rebuild)


@pytest.fixture
def stage(make: Make, console_redis: str) -> Stage:
    stage = Stage(console_redis)
    stage.publish("rewrite-tasks", make("rewrite_files/compact"))
    stage.publish("table-states", make("table_state/in_flight"))
    return stage


def test_everything_on_the_topics_is_folded(stage: Stage) -> None:
    stage.run()
    assert [one.dotted_name for one in stage.model.list_tables(Query())[1]] == ["shop.orders"]
    assert len(stage.model.list_tasks(9)) == 1


def test_an_order_of_a_group_is_shown_as_its_own(stage: Stage, make: Make) -> None:
    topics = topics_read(parse_groups("default=1,etl,adhoc"))
    assert topics[: len(TOPICS)] == list(TOPICS)
    assert len({*topics}) == len(topics) == len(TOPICS) + 4
    stage.publish("rewrite-tasks-heavy.etl", make("rewrite_files/compact", task_id="etl"))
    stage.topics = topics
    stage.run()
    found = {one.task_id: one.order.group for one in stage.model.list_tasks(9) if one.order}
    assert found == {make("rewrite_files/compact").task_id: "", "etl": "etl"}
    assert [
        one.event.task_id for one in stage.model.list_events(None, 9) if one.event.task_id == "etl"
    ]


def test_the_oldest_order_of_a_group_is_a_gauge(stage: Stage, make: Make) -> None:
    order = make("rewrite_files/compact", task_id="etl")
    stage.publish("rewrite-tasks-heavy.etl", order)
    stage.topics = topics_read(parse_groups("etl,adhoc"))
    stage.run()
    gauges, lane = Gauges(stage.model, ["adhoc"]), lane_of_order(order.numbers)

    def shown(group: str) -> tuple[float | None, float | None]:
        labels = {"group": group, "lane": lane.value}
        names = ("firnline_fleet_orders", "firnline_fleet_oldest_order_seconds")
        orders, age_s = (REGISTRY.get_sample_value(name, labels) for name in names)
        assert REGISTRY.get_sample_value("firnline_fleet_workers_wanted", labels) == orders
        return orders, age_s

    gauges.set(order.ordered_at_ms + 30_000)
    assert (shown("etl"), shown("adhoc"), shown("default")) == ((1, 30), (0, 0), (1, 30))
    gauges.set(order.deadline_ms + 1)  # nobody's any more
    assert (shown("etl"), shown("default")) == ((0, 0), (0, 0))


def test_a_restart_goes_on_where_it_was(stage: Stage, make: Make) -> None:
    stage.run()
    stage.publish("maintenance-events", make("rewrite_committed/native"))
    stage.run()
    assert set(stage.groups) == {"firnline-console-g1"}
    assert stage.model.read_totals(0)["tasks_committed"] == 1
    Gauges(stage.model, ()).set(0)
    by_status = [
        REGISTRY.get_sample_value("firnline_fleet_tables", {"status": one})
        for one in TABLE_STATUSES
    ]
    assert sorted(filter(None, by_status)) == [1]


def test_the_largest_tables_and_namespaces_have_series_while_they_are_among_them(
    stage: Stage, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_model_gauges, "LARGEST", 1)
    state, gauges = make("table_state/in_flight"), Gauges(stage.model, ())

    def publish(uuid: str, namespace: str, debt: int, at_ms: int) -> None:
        table = replace(state.table, uuid=uuid, namespace=(namespace,))
        one = replace(state, table=table, debt_files=debt, updated_at_ms=at_ms)
        stage.publish("table-states", one)
        stage.run()
        gauges.set(0)

    def shown(name: str, label: str, namespace: str) -> float | None:
        place = f"{state.table.catalog_path}:{namespace}"
        value = f"{place}.{state.table.name}" if label == "table" else place
        return REGISTRY.get_sample_value(f"firnline_fleet_{name}", {label: value})

    def all_shown(namespace: str) -> list[float | None]:
        of_it = ("debt_files", "data_bytes", "delete_files")
        sums = [shown(f"namespace_{one}", "namespace", namespace) for one in of_it]
        return [shown("table_debt_files", "table", namespace), *sums]

    size, deletes = state.holds.all_data.bytes, state.holds.delete_files
    with gauges.show_largest():
        publish("u1", "a", 70, 1)
        publish("u2", "b", 60, 1)
        assert all_shown("a") == [70, 70, size, deletes]
        assert all_shown("b") == [None] * 4
        publish("u3", "b", 20, 1)
        assert all_shown("b") == [None, 80, 2 * size, 2 * deletes]
        assert all_shown("a") == [70, None, None, None]
        kinds = [
            REGISTRY.get_sample_value("firnline_fleet_delete_files", {"kind": kind})
            for kind in DeleteKind
        ]
        assert sum(filter(None, kinds)) == 4 * deletes  # one table was there before
    assert all_shown("a") == all_shown("b") == [None] * 4


def test_a_rebuild_reads_all_from_the_beginning(stage: Stage) -> None:
    stage.run()
    before = (
        stage.model.read_totals(0),
        stage.model.list_tasks(9),
        stage.model.list_tables(Query()),
    )
    stage.run(rebuild=True)
    assert stage.groups[-1] != stage.groups[0]
    assert (
        stage.model.read_totals(0),
        stage.model.list_tasks(9),
        stage.model.list_tables(Query()),
    ) == before


def test_a_store_that_lost_everything_is_filled_again_without_a_new_record(stage: Stage) -> None:
    stage.at_end.append(stage.model.lose)
    stage.run()
    assert len(stage.model.list_tasks(9)) == 1
    assert len(set(stage.groups)) == 2


@pytest.mark.parametrize("rebuild", [True, False])
def test_nothing_is_let_go_that_was_not_folded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, rebuild: bool
) -> None:
    """And an outage in the middle of a rebuild does not begin it anew."""
    apply, failures = stage.model.apply, iter([RetryLater("Redis is away")])

    def failing(generation: str, facts: Sequence[Any]) -> None:
        if error := next(failures, None):
            raise error
        apply(generation, facts)

    monkeypatch.setattr("firnline_console.follower.RETRY_S", 0)
    monkeypatch.setattr(stage.model, "apply", failing)
    stage.run(rebuild)
    assert len(stage.model.list_tasks(9)) == 1
    assert stage.groups == ["firnline-console-g1"] * 2


def test_what_is_folded_is_let_go_at_once(stage: Stage) -> None:
    """A killed console reads again only its last batch."""
    stage.model.begin_generation(Built("g", 1), replace=False)
    inbox = MemoryInbox(stage.broker, "group", TOPICS)
    on_deliveries(stage.model, "g", inbox, inbox.poll(0), Log("test"))
    assert MemoryInbox(stage.broker, "group", TOPICS).poll(0) == []
