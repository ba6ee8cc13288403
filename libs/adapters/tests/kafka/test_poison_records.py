"""A record that ends its process goes aside after three lives; no other does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.kafka.poison_records import (
    MAX_DEATHS,
    MemoryMarks,
    StartMark,
    StartMarks,
    parse_mark,
)
from firnline_domain.identity import TableName, bucket_of
from firnline_domain.records.events import RewriteSkipped

TOPIC, GROUP = "maintenance-events", "g"


class Died(BaseException):
    """A kill: nothing of the process runs any more."""


@dataclass
class Fleet:
    """Lives of one service after another; `deadly` records end each."""

    deadly: set[str] = field(default_factory=set)
    broker: MemoryBroker = field(default_factory=lambda: MemoryBroker(4))
    marks: MemoryMarks = field(default_factory=MemoryMarks)
    done: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)  # never done
    lives: int = 0
    now: float = 0.0

    def send(self, *names: str) -> None:
        for name in names:
            table = TableName(name.partition("/")[0], ("db",), "t")
            record = RewriteSkipped(name, table, "main", None, "x", 1)
            MemoryPublisher(self.broker).publish(TOPIC, table.uuid, record)

    def live(self, steps: int = 400, ends: str = "in order") -> bool:
        """One process. False: a record has ended it."""
        self.lives += 1
        starts = StartMarks(self.marks, lambda: self.now)
        inbox = MemoryInbox(self.broker, GROUP, [TOPIC], starts=starts)
        try:
            for _ in range(steps):
                self.now += 1.0
                for delivery in inbox.poll(0):
                    self._handle(inbox, delivery)
                inbox.commit()
        except Died:
            return False
        if ends == "in order":
            inbox.close()
        return True

    def _handle(self, inbox: MemoryInbox, delivery: Any) -> None:
        name = delivery.record.task_id
        if delivery.deaths >= MAX_DEATHS:
            self.aside.append(name)
        elif name in self.deadly:
            raise Died
        elif name in self.held:
            return
        else:
            self.done.append(name)
        inbox.mark_done(delivery)

    def live_on(self) -> None:
        for _ in range(20):
            if self.live():
                return
        raise AssertionError("it dies in each of its lives")


def test_a_deadly_record_goes_aside_and_no_other() -> None:
    fleet = Fleet({"t5"})
    names = [f"t{n}" for n in range(40)]
    fleet.send(*names)
    fleet.live_on()
    assert fleet.aside == ["t5"]
    assert set(fleet.done) == {*names} - {"t5"}
    assert fleet.lives <= MAX_DEATHS + 2


def test_several_deadly_records_of_several_partitions() -> None:
    fleet = Fleet({"t5", "t6", "t7", "t39"})
    names = [f"t{n}" for n in range(40)]
    fleet.send(*names)
    fleet.live_on()
    assert set(fleet.aside) == fleet.deadly
    assert set(fleet.done) == {*names} - fleet.deadly


def test_one_that_waits_before_it_hides_no_deadly_one() -> None:
    """Its offset stays, so each life begins there again."""
    fleet = Fleet({"t/2"}, held={"t/0"})
    fleet.send("t/0", "t/1", "t/2", "t/3")
    fleet.live_on()
    assert fleet.aside == ["t/2"]
    assert {"t/1", "t/3"} <= set(fleet.done)


def test_a_record_that_comes_after_deaths_of_others_is_innocent() -> None:
    fleet = Fleet({"t5"})
    fleet.send("t5")
    for _ in range(MAX_DEATHS - 1):
        assert not fleet.live()
    other = next(f"u{n}" for n in range(99) if bucket_of(f"u{n}", 4) != bucket_of("t5", 4))
    fleet.send(other)
    fleet.live_on()
    assert (fleet.aside, fleet.done.count(other) > 0) == (["t5"], True)


def test_ends_in_order_and_rebalances_are_no_deaths() -> None:
    fleet = Fleet()
    fleet.send("t1")
    for _ in range(10):
        assert fleet.live(1)
    assert all(mark == StartMark() for mark in fleet.marks.marks.values())
    fleet.send("t1")
    starts = StartMarks(fleet.marks)
    starts.take_over([(TOPIC, 0)])
    starts.forget_partitions([(TOPIC, 0)])  # lost: its own life may have it again
    starts.take_over([(TOPIC, 0)])
    assert not starts.is_careful
    starts.give_back([(TOPIC, 0)])
    StartMarks(fleet.marks).take_over([(TOPIC, 0)])
    assert not StartMarks(fleet.marks).is_careful


def test_kills_while_nothing_is_begun_put_nothing_aside() -> None:
    """A node that goes down again and again."""
    fleet = Fleet()
    fleet.send(*[f"t{n}" for n in range(20)])
    for _ in range(10):
        fleet.live(1, ends="killed")
    fleet.live_on()
    assert fleet.aside == []
    assert set(fleet.done) == {f"t{n}" for n in range(20)}


def test_after_a_while_without_deaths_it_is_as_fast_as_before() -> None:
    fleet = Fleet({"t5"})
    fleet.send("t5")
    assert not fleet.live()
    fleet.deadly.clear()
    starts = StartMarks(fleet.marks, lambda: fleet.now)
    inbox = MemoryInbox(fleet.broker, GROUP, [TOPIC], starts=starts)
    assert starts.is_careful
    for _ in range(60):
        fleet.now += 1.0
        for delivery in inbox.poll(0):
            inbox.mark_done(delivery)
    assert not starts.is_careful


@pytest.mark.parametrize(
    "text",
    ["", None, "v2 x 1 2 3", "v1", "v1 a b c d", "v1 x 1 2", "\0", "v1 - -1 -1 -1", "x" * 9999],
)
def test_any_text_may_stand_where_a_mark_is_kept(text: str | None) -> None:
    mark = parse_mark(text)
    assert mark.deaths <= 0
    assert parse_mark(StartMark("life", 5, 6, 2).to_text()) == StartMark("life", 5, 6, 2)
