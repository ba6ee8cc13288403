"""What came of a canary, as the command reads it from the topics, and what it says of it."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_cli.adoption.canary import Canary
from firnline_cli.adoption.counted_tables import CountedTables
from firnline_cli.adoption.report import TextReport
from firnline_cli.adoption.requests import Stopped
from firnline_cli.commands.existing_tables.adopt import judge
from firnline_cli.shared.topic_reader_memory import MemoryTopics
from firnline_domain.base.values import replace

from tests.examples import make

UUID = "6f1d9c1e-5d0a-4b7e-9a4e-0d3c1f2b3a49"
EVENTS = "maintenance-events"


class Fleet:
    """One canary table that the planner shows, and whatever is told of it."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(1)
        self.publisher = MemoryPublisher(self.broker)
        self.shown("idle")

    def shown(self, status: str) -> None:
        state = make("table_state/in_flight")
        parts = tuple(replace(one, status=status) for one in state.partitions)
        shown = replace(state, partitions=parts, statuses={status: 1})
        self.publisher.publish("table-states", f"{UUID}/main", shown)

    def told(self, path: str, **changes: Any) -> None:
        self.publisher.publish(EVENTS, UUID, make(path, **changes))

    def judged(self, anyway: bool = False) -> None:
        topics = MemoryTopics(self.broker)
        known = CountedTables(topics)
        known.catch_up()
        judge(Canary(frozenset({UUID})), known, topics, TextReport(False), 0.05, anyway)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_commit_and_nothing_else_lets_the_others_follow(fleet: Fleet, capsys) -> None:
    fleet.told("rewrite_committed/native")
    fleet.told("rows_compared/equal")
    fleet.judged()
    said = capsys.readouterr().out
    assert "canary: 1 of 1 tables adopted; 1 rewrites committed, 0 failed, 0 conflicted" in said
    assert "of 1 commits read back 0 differ" in said


def test_tables_that_are_none_of_the_canary_do_not_count(fleet: Fleet) -> None:
    fleet.told("rewrite_committed/native")
    fleet.publisher.publish(EVENTS, "another", make("task_failed/out_of_memory"))
    fleet.judged()


@pytest.mark.parametrize(
    ("path", "changes", "word"),
    [
        ("task_failed/out_of_memory", {}, "1 of 2 tasks failed"),
        ("rewrite_conflicted/new_position_deletes", {}, "1 of 2 tasks failed or were refused"),
        ("rows_compared/equal", {"outcome": "differ"}, "1 commits changed what readers see"),
    ],
)
def test_it_refuses_and_says_why(
    fleet: Fleet, path: str, changes: dict[str, Any], word: str, capsys
) -> None:
    fleet.told("rewrite_committed/native")
    fleet.told(path, **changes)
    with pytest.raises(Stopped, match=word) as stopped:
        fleet.judged()
    assert "--anyway" in str(stopped.value)
    fleet.judged(anyway=True)
    assert word in capsys.readouterr().out


def test_what_is_parked_is_told(fleet: Fleet) -> None:
    fleet.told("rewrite_committed/native")
    fleet.shown("parked")
    with pytest.raises(Stopped, match="1 of 1 canary tables have something parked"):
        fleet.judged()


def test_a_pause_is_no_failure(fleet: Fleet) -> None:
    fleet.told("rewrite_committed/native")
    fleet.told("task_failed/out_of_memory", reason="paused")
    fleet.judged()


def test_a_canary_of_which_nothing_came_proves_nothing(fleet: Fleet) -> None:
    with pytest.raises(Stopped, match="nothing is proved"):
        fleet.judged()
