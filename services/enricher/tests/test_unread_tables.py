"""Tables that cannot be read, for hours and days: who waits, what is kept, what is lost.

The pump is the real one, its clock is not. The planner is the fold of the domain with its own
questions; what it ends up with is compared with what was committed.
"""

from __future__ import annotations

import os

import pytest
from firnline_domain.errors import CatalogRefused, RetryLater
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.orders import ResyncTable
from firnline_enricher.pump import MAX_AT_ONCE, MAX_HELD, MAX_OF_PARTITION, PATIENCE_S

from services.enricher.tests.fleet import AWAY, REFUSED, Fleet, names_in

HOURS = float(os.environ.get("FIRNLINE_TEST_HOURS", "0.3"))


@pytest.mark.parametrize("error", [REFUSED, AWAY], ids=["refused", "away"])
@pytest.mark.parametrize("rate", [1, 5])
def test_a_table_that_nobody_can_read_for_hours_holds_nobody(rate: int, error: Exception) -> None:
    fleet, name = Fleet(), names_in(0)
    bad, *healthy = [name() for _ in range(4)]
    for uuid in (bad, *healthy):
        fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(5)
    fleet.lake.failing[bad] = error
    most = 0
    for second in range(int(HOURS * 3600)):
        for _ in range(rate):
            fleet.write(fleet.lake.commit(bad))
        fleet.write(fleet.lake.commit(healthy[second % 3]))
        if second % 400 == 399:
            fleet.restart()
        fleet.pass_time()
        most = max(most, fleet.lag())
    assert max(fleet.waited) <= 5
    assert most <= 2 * MAX_HELD
    assert len(fleet.lake.tries) <= HOURS * 3600 / 30 + 20 * (HOURS * 9 + 1)
    fleet.lake.failing.clear()
    fleet.lake.now += 1
    before = fleet.resyncs
    fleet.pass_time(90)
    fleet.demand_right()
    assert fleet.resyncs - before <= 3
    assert fleet.lag() == 0


def test_a_restart_at_any_moment_loses_nothing() -> None:
    """Commits, and a property, while the table cannot be read; the enricher is killed after."""
    for moment in range(0, 100, 14):
        fleet, name = Fleet(), names_in(1)
        uuid = name()
        fleet.write(fleet.lake.commit(uuid))
        fleet.pass_time(3)
        fleet.lake.failing[uuid] = REFUSED
        fleet.write(fleet.lake.commit(uuid))
        fleet.write(fleet.lake.change_property(uuid, str(moment)))
        fleet.pass_time(moment)
        fleet.restart()
        fleet.pass_time(PATIENCE_S + 40)
        fleet.restart()
        fleet.lake.failing.clear()
        fleet.pass_time(400)
        fleet.demand_right()


def test_a_property_alone_is_not_lost() -> None:
    fleet, name = Fleet(), names_in(1)
    uuid = name()
    fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(3)
    fleet.lake.failing[uuid] = REFUSED
    fleet.write(fleet.lake.change_property(uuid, "new"))
    fleet.pass_time(2 * PATIENCE_S)
    assert fleet.lag() == 0
    fleet.lake.failing.clear()
    fleet.pass_time(400)
    fleet.demand_right()


def test_a_table_that_is_seen_first_while_it_cannot_be_read() -> None:
    fleet, name = Fleet(), names_in(1)
    uuid = name()
    fleet.lake.failing[uuid] = REFUSED
    fleet.lake.heads[uuid] = [1]
    fleet.write(fleet.lake.change_property(uuid, "new"))
    fleet.pass_time(2 * PATIENCE_S)
    fleet.lake.failing.clear()
    fleet.pass_time(400)
    fleet.demand_right()


def test_thousands_of_tables_that_cannot_be_read_hold_nobody() -> None:
    fleet, name = Fleet(), names_in(2)
    healthy = name()
    bad = [name() for _ in range(300)]
    fleet.lake.failing = dict.fromkeys(bad, REFUSED)
    for _ in range(20):
        for uuid in bad:
            fleet.write(fleet.lake.commit(uuid))
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
    fleet.pass_time(5)
    assert len(fleet.waited) == 20
    assert max(fleet.waited) <= 5


def test_a_catalog_that_is_away_is_tried_now_and_then_and_not_for_each_table() -> None:
    fleet, name = Fleet(), names_in(2)
    tables = [name() for _ in range(40)]
    fleet.lake.failing = dict.fromkeys(tables, AWAY)
    for uuid in tables:
        fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(30)
    assert len(fleet.lake.tries) <= 3 + 30
    fleet.lake.failing.clear()
    fleet.pass_time(20)
    fleet.demand_right()


@pytest.mark.parametrize("error", [AWAY, CatalogRefused("no right", "t"), RetryLater("slow")])
def test_one_table_does_not_make_its_catalog_look_away(error: Exception) -> None:
    fleet, name = Fleet(), names_in(2)
    bad, healthy = name(), name()
    fleet.lake.failing = {bad: error}
    for _ in range(60):
        for _ in range(3):
            fleet.write(fleet.lake.commit(bad))
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
    assert max(fleet.waited) <= 1


def test_a_table_that_hangs_is_tried_less_and_less() -> None:
    """Each try takes as long as a catalog's client waits; others of the process wait meanwhile."""
    fleet, name = Fleet(), names_in(3)
    bad, healthy = name(), name()
    fleet.lake.failing, fleet.lake.takes_s = {bad: REFUSED}, 30.0
    began = fleet.lake.now
    while fleet.lake.now < began + 1800:
        fleet.write(fleet.lake.commit(bad))
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
    assert len(fleet.lake.tries) <= 20


def test_more_than_there_is_room_for_is_read_later_and_ends_no_process() -> None:
    """A backlog, as after an hour without enrichers."""
    fleet, name = Fleet(), names_in(0)
    uuid = name()
    for _ in range(2 * MAX_OF_PARTITION):
        fleet.write(fleet.lake.commit(uuid))
    fleet.pass_time(2 * MAX_OF_PARTITION / MAX_AT_ONCE * 10)
    fleet.demand_right()


def test_questions_of_a_table_that_cannot_be_read_are_settled_and_the_last_is_kept() -> None:
    fleet, name = Fleet(), names_in(0)
    uuid = name()
    fleet.lake.heads[uuid] = [1, 2, 3]
    fleet.lake.failing[uuid] = REFUSED
    table = TableName(uuid, ("db",), uuid)
    for number in range(500):
        question = ResyncTable(table, MAIN, None, None, "first_seen", number)
        fleet.publisher.publish("resync-requests", table.key, question)
        fleet.pass_time(1)
    assert fleet.lag() == 0
    assert len(fleet.lake.tries) <= 10
    fleet.lake.failing.clear()
    fleet.pass_time(300)
    fleet.demand_right()
