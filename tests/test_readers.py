"""Each service that a topic's file names as a reader knows what to do with each of its records."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.records.codec import record_types
from firnline_committer.handlers import WITHOUT_COMMIT
from firnline_console.read_model.fold import touched_keys
from firnline_console.views.event_text import event_of
from firnline_domain.errors import PoisonousRecord, RetryLater
from firnline_domain.identity import TableName
from firnline_domain.ports import Delivery
from firnline_domain.records.orders import TaskOrder
from firnline_domain.records.results import RewriteFinished
from firnline_domain.records.states import TableState
from firnline_enricher.handlers import EnricherHandlers as Enricher
from firnline_listener.sources.own_commits import COMMITS
from firnline_schemas import codec
from firnline_schemas.topics import all_topics

from tests.examples import make
from tests.kit.planner_world import PlannerWorld

ROOT = Path(__file__).parents[1]
EXAMPLES = files("firnline_schemas").joinpath("examples")
DEFINITIONS = {"events.py", "orders.py", "results.py", "states.py"}
BY_NAME = {  # what a library or a driver takes for itself: where its class is named
    ("operator-orders", "worker"): "libs/*/src",
    ("operator-orders", "committer"): "libs/*/src",
    ("bucket-assignments", "planner"): "libs/*/src",
    ("bucket-assignments", "gateway"): "libs/*/src",
    ("bucket-assignments", "listener"): "libs/*/src",
    ("bucket-assignments", "enricher"): "libs/*/src",
    ("table-handovers", "planner"): "services/planner/src",
    **{("worker-directives", service): "libs/*/src" for service in ("local", "scaler")},
}
# Worker and committer read the pauses alone, the listener what commits.
PASSED_OVER = (
    {
        (service, record)
        for service in ("worker", "committer")
        for record in ("UnparkTable", "HoldPartitions", "RunAction", "MoveTable")
    }
    | {
        ("listener", record)
        for record in ("RewriteConflicted", "RewriteSkipped", "TaskFailed", "TaskRunning")
    }
    | {("listener", "OutputsSwept"), ("listener", "RowsCompared")}
)
NOT_OF_A_TASK = {"RowsCompared", "FilesChanged"}  # though they name one


def reads() -> list[tuple[str, str, str]]:
    """Topic, reader, record."""
    return [
        (one.name, service, record)
        for one in all_topics()
        for service in one.read_by
        for record in one.records
    ]


def examples(record: str) -> list[Any]:
    folder = next(one for one in EXAMPLES.iterdir() if codec.record_name(one.name) == record)
    return [make(f"{folder.name}/{one.name.removesuffix('.json')}") for one in folder.iterdir()]


def console_takes(record: Any) -> bool:
    """As a line of events or in a document; what is told of a task, in its task."""
    if hasattr(record, "task_id") and type(record).__name__ not in NOT_OF_A_TASK:
        return bool(touched_keys(record)) and event_of(record) is not None
    return bool(touched_keys(record)) or event_of(record) is not None


def planner_takes(record: Any) -> bool:
    try:
        PlannerWorld().take(record)
    except PoisonousRecord as error:
        return error.reason != "unexpected_record"
    return True


class NoTables:
    def load(self, table: TableName) -> Any:
        raise RetryLater("no catalog")

    def namespace_properties(self, table: Any) -> Any:
        raise RetryLater("no catalog")


def enricher_takes(record: Any) -> bool:
    tables: Any = NoTables()
    try:
        Enricher(tables, lambda: 0).handle(Delivery("t", 0, 0, None, record))
    except PoisonousRecord as error:
        return error.reason != "unexpected_record"
    except RetryLater:
        pass
    return True


TAKES: dict[str, Callable[[Any], bool]] = {
    "console": console_takes,
    "planner": planner_takes,
    "enricher": enricher_takes,
    "listener": lambda record: isinstance(record, COMMITS | TableState),
    "worker": lambda record: isinstance(record, TaskOrder),
    "committer": lambda record: isinstance(record, WITHOUT_COMMIT | RewriteFinished),
}


def named(folder: str, record: str) -> bool:
    """The record's class, or one that it is based on."""
    paths = (path for path in ROOT.glob(f"{folder}/**/*.py") if path.name not in DEFINITIONS)
    sources = "".join(path.read_text() for path in paths)
    return any(re.search(rf"\b{one.__name__}\b", sources) for one in bases(record_types()[record]))


def bases(cls: type) -> list[type]:
    return [one for one in cls.__mro__ if one.__module__.startswith("firnline_domain.records")]


@pytest.mark.parametrize(("topic", "service", "record"), reads())
def test_every_reader_handles_every_record_of_its_topics(
    topic: str, service: str, record: str
) -> None:
    if (service, record) in PASSED_OVER:
        return
    if folder := BY_NAME.get((topic, service)):
        assert named(folder, record)
    else:
        assert any(TAKES[service](one) for one in examples(record))


def test_a_record_that_is_none_of_a_services_is_seen() -> None:
    [tick] = examples("TickPassed")
    assert [service for service, takes in TAKES.items() if takes(tick)] == ["planner"]
    assert not planner_takes(examples("DeadLettered")[0])
    assert not named("infra/local_stack/src", "DeadLettered")


def topic_readers() -> list[tuple[str, str]]:
    """Each topic with each service that its file says reads it; the console reads all of those."""
    readers = [(topic.name, service) for topic in all_topics() for service in topic.read_by]
    return [one for one in readers if one[1] != "console"]


READ_THROUGH_LIBRARIES = {
    "schemas", "operator-orders", "bucket-assignments", "table-handovers", "worker-directives",
    "rewrite-tasks", "rewrite-tasks-heavy",
}  # fmt: skip


@pytest.mark.parametrize(("topic", "service"), topic_readers())
def test_a_topics_readers_name_it(topic: str, service: str) -> None:
    places = [f"*/{service}/src"]
    if topic in READ_THROUGH_LIBRARIES:
        places.append("libs/*/src")
    found = (path.read_text() for place in places for path in ROOT.glob(f"{place}/**/*.py"))
    assert any(f'"{topic}"' in text for text in found)
