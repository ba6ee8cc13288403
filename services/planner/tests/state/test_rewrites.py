"""What a change of a table's files comes to: orders, their ends and their repetition."""

from __future__ import annotations

from collections import Counter

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope
from firnline_domain.policy.cost_model import FIRNLINE, LearnedFactors, Work
from firnline_domain.records.events import (
    ChangeKind,
    PartitionChange,
    RewriteCommitted,
    RewriteSkipped,
)
from firnline_domain.records.orders import (
    RewriteFiles,
)
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.groups import parse_groups
from firnline_domain.settings.thresholds import ConversionPolicy

from tests.kit.partitions import decide
from tests.kit.planner_world import (
    LIMITS,
    TABLE,
    A,
    B,
    C,
    PlannerWorld,
    committed,
    conflicted,
    failed,
    only,
    orders,
    part,
    partition_of,
)

SMALL_ONES = tuple(Scope(0, f'["{number}"]') for number in range(8))
MB, GB = 1 << 20, 1 << 30
CONVERTING = replace(
    LIMITS, target_bytes=128 * MB, convert=ConversionPolicy.ALWAYS, cheap_bytes=1 << 50
)
GROUPS = replace(LIMITS, groups=parse_groups("etl,adhoc"))


def test_fragments_pile_up_until_an_order_and_only_one(world: PlannerWorld) -> None:
    assert [world.commit(part(A, 1)) for _ in range(7)] == [[]] * 7
    order = only(world.commit(part(A, 1)))
    assert (order.scope, order.reason, order.trigger_snapshot_id) == (A, "fragments", 8)
    assert world.commit(part(A, 50)) == []
    assert partition_of(world.state(), A).status == "in_flight"


def test_an_order_ends_when_the_counters_contain_its_commit(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    assert world.take(committed(order, 99)) == []
    assert partition_of(world.state(), A).status == "in_flight"  # told, but not yet in the counters
    world.commit(part(A, 1, 8), task_id=order.task_id)
    assert partition_of(world.state(), A).status == "cooling"


def test_the_committers_word_and_the_commit_may_come_in_any_order(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    world.commit(part(A, 1, 8))  # its task id is not known to the enricher
    world.take(committed(order, world.head))
    assert partition_of(world.state(), A).status == "cooling"


def test_a_commit_that_is_found_in_absolute_counters_ends_the_order(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(committed(order, 55, at_ms=world.now_ms + 5))
    world.take(world.change(60, 55, part(A, 1), kind=ChangeKind.ABSOLUTE))
    assert partition_of(world.state(), A).status == "cooling"


def test_one_snapshot_may_serve_several_tasks(world: PlannerWorld) -> None:
    orders = [one for one in world.commit(part(A, 8), part(B, 8)) if isinstance(one, RewriteFiles)]
    world.commit(part(A, 1, 8), part(B, 1, 8), task_id=",".join(one.task_id for one in orders))
    state = world.state()
    assert (partition_of(state, A).status, partition_of(state, B).status) == ("cooling", "cooling")


def test_a_rewrite_that_would_change_nothing_is_never_ordered(world: PlannerWorld) -> None:
    """Untouched-file hazard (H10): 8 fragments that cannot be merged are left; the same counters
    never order again."""
    order = only(world.commit(part(A, 8)))
    world.commit(part(A, 8, 8), task_id=order.task_id)
    assert all(not isinstance(one, RewriteFiles) for one in world.tick(DAY_MS))
    assert partition_of(world.state(), A).reason == "fixed_point"
    for _ in range(7):
        assert not world.commit(part(A, 1))
    assert only(world.commit(part(A, 1))).numbers["new_fragments"] == 8


def test_what_came_while_the_task_ran_is_debt(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    world.commit(part(A, 8))
    world.commit(part(A, 1, 8), task_id=order.task_id)
    again = only(world.tick(5_000))
    assert (again.scope, again.trigger_snapshot_id) == (A, 3)


def test_the_oldest_commit_has_an_age_when_it_is_ordered_and_when_it_is_done(
    world: PlannerWorld,
) -> None:
    world.commit(part(A, 1), timestamp_ms=world.now_ms - 3_000)
    world.now_ms += 5_000
    order = only(world.commit(part(A, 7)))
    assert world.effects.ages_at_order_ms == [8_020]  # each commit takes 10 ms
    world.now_ms += 1_000
    world.commit(part(A, 1), timestamp_ms=world.now_ms)
    world.restart()
    world.now_ms += 1_000
    world.commit(part(A, 1, 8), task_id=order.task_id)
    assert world.effects.ages_at_finish_ms == [10_040]
    world.now_ms += 3_000
    again = only(world.commit(part(A, 8)) + world.tick(5_000))
    assert world.effects.ages_at_order_ms == [9_030]  # of the commit that came meanwhile
    world.commit(part(A, 1, 8), task_id=again.task_id)
    assert len(world.effects.ages_at_finish_ms) == 1


def test_a_commit_of_long_ago_counts_from_when_it_was_seen(world: PlannerWorld) -> None:
    world.now_ms += 2 * DAY_MS
    only(world.commit(part(A, 8), timestamp_ms=5))
    assert world.effects.ages_at_order_ms == [0]


def test_a_skipped_task_sets_the_floor_too(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 9)))
    world.take(RewriteSkipped(order.task_id, TABLE, "main", A, "nothing_to_do", 0))
    assert not [one for one in world.tick(60_000) if isinstance(one, RewriteFiles)]
    assert partition_of(world.state(), A).reason == "fixed_point"


def test_an_order_that_ran_out_of_memory_goes_where_there_is_room(world: PlannerWorld) -> None:
    """Until three rewrites in a row succeeded there."""
    world.take(failed(only(world.commit(part(A, 8))), retryable=True))
    for _ in range(4):
        world.restart()
        order = only(world.tick(10_000) + world.commit(part(A, 8)))
        world.commit(part(A, 0, 8), task_id=order.task_id)
    lanes = [topic for topic in world.topics if topic.startswith("rewrite")]
    assert lanes == ["rewrite-tasks", *["rewrite-tasks-heavy"] * 3, "rewrite-tasks"]


def priced(world: PlannerWorld, took: RewriteCommitted) -> float:
    """CPU seconds that a like rewrite is foretold after sixty of these, and a restart."""
    for _ in range(60):
        world.take(took)
    world.restart()
    world.commit(part(B, 1))
    return partition_of(world.state(), B).numbers["rewrite_cpu_s"]


def test_prices_are_those_of_the_workers_that_there_are(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    took = replace(committed(order, 9), bytes_read=10**9, bytes_after=10**9)
    work = Work(10**9, 10**9, files=took.files_removed)
    expected_ms = int(1000 * FIRNLINE.wall_s(work))
    plain = priced(world, took)
    assert priced(world, replace(took, worked_ms=3 * expected_ms)) == pytest.approx(3 * plain, 0.02)
    fast = replace(took, worked_ms=expected_ms // 9)
    for other in (replace(fast, mode="handed_over"), replace(fast, redelivered=True), took):
        assert priced(world, other) == pytest.approx(3 * plain, 0.02)


def converting(world: PlannerWorld) -> RewriteCommitted:
    """10 GB of files of which the keys are 5 %, and 25 MB of fragments."""
    holds = FileTally(on_target=Tally(80, 10**8, 10 * GB), equality_deletes=Tally(4, 10**6, MB))
    [order] = orders(world.commit(PartitionChange(A, holds, FileTally())))
    keys = 10 * GB // 20
    work = Work(25 * MB + keys, 25 * MB, 10**6, files=3, converted=80)
    return replace(
        committed(order, 9),
        files_removed=3,
        bytes_before=25 * MB,  # of what was replaced: a conversion leaves the large files
        bytes_after=25 * MB,
        bytes_read=25 * MB,
        key_bytes=keys,
        delete_records=10**6,
        converted_bytes=10 * GB,
        worked_ms=int(1000 * FIRNLINE.wall_s(work)),
    )


def test_conversions_as_dear_as_the_model_says_move_no_price() -> None:
    """Their price was learned by the files they replace, of which there are few: after twenty of
    them every table of the bucket was believed to be ten times as dear."""
    world = PlannerWorld(limits=CONVERTING)
    took = converting(world)
    world.take(took)
    plain = priced(world, replace(took, worked_ms=None))
    assert priced(world, took) == pytest.approx(plain, 0.02)
    assert priced(world, replace(took, worked_ms=3 * took.worked_ms)) == pytest.approx(plain, 0.02)
    factors = dict(world.bucket.price_factors)
    assert factors == {"rewrites": 1.0, "conversions": pytest.approx(3.0, 0.02)}


def test_the_share_of_a_tables_keys_is_what_conversions_have_read() -> None:
    world = PlannerWorld(limits=CONVERTING)
    took = converting(world)
    for _ in range(10):
        world.take(took)
    deletes = FileTally(equality_deletes=Tally(4, 10**6, MB))
    world.commit(PartitionChange(A, FileTally(), deletes), task_id=took.task_id)
    [order] = orders(world.commit(PartitionChange(A, deletes, FileTally())) + world.tick(60_000))
    assert order.action == "convert"
    assert order.numbers["rewrite_bytes"] == pytest.approx(10 * GB / 20, rel=0.05)


def test_each_groups_workers_have_prices_of_their_own() -> None:
    world = PlannerWorld(limits=replace(GROUPS, group="etl"))
    order = only(world.commit(part(A, 8)))
    took = replace(committed(order, 9), bytes_read=10**9, bytes_after=10**9, worked_ms=1_000_000)
    for _ in range(60):
        world.take(took)
    state = world.bucket._state
    assert state.share.prices_of("etl").rewrites > 5
    assert state.share.prices_of("") == LearnedFactors()


def test_a_sort_teaches_what_sorts_take_and_nothing_else(world: PlannerWorld) -> None:
    full = PartitionChange(A, FileTally(on_target=Tally(8, 10**6, 4 * GB)), FileTally())
    order = only(world.commit(full, settings={"firnline.sort": "k"}))
    took = replace(committed(order, 9), bytes_read=10**9, bytes_after=10**9, worked_ms=1_000_000)
    assert order.action == "sort"
    world.take(took)
    prices = world.bucket._state.share.prices_of("")
    assert (prices.rewrites, prices.sorts) == (1.0, pytest.approx(1.149, abs=0.001))


def test_a_failed_task_is_tried_again_after_a_pause_as_the_same_task(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(failed(order, retryable=True))
    shown = partition_of(world.state(), A)
    assert (shown.status, shown.reason, shown.failures) == ("backing_off", "out_of_memory", 1)
    again = only(world.tick(10_000))
    assert (again.task_id, again.attempt) == (order.task_id, 2)


def test_an_order_that_came_again_after_its_commit_waits_for_the_committers_word(
    world: PlannerWorld,
) -> None:
    order = only(world.commit(part(A, 8)))
    world.take(replace(failed(order, retryable=True), reason="already_committed"))
    assert partition_of(world.state(), A).status == "in_flight"
    for _ in range(12):  # says nothing of the partition: never parked
        world.take(replace(failed(order, retryable=True), reason="trigger_gone"))
        assert partition_of(world.state(), A).status == "backing_off"
        order = only(world.tick(1_800_000))


def test_hopeless_failures_park_the_partition_until_settings_change(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    for _ in range(2):
        world.take(conflicted(order, ConflictReason.PROOF_FAILED))
        order = only(world.tick(3_600_000))
    world.take(failed(order, retryable=False))
    assert world.tick(3_600_000) is not None
    shown = partition_of(world.state(), A)
    assert (shown.status, shown.reason) == ("parked", "out_of_memory")
    noted = world.change(
        0, None, snapshot_id=None, settings={"firnline.rewrite.min-fragments": "2"}
    )
    assert only(world.take(noted)).scope == A


def test_a_conflict_that_planning_anew_can_solve_never_parks(world: PlannerWorld) -> None:
    order = only(world.commit(part(A, 8)))
    for _ in range(5):
        world.take(conflicted(order, ConflictReason.PIN_LOST))
        order = only(world.tick(1_800_000))
    assert order.attempt == 6


def test_a_full_table_serves_the_deepest_debt_and_the_rest_when_there_is_room() -> None:
    world = PlannerWorld(limits=replace(LIMITS, max_in_flight=1))
    deeper = [part(one, 40) for one in SMALL_ONES[1:]]
    sent = orders(world.commit(part(A, 8), part(B, 30), part(C, 20), *deeper))
    assert [one.scope for one in sent] == [*SMALL_ONES[1:], B]  # eight small ones for one large
    order = sent[-1]
    assert partition_of(world.state(), A).reason == "table_busy"
    after = only(world.commit(part(B, 1, 30), task_id=order.task_id))
    assert after.scope == C


def test_of_those_who_wait_goes_first_for_whom_readers_have_paid_most() -> None:
    """Not whoever is deepest in debt: the shallow would wait for as long as others come."""
    world = PlannerWorld(limits=replace(LIMITS, max_in_flight=1))
    first, *_ = orders(world.commit(*[part(one, 8) for one in SMALL_ONES]))
    world.commit(part(A, 8))
    world.tick(300_000)
    world.commit(part(B, 30))
    assert only(world.commit(part(first.scope, 1, 8), task_id=first.task_id)).scope == A


def test_a_large_rewrite_takes_the_places_of_eight_small_ones() -> None:
    world = PlannerWorld(
        limits=replace(LIMITS, max_in_flight=1, cheap_bytes=8, max_wait_ms=6 * HOUR_MS)
    )
    [small] = orders(world.commit(part(A, 8)))
    large = FileTally(fragments=Tally(9, 9, 3 * GB))
    world.commit(PartitionChange(B, large, FileTally()))
    assert not orders(world.tick(6 * HOUR_MS))  # paid for by now
    assert partition_of(world.state(), B).reason == "table_busy"
    assert only(world.commit(part(A, 1, 8), task_id=small.task_id)).scope == B
    assert not orders(world.commit(part(C, 8)))


def test_settings_of_the_table_decide(world: PlannerWorld) -> None:
    world.more = {"settings": {"firnline.enabled": "false"}}
    assert world.commit(part(A, 99)) == []
    assert partition_of(world.state(), A).reason == "disabled"
    world.more = {"settings": {"firnline.rewrite.min-fragments": "90"}}
    assert only(world.commit(part(B, 1))).scope == A


def test_the_debt_of_a_whole_lake_does_not_fall_due_in_one_minute() -> None:
    """1,000 tables are adopted in one second; all of them wait for `max-wait-ms`."""
    holds = FileTally(undersized=Tally(8, 8_000, 8 * 60 * MB))
    cheap = FileTally(fragments=Tally(3, 30, 3 * MB))
    for found, longest_ms in ((holds, DAY_MS), (cheap, HOUR_MS)):
        minutes, latest_ms = Counter[int](), 0
        for number in range(1_000):
            world = PlannerWorld(limits=replace(LIMITS, target_bytes=128 * MB))
            table = replace(TABLE, uuid=f"table-{number}")
            absolute = world.change(
                1, None, PartitionChange(A, found, FileTally()), kind=ChangeKind.ABSOLUTE,
                table=table, snapshot_count=1, oldest_snapshot_ms=0,
            )  # fmt: skip
            assert not orders(world.take(absolute))
            began_ms = world.now_ms
            partition = world.bucket._state.partition(table.uuid, "main", A)
            known = world.bucket._state.table(table.uuid, "main")
            assert partition is not None
            assert known is not None
            due_ms = decide(known, partition, world.limits, began_ms).until_ms
            assert due_ms is not None
            assert decide(known, partition, world.limits, due_ms).order
            minutes[due_ms // 60_000] += 1
            latest_ms = max(latest_ms, due_ms - began_ms)
        most_in_a_minute = 1_000 * 60_000 / (longest_ms / 2)  # spread evenly over half of the wait
        assert max(minutes.values()) <= 3 * most_in_a_minute + 5
        assert latest_ms <= longest_ms + 60_000


def test_places_are_taken_by_work() -> None:
    """One place is one large rewrite, four of 200 MB in two slots each, or eight small ones."""
    world = PlannerWorld(limits=replace(LIMITS, max_in_flight=1, max_wait_ms=HOUR_MS))
    added = FileTally(fragments=Tally(8, 8, 200 * MB))
    world.commit(*[PartitionChange(scope, added, FileTally()) for scope in SMALL_ONES])
    sent = orders(world.tick(HOUR_MS))
    assert {8 < order.numbers["rewrite_cpu_s"] <= 16 for order in sent} == {True}
    assert len(sent) == 4


def test_a_table_of_many_partitions_is_not_looked_through_with_every_commit() -> None:
    world = PlannerWorld(limits=replace(LIMITS, max_in_flight=1))
    scopes = [Scope(0, f'["{number:04}"]') for number in range(1_200)]
    sent = orders(world.commit(*[part(scope, 8) for scope in scopes]))
    assert len(sent) == 8
    for order in sent:
        after = world.commit(part(order.scope, 1, 8), task_id=order.task_id)
        assert not world.effects.fully_reconciled
        assert not orders(after)
    assert len(orders(world.tick(1_200))) == 8


def test_the_file_of_a_rewrite_and_one_more_are_not_two_that_have_come() -> None:
    """With `min-fragments` 2 a third append is left to wait for a fourth: no result was lost."""
    world = PlannerWorld(limits=replace(LIMITS, min_fragments=2, cool_down_ms=0))
    world.commit(part(A, 1))
    order = only(world.commit(part(A, 1)) + world.tick())
    world.commit(part(A, 1, 2), operation="replace", task_id=order.task_id)
    world.take(committed(order, world.head, at_ms=world.now_ms))
    assert orders(world.commit(part(A, 1)) + world.tick(60_000)) == []
    assert world.state().partitions[0].reason == "accumulating"
    assert only(world.commit(part(A, 1)) + world.tick()).reason == "fragments"
