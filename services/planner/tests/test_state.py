"""One bucket's state: what is staged is seen at once, and kept or forgotten as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import MAIN, Scope, TableName
from firnline_domain.records.assignments import BucketRoute
from firnline_domain.records.pauses import Pause
from firnline_planner.state.bucket_state import BucketState
from firnline_planner.state.encoding import PAUSE, pause_key

from tests.kit.memory_store import MemoryStore

NAME = TableName("u1", ("db",), "t")
TABLE = Table(TableCounters(NAME, MAIN))
PARTS = [Partition(PartitionCounters(Scope(0, f'["{x}"]'))) for x in "ab"]
ALL, OURS = Pause(1, "all", ""), Pause(2, "one", "")


def parts(state: BucketState) -> list[Partition]:
    return list(state.partitions(NAME.uuid, MAIN))


def changed(part: Partition) -> Partition:
    return replace(part, counters=replace(part.counters, ordinal=7))


def test_what_is_staged_is_seen_and_not_kept_before_its_commit() -> None:
    pairs = MemoryStore()
    state = BucketState(pairs)
    state.put_table(TABLE)
    state.put_partition(NAME.uuid, MAIN, PARTS[0])
    state.put_route(NAME.uuid, BucketRoute(5, 2))
    state.put_pause(NAME.uuid, OURS)
    state.advance_offset("topic", 41)
    assert pairs.values == {}
    for one in (state, state):
        assert one.table(NAME.uuid, MAIN) == replace(TABLE, pause=OURS)
        assert parts(one) == PARTS[:1]
        assert one.route(NAME.uuid) == BucketRoute(5, 2)
        assert one.next_offset("topic") == 42
        one.commit()
    again = BucketState(pairs)
    assert again.table(NAME.uuid, MAIN) == replace(TABLE, pause=OURS)
    assert parts(again) == PARTS[:1]
    assert list(again.routes()) == [BucketRoute(5, 2)]
    assert again.next_offset("topic") == 42


def test_an_attempt_that_fails_is_undone_and_nothing_else() -> None:
    state = BucketState(MemoryStore())
    for part in PARTS:
        state.put_partition(NAME.uuid, MAIN, part)
    state.commit()
    state.put_partition(NAME.uuid, MAIN, changed(PARTS[0]))
    state.put_pause(NAME.uuid, OURS)

    def change_partition(inner: BucketState) -> None:
        inner.put_partition(NAME.uuid, MAIN, changed(PARTS[1]))

    def fail(outer: BucketState) -> None:
        outer.run_undoable(change_partition, outer)
        outer.put_route(NAME.uuid, BucketRoute(5, 2))
        outer.put_pause(NAME.uuid, None)
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            state.run_undoable(fail, state)
        assert {*parts(state)} == {changed(PARTS[0]), PARTS[1]}
        assert state.route(NAME.uuid) is None
        assert state.pause_of(NAME.uuid) == OURS
    state.commit()
    assert {*parts(state)} == {changed(PARTS[0]), PARTS[1]}


def test_an_attempt_whose_value_cannot_be_written_is_undone() -> None:
    """Found out only at the commit, it would take along all that was handled with it."""
    state = BucketState(MemoryStore())
    state.put_table(TABLE)
    odd: Any = object()
    unwritable = replace(TABLE, work=replace(TABLE.work, published_ms=odd))
    with pytest.raises(TypeError):
        state.run_undoable(state.put_table, unwritable)
    assert state.table(NAME.uuid, MAIN) == TABLE
    state.commit()


def test_the_fleets_switch_holds_for_all_and_leaves_a_tables_own_as_it_is() -> None:
    store = MemoryStore()
    state = BucketState(store)
    state.put_pause(NAME.uuid, OURS)
    state.put_pause(None, ALL)
    state.commit()
    assert (state.pause_in_force(NAME.uuid), state.pause_in_force("u2")) == (ALL, ALL)
    assert state.pause_of(NAME.uuid) == OURS
    state.put_pause(None, None)
    assert (state.pause_in_force(NAME.uuid), state.pause_in_force("u2")) == (OURS, None)
    state.commit()
    assert [key for key, _ in store.scan(PAUSE)] == [pause_key(NAME.uuid)]


def test_what_is_larger_than_the_store_takes_is_poison() -> None:
    store = MemoryStore()
    state = BucketState(store)
    store.max_value_bytes = 50
    state.put_table(TABLE)
    with pytest.raises(PoisonousRecord) as poison:
        state.demand_small()
    assert poison.value.reason == "state_too_large"
    store.max_value_bytes = 5_000
    state.demand_small()


def test_a_dropped_table_takes_its_switch_along() -> None:
    pairs = MemoryStore()
    state = BucketState(pairs)
    state.put_table(TABLE)
    state.put_pause(NAME.uuid, OURS)
    state.commit()
    state.drop_table(TABLE)
    assert state.dropped_tables() == [NAME.uuid]
    state.commit()
    assert state.pause_of(NAME.uuid) is None
    assert pairs.values == {}


def test_records_that_were_taken_wait_no_more() -> None:
    pairs = MemoryStore()
    state = BucketState(pairs)
    state.put_waiting(NAME.uuid, 0, b"kept")
    state.commit()
    state.put_waiting(NAME.uuid, 1, b"staged")
    assert state.take_waiting(NAME.uuid, 2) == [b"kept", b"staged"]
    assert state.take_waiting(NAME.uuid, 2) == []
    state.commit()
    assert pairs.values == {}


def test_a_repeated_record_moves_no_cursor_back() -> None:
    state = BucketState(MemoryStore())
    assert state.has_read_nothing
    state.advance_offset("topic", 41)
    state.advance_offset("topic", 7)
    state.commit()
    state.advance_offset("topic", 8)
    assert state.next_offset("topic") == 42
    assert not state.has_read_nothing
