"""Whoever moves tables, and whatever comes late: one bucket counts a table, and loses nothing."""

from __future__ import annotations

import pytest
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.records.assignments import HANDOVERS, TOPIC, Assign
from firnline_domain.records.events import (
    BucketLoaded,
    ChangeKind,
    PartitionChange,
    TableAssigned,
)
from firnline_domain.records.tallies import FileTally
from firnline_domain.values import replace
from firnline_planner.bucket import Bucket
from firnline_planner.inputs import (
    OPERATOR_ORDERS,
)

from tests.kit.assigned_fleet import (
    BUCKETS,
    LIMITS,
    TABLES,
    Stage,
    change,
    demand_recount,
    named,
    settled_on,
    tally,
)


def test_new_tables_go_to_the_lightest_bucket_once_all_have_told_of_their_load() -> None:
    stage = Stage()
    for bucket in range(BUCKETS):
        stage.tick(bucket, 10)
    stage.driver.hear()
    many = [TableName(f"{number}-many", ("db",), f"m{number}") for number in range(30)]
    for table in many:
        stage.commit(table)
    stage.work_off()
    counts = [len(stage.counting(one)) for one in many]
    assert counts == [1] * 30
    assert [one.tables for one in stage.driver.buckets] == [10, 10, 10]
    away = [one for one in many if stage.counting(one) != [bucket_of(one.uuid, BUCKETS)]]
    said = {one.table_uuid for _, one in stage.records(TOPIC) if isinstance(one, TableAssigned)}
    assert said == {one.uuid for one in away}


def test_what_a_table_has_of_people_and_of_orders_goes_with_it() -> None:
    stage, table = Stage(), TABLES[0]
    stage.commit(table)
    stage.commit(table)
    stage.work_off()
    [(_, order)] = stage.orders()
    stage.pause(table, True)
    target = settled_on(1, stage, table)
    found = stage.state(target).table(table.uuid, "main")
    assert found is not None
    assert [one.task_id for one in found.work.running] == [order.task_id]
    assert found.pause is not None
    assert stage.driver.buckets[target].paused == 1


def test_scans_find_the_table_where_it_is_and_go_with_it() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    for _ in range(3):
        stage.now_ms += 60_000
        stage.scan(table)
        stage.work_off()
    known = stage.state(target).table(table.uuid, "main")
    assert known is not None
    assert known.work.reads is not None
    assert 1.9 < known.work.reads.level < 2
    target = settled_on(2, stage, table)
    moved = stage.state(target).table(table.uuid, "main")
    assert moved is not None
    assert moved.work.reads == known.work.reads


def test_a_table_that_is_to_be_at_home_before_anybody_knows_it_stays_there() -> None:
    """Two topics: the order may be read before the table's first event."""
    stage, uuid = Stage(), TABLES[2].uuid
    home = bucket_of(uuid, BUCKETS)
    stage.commit(named(next(one.uuid for one in TABLES if one.uuid != uuid)))
    stage.work_off()
    for bucket in range(BUCKETS):
        stage.tick(bucket, 10)  # all tell of their load
    stage.move(named(uuid), None)
    stage.work_off()
    stage.commit(named(uuid))
    stage.work_off()
    assert stage.counting(named(uuid)) == [home]


def test_a_table_that_is_forgotten_is_not_assigned_any_more() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    gone = change(table, ChangeKind.REMOVED, 1, 0, stage.now_ms)
    stage.tell(gone)
    stage.work_off()
    for _ in range(3):
        stage.tick(target, 90_000)
        stage.work_off()
    home = bucket_of(table.uuid, BUCKETS)
    assert stage.counting(table) == []
    assert [*stage.state(home).routes(), *stage.state(target).routes()] == []
    assert stage.broker.logs[TOPIC, home][-1] == (table.uuid, b"")


def test_a_bucket_that_has_lost_a_table_is_handed_it_anew() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    stage.broker.logs[HANDOVERS, target].clear()  # retention
    stage.driver.pairs[target].values.clear()
    stage.driver.restart()
    stage.commit(table)
    stage.settle()
    demand_recount(stage)
    assert stage.counting(table) == [target]


def test_a_record_that_has_waited_and_fails_takes_nothing_with_it() -> None:
    stage, table = Stage(), TABLES[0]
    settled_on(1, stage, table)
    stage.move(table, None)
    stage.step(OPERATOR_ORDERS, bucket_of(table.uuid, BUCKETS))
    stage.move(table, 99)  # waits, and no bucket has that number
    stage.meant.clear()
    stage.commit(table)
    stage.settle()
    demand_recount(stage)
    assert [one.reason for _, one in stage.records("dead-letters")] == ["no_such_bucket"]


@pytest.mark.parametrize("to", [None, 0, 1, 2])
@pytest.mark.parametrize("pulled", [True, False])
def test_what_waits_for_a_table_comes_in_its_order(to: int | None, pulled: bool) -> None:
    stage, table = Stage(), TABLES[0]
    settled_on(1, stage, table)
    home = bucket_of(table.uuid, BUCKETS)
    stage.move(table, (home + 2) % BUCKETS)
    stage.step(OPERATOR_ORDERS, home)
    stage.pause(table, not pulled)
    stage.pause(table, pulled)
    stage.move(table, to)
    while stage.has_read(OPERATOR_ORDERS, home):
        pass
    assert stage.counting(table) != []  # nobody has answered yet
    stage.settle()
    demand_recount(stage)
    assert stage.counting(table) == [home if to is None else to]


def test_a_big_table_goes_in_chunks() -> None:
    stage, table = Stage(), TABLES[0]
    stage.commit(table)
    stage.work_off()
    parts = tuple(
        PartitionChange(Scope(1, f'["{number:04}{"x" * 100}"]'), tally(1), FileTally())
        for number in range(3_000)
    )
    wide = change(table, ChangeKind.DELTA, 2, 1, stage.now_ms)
    stage.tell(replace(wide, partitions=parts))
    stage.work_off()
    target = (bucket_of(table.uuid, BUCKETS) + 1) % BUCKETS
    stage.move(table, target)
    stage.work_off()
    assert max(len(value) for _, value in stage.broker.logs[HANDOVERS, target]) < 1_000_000
    assert len(stage.broker.logs[HANDOVERS, target]) > 1
    assert stage.counting(table) == [target]
    assert len(list(stage.state(target).partitions(table.uuid, "main"))) == 3_001


def test_by_the_hash_no_bucket_begins_with_tables_that_are_elsewhere() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    for bucket in (target, bucket_of(table.uuid, BUCKETS)):
        with pytest.raises(Misconfigured, match="firnline move TABLE --home"):
            Bucket(stage.driver.pairs[bucket], LIMITS)
    stage.move(table, None)
    stage.work_off()
    stage.assign = Assign.HASH
    for pairs in stage.driver.pairs:
        Bucket(pairs, LIMITS)


def test_by_the_hash_an_order_to_move_is_put_aside() -> None:
    stage = Stage(Assign.HASH)
    stage.move(TABLES[0], 1)
    stage.commit(TABLES[0])
    stage.driver.run()
    assert [one.reason for _, one in stage.records("dead-letters")] == ["not_assigned"]
    assert stage.counting(TABLES[0]) == [bucket_of(TABLES[0].uuid, BUCKETS)]
    assert stage.records(HANDOVERS) == stage.records(TOPIC) == []


def test_what_is_kept_by_table_stays_in_one_partition() -> None:
    stage, table = Stage(), TABLES[0]
    target = settled_on(1, stage, table)
    for _ in range(3):
        stage.tick(target, 100)
    assert {place for place, _ in stage.records("table-states")} == {bucket_of(table.uuid, BUCKETS)}


def test_files_weigh_where_files_are_asked_for() -> None:
    stage = Stage(Assign.FILES)
    for _ in range(5):
        stage.commit(TABLES[0])
    stage.work_off()
    stage.driver.restart()  # a start reads them
    [bucket] = stage.counting(TABLES[0])
    stage.tick(bucket, 10)
    told = [one for _, one in stage.records(TOPIC) if isinstance(one, BucketLoaded)]
    assert [(one.bucket, one.tables, one.files) for one in told][-1] == (bucket, 1, 5)
