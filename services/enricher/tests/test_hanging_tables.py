"""Tables whose catalog or storage does not answer: who waits for a thread."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.orders import ResyncTable
from firnline_enricher.pump import MAX_OF_PARTITION

from services.enricher.tests.fleet import AWAY, REFUSED, Fleet, HangingPool, names_in


def test_tables_whose_storage_hangs_leave_an_answerer_to_the_others() -> None:
    fleet, pool, name = Fleet(), HangingPool(), names_in(1)
    bad, healthy = [name() for _ in range(5)], name()
    fleet.restart(pool)
    pump = fleet.pump

    def ask(uuid: str) -> None:
        fleet.lake.heads[uuid] = [1]
        table = TableName(uuid, ("db",), uuid)
        question = ResyncTable(table, MAIN, None, None, "first_seen", 1)
        fleet.publisher.publish("resync-requests", table.key, question)

    fleet.lake.failing = dict.fromkeys(bad, REFUSED)
    for uuid in bad:
        ask(uuid)
    for _ in range(6):
        pump.step(0)
        pool.end()
    fleet.lake.now += 3600  # all of them are to be tried again, and every try hangs
    pump.step(0)
    ask(healthy)
    pump.step(0)
    assert healthy in pool.tables()
    assert pool.tables()[0] in bad


def test_a_table_that_hangs_delays_only_itself() -> None:
    """Nothing of it is passed over: it is told when it was read, or its planner asks."""
    fleet, pool, name = Fleet(), HangingPool(), names_in(1)
    bad, healthy = name(), name()
    fleet.restart(pool)
    for _ in range(80):
        fleet.write(fleet.lake.commit(bad))
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
        pool.end(but=[bad])
    fleet.pass_time(1)
    assert len(fleet.waited) == 80
    assert max(fleet.waited) <= 2
    assert fleet.broker.committed["enricher", "table-commits", 1] == 0
    assert pool.tables() == [bad]
    pool.end()
    for _ in range(3):
        fleet.pass_time(1)
        pool.end()
    assert fleet.lag() == 0
    fleet.demand_right()


@pytest.mark.parametrize("error", [None, AWAY])
def test_a_table_that_hangs_fills_no_partition(error: RetryLater | None) -> None:
    """Its records are settled without the read, whose result comes too late to be used."""
    fleet, pool, name = Fleet(), HangingPool(), names_in(1)
    bad, healthy = name(), name()
    fleet.restart(pool)
    for _ in range(MAX_OF_PARTITION):
        fleet.write(fleet.lake.commit(bad))
    for _ in range(10):
        fleet.write(fleet.lake.commit(healthy))
        fleet.pass_time(1)
        pool.end(but=[bad])
    fleet.pass_time(1)
    assert not [one for one in fleet.began if one[0] == healthy]
    assert max(fleet.waited) <= 8
    assert fleet.lag() <= 1  # the planner's question
    if error:
        fleet.lake.failing[bad] = error
    sent = len(fleet.broker.records("file-changes"))
    pool.end(but=[healthy])
    fleet.pump.step(0)
    assert len(fleet.broker.records("file-changes")) == sent
    fleet.lake.failing.clear()
    for _ in range(300):
        fleet.pass_time(1)
        pool.end()
    fleet.demand_right()


def test_stores_that_hang_leave_threads_to_other_stores_and_catalogs() -> None:
    fleet, pool, name = Fleet(), HangingPool(), names_in(1)

    def write(store: str, catalog: str = "lake") -> str:
        event = fleet.lake.commit(uuid := name())
        added = replace(event.snapshots[0], manifest_list=f"s3://{store}/t/metadata/m.avro")
        table = replace(event.table, catalog=catalog)
        event = replace(event, table=table, snapshots=(added,))
        fleet.publisher.publish("table-commits", table.key, event)
        return uuid

    fleet.restart(pool)
    for store in ("a", "b", "a", "c"):
        for _ in range(20):
            write(store)
    fleet.pump.step(0)
    hanging = pool.tables()
    for catalog in ("other", "third"):
        uuid = write("d", catalog)
        fleet.pump.step(0)
        assert pool.tables() == [*hanging, uuid]
        pool.end(but=hanging)
        fleet.pump.step(0)
    fleet.lake.failing = dict.fromkeys(fleet.lake.heads, AWAY)
    fleet.lake.now += 80
    for _ in range(3):
        pool.end()
        fleet.pump.step(0)
        fleet.lake.now += 4
    assert len(pool.tables()) == 1  # the catalog is away: one try at a time


def test_stores_that_hang_one_after_the_other_leave_a_thread_to_the_next() -> None:
    fleet, pool, name = Fleet(), HangingPool(), names_in(1)
    hanging: list[str] = []
    for number in range(12):  # eight threads for those that are quick
        table = TableName(uuid := name(), ("db",), uuid, f"catalog-{number}")
        event = replace(fleet.lake.commit(uuid), table=table)
        added = replace(event.snapshots[0], manifest_list=f"s3://store-{number}/m.avro")
        event = replace(event, snapshots=(added,))
        if not number:
            fleet.restart(pool)
        fleet.publisher.publish("table-commits", table.key, event)
        fleet.pump.step(0)
        hanging.append(uuid)
        assert pool.tables() == hanging
        fleet.lake.now += 5.5


def test_what_was_read_for_another_process_is_not_sent() -> None:
    fleet, pool, name = Fleet(), HangingPool(), names_in(1)
    fleet.restart(pool)
    fleet.write(fleet.lake.commit(name()))
    fleet.pump.step(0)
    fleet.inbox.lose_partition("table-commits", 1)
    fleet.pump.step(0)
    assert len(pool.works) == 1  # it came again, and waits for the first read
    pool.end()
    fleet.pump.step(0)
    assert fleet.broker.records("file-changes") == []
    pool.end()
    fleet.pump.step(0)
    assert len(fleet.broker.records("file-changes")) == 1
