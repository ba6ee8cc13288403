"""Random stories of moves, kills and late records: one bucket counts a table, and all of it."""

from __future__ import annotations

from typing import Any

from firnline_domain.identity import bucket_of
from firnline_planner.bucket.inputs import BY_BUCKET, WITH_HANDOVERS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.assigned_fleet import (
    BUCKETS,
    TABLES,
    Stage,
    demand_recount,
    named,
)

tables, buckets = st.sampled_from(TABLES), st.integers(0, BUCKETS - 1)
with_added = st.integers(0, BUCKETS + 1)
tellers = st.sampled_from([None, 0, 1, 2])
places = st.one_of(
    st.tuples(st.sampled_from(WITH_HANDOVERS), buckets),
    st.tuples(st.sampled_from(BY_BUCKET), with_added),
)
starts = st.lists(st.one_of(buckets, st.none()), min_size=len(TABLES), max_size=len(TABLES))
acts = st.one_of(
    st.tuples(st.just("commit"), tables, tellers),
    st.tuples(st.just("commit"), tables, tellers),
    st.tuples(st.just("again"), tables, tellers),
    st.tuples(st.just("move"), tables, st.one_of(with_added, st.none())),
    st.tuples(st.just("grow"), with_added),
    st.tuples(st.just("pause"), tables, st.booleans()),
    st.tuples(st.just("scan"), tables),
    st.tuples(st.just("hear"), st.integers(0, 2)),
    st.tuples(st.just("planners hear")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("tick"), with_added, st.integers(1, 6)),
    st.tuples(st.just("astray"), tables, with_added),
    *[st.tuples(st.just("step"), places)] * 4,
    *[st.tuples(st.just("drain"), places)] * 4,
)


def play(stage: Stage, story: list[tuple[Any, ...]]) -> None:
    for act in story:
        match act:
            case ("commit", table, teller):
                stage.commit(table, teller)
            case ("again", table, teller) if stage.files[table.uuid]:
                stage.tell(stage.delta(table, stage.files[table.uuid]), teller)
            case ("move", table, bucket) if (bucket or 0) < stage.broker.buckets:
                stage.move(table, bucket)
            case ("grow", last) if last >= stage.broker.buckets:
                stage.grow(last + 1)
            case ("pause", table, pulled):
                stage.pause(table, pulled)
            case ("scan", table):
                stage.scan(table)
            case ("hear", teller):
                stage.heard[teller].catch_up()
            case ("planners hear",):
                stage.driver.hear()
            case ("restart",):
                stage.driver.restart()
            case ("tick", bucket, seconds) if bucket < stage.broker.buckets:
                stage.tick(bucket, seconds)
            case ("astray", table, bucket) if bucket < stage.broker.buckets:
                stage.commit_to(bucket, table)
            case ("step", place) if place[1] < stage.broker.buckets:
                stage.step(*place)
            case ("drain", place) if place[1] < stage.broker.buckets:
                while stage.has_read(*place):
                    pass


def begin(stage: Stage, where: list[int | None]) -> None:
    """Each table is somewhere, and has been elsewhere before."""
    for number, (table, bucket) in enumerate(zip(TABLES, where, strict=True)):
        stage.commit(table)
        stage.move(table, number)
        stage.work_off()
        stage.move(table, bucket)
        stage.work_off()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(st.just([]), starts),
    st.lists(acts, min_size=5, max_size=60),
)
def test_one_bucket_counts_a_table_and_counts_all_of_it(
    where: list[int | None], story: list[tuple[Any, ...]]
) -> None:
    stage = Stage()
    if where:
        begin(stage, where)
    play(stage, story)
    stage.work_off()
    out = {one.task_id for _, one in stage.orders()}
    running = set()
    for table in TABLES:
        for bucket in stage.counting(table):
            found = stage.state(bucket).table(table.uuid, "main")
            running |= {one.task_id for one in found.work.running} if found else set()
    assert running == out  # no order is forgotten on the way, so none is given twice
    assert not stage.records("dead-letters")
    stage.settle()
    demand_recount(stage)
    for uuid, bucket in stage.meant.items():
        if stage.files[uuid]:
            assert stage.counting(named(uuid)) == [
                bucket_of(uuid, BUCKETS) if bucket is None else bucket
            ]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(starts, st.lists(acts, max_size=30), st.lists(acts, max_size=40))
def test_a_fleet_whose_state_is_lost_finds_its_tables_where_they_were(
    where: list[int | None], before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    """Nothing is left but the topics, and they are read again."""
    stage = Stage()
    begin(stage, where)
    play(stage, before)
    stage.twice = stage.on_their_way()
    stage.driver = stage.planners()
    play(stage, after)
    stage.settle()
    stage.twice = frozenset()
    for table in TABLES:  # without a last commit nobody could know of what was lost
        stage.commit(table)
    stage.settle()
    demand_recount(stage)
