"""Tables that do not move, and results that end the process: others are committed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryInbox
from firnline_adapters.kafka.poison_records import MAX_DEATHS, MemoryMarks, StartMarks
from firnline_adapters.observability.logs import Log
from firnline_committer import table_queues
from firnline_committer.pump import CommitterPump
from firnline_domain.errors import CatalogUnreachable
from firnline_domain.identity import bucket_of
from firnline_domain.records.events import RewriteConflicted, RewriteSkipped
from firnline_domain.records.orders import PauseMaintenance
from firnline_domain.records.parts.conflict_reasons import ConflictReason

from services.committer.tests.test_pump import A, B, Bench
from tests.kit.memory_followers import MemoryPauseReader


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("paused", [False, True])
def test_many_tables_that_stand_still_leave_room_for_one_that_moves(
    bench: Bench, result: Any, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    """Catalogs that are away, or pauses: of one partition, more than may wait."""
    monkeypatch.setattr(table_queues, "MAX_WAITING", 50 * table_queues.LEAST)
    switches = MemoryPauseReader(bench.broker)
    clock = lambda: bench.now  # noqa: E731
    bench.pump = CommitterPump(
        bench.inbox, bench.publisher, bench.handlers, Log("t"), clock, switches=switches
    )
    names = [name for n in range(2000) if bucket_of(name := f"t{n}", 8) == bucket_of(A, 8)]
    stuck = names[:100]
    for name in stuck:
        one = result(task=name, table=name)
        if paused:
            pause = PauseMaintenance(one.table, "", "me", 1)
            bench.publisher.publish("operator-orders", name, pause)
        else:
            bench.handlers.failing[name] = CatalogUnreachable("away")
        bench.send(one)
    for bench.now in (0.0, 1.0, 2.0):
        bench.pump.step(0)
    bench.send(result(task="moves", table=A))
    for bench.now in (3.0, 4.0, 5.0):
        bench.pump.step(0)
    assert "moves" in bench.events()
    given_up = [
        one
        for one in bench.broker.records("maintenance-events")
        if isinstance(one, RewriteConflicted)
    ]
    assert {one.reason for one in given_up} == {ConflictReason.UNREACHABLE}


class Killed(BaseException):
    """Nothing of the process runs any more."""


def test_a_result_that_ends_its_process_goes_back_after_three_lives(
    bench: Bench, result: Any
) -> None:
    """As one does that takes all memory of the JVM."""
    marks = MemoryMarks()
    bench.send(result(task="1"), result(task="2"), result(task="3", table=B))
    bench.handlers.failing = {"2": Killed()}  # type: ignore[dict-item]
    for life in range(MAX_DEATHS + 2):
        starts = StartMarks(marks, lambda: bench.now)
        bench.inbox = MemoryInbox(bench.broker, "committer", ["task-results"], starts=starts)
        bench.pump = CommitterPump(
            bench.inbox, bench.publisher, bench.handlers, Log("t"), lambda: bench.now
        )
        with pytest.raises(Killed) if life <= MAX_DEATHS else nullcontext():
            bench.steps(9)
    [letter] = bench.broker.records("dead-letters")
    assert (letter.reason, letter.offset) == ("ended_the_process", 1)
    told = {event.task_id: type(event) for event in bench.broker.records("maintenance-events")}
    assert told == {"1": RewriteSkipped, "2": RewriteConflicted, "3": RewriteSkipped}
    assert (bench.offset(A), bench.offset(B)) == (2, 1)
