"""Whoever moves tables, and whatever comes late: one bucket counts a table, and loses nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.policy.fleet import placement
from firnline_domain.records.assignments import HANDOVERS, TOPIC
from firnline_domain.records.events import (
    BucketLoaded,
    ChangeKind,
    PartitionChange,
    TableAssigned,
)
from firnline_domain.records.parts.tallies import FileTally
from firnline_planner.bucket.inputs import OPERATOR_ORDERS

from tests.kit.assigned_fleet import (
    BUCKETS,
    TABLES,
    Stage,
    change,
    demand_recount,
    named,
    settled_on,
    tally,
)


def many(number: int) -> list[TableName]:
    return [TableName(f"{one}-many", ("db",), f"m{one}") for one in range(number)]


def at_home(bucket: int, number: int) -> list[TableName]:
    """Tables whose home is that bucket."""
    return [one for one in many(500) if bucket_of(one.uuid, BUCKETS) == bucket][:number]


def said(stage: Stage) -> list[TableAssigned]:
    return [one for _, one in stage.records(TOPIC) if isinstance(one, TableAssigned)]


def told_loads(stage: Stage, *loads: int) -> None:
    """As if the buckets had told of these."""
    for bucket, load in enumerate(loads):
        record = encode_record(BucketLoaded(bucket, 10, load, stage.now_ms))
        stage.broker.logs[TOPIC, bucket % BUCKETS].append((f"bucket/{bucket}", record))
    stage.driver.hear()


def test_a_new_table_is_at_home_also_where_that_is_hot() -> None:
    stage = Stage()
    for _ in range(2):
        told_loads(stage, 90_000, 20_000, 10_000)
        for bucket in range(BUCKETS):
            stage.tick(bucket, 0)
    for table in many(30):
        stage.commit(table)
    stage.work_off()
    assert all(stage.counting(one) == [bucket_of(one.uuid, BUCKETS)] for one in many(30))
    assert said(stage) == []


def busy(stage: Stage, commits: Mapping[TableName, int]) -> None:
    """Each table commits so often within a window, and all is worked off."""
    for table, times in commits.items():
        for _ in range(times):
            stage.commit(table)
    stage.work_off()


def test_a_hot_bucket_hands_over_by_itself_and_that_is_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two steps a commit, in windows of three minutes."""
    monkeypatch.setattr(placement, "MIN_EXCESS", 10)
    stage, tables = Stage(), at_home(0, 6)
    commits = dict.fromkeys(tables, 30)
    for _ in range(2):  # the first window was not seen from its beginning
        stage.pass_window()
        busy(stage, commits)
    stage.pass_window()
    assert all(len(stage.counting(one)) == 1 for one in tables)
    moved = [one for one in tables if stage.counting(one) != [0]]
    assert 2 <= len(moved) <= 3  # to one of the two others, no heavier then than the hot one
    assert {one.reason for one in said(stage)} == {
        "planner: bucket 0: 122 steps a minute, 41 is the mean"  # two are of time, not of commits
    }
    counted = len(said(stage))
    assert counted == len(moved)
    for _ in range(5):  # 1.5 times the mean is not hot yet
        busy(stage, commits)
        stage.pass_window()
    assert len(said(stage)) == counted


def test_added_buckets_take_tables_and_the_fleets_pause() -> None:
    stage, table = Stage(), TABLES[0]
    stage.pause_fleet(True)
    stage.commit(table)
    stage.work_off()
    stage.grow(5)
    stage.tick(0, 1)  # the home that tells the others
    stage.move(table, 4)
    stage.work_off()
    assert stage.counting(table) == [4]
    assert stage.state(4).pause_of(None)
    stage.pause_fleet(False)
    stage.work_off()
    assert stage.state(4).pause_of(None) is None
    assert stage.state(3).pause_of(None) is None
    stage.commit(table)
    stage.settle()
    demand_recount(stage)
    assert stage.orders()[-1][0] == 4
    for topic in ("table-states", "bucket-assignments", "resync-requests", "dead-letters"):
        assert all(bucket < BUCKETS for bucket, _ in stage.records(topic)), topic


def test_a_table_goes_to_no_bucket_that_is_not_there_yet() -> None:
    stage, table = Stage(), TABLES[0]
    stage.commit(table)
    stage.move(table, 4)
    stage.work_off()
    assert [one.reason for _, one in stage.records("dead-letters")] == ["no_such_bucket"]
    assert stage.counting(table) == [bucket_of(table.uuid, BUCKETS)]


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
    assert stage.driver.buckets[target].paused_table_count == 1


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


def test_a_table_handed_over_by_a_newer_planner_is_counted_anew() -> None:
    stage, table = Stage(), TABLES[0]
    stage.commit(table)
    stage.work_off()
    home = bucket_of(table.uuid, BUCKETS)
    target = (home + 1) % BUCKETS
    stage.move(table, target)
    stage.step(OPERATOR_ORDERS, home)
    log = stage.broker.logs[HANDOVERS, target]
    key, value = log[-1]
    handed = RecordCodec().decode(value)
    pairs = tuple(replace(pair, value=b"\x02" + pair.value[1:]) for pair in handed.pairs)
    log[-1] = (key, encode_record(replace(handed, pairs=pairs)))
    stage.work_off()
    assert [one.reason for _, one in stage.records("dead-letters")] == ["unreadable_handover"]
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


def test_by_the_hash_an_order_to_move_is_put_aside() -> None:
    stage = Stage(assigns=False)
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
