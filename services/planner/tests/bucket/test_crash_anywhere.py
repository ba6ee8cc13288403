"""A crash after any single write: what is left is a prefix of the changelog, and the log is read
again from the cursor in it. The counters come out exact, without asking anybody.
"""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.identity import Scope, TableName, task_id
from firnline_domain.records.events import ChangeKind, FilesChanged, PartitionChange
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.state.bucket_state import BucketState

from tests.kit.memory_store import MemoryStore

TABLE = TableName("u", ("db",), "t")
A, B, PLAIN = Scope(1, '["a"]'), Scope(1, '["b"]'), Scope(0, "[]")
LIMITS = Thresholds(quiet_ms=0)
NOW = 1_000_000
TOPIC = "file-changes"


class Changelog(MemoryStore):
    """KeyValueStore that remember every write in order."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.writes.append((key, value))
        super().put(key, value)

    def delete(self, key: bytes) -> None:
        self.writes.append((key, None))
        super().delete(key)


def restored(writes: list[tuple[bytes, bytes | None]]) -> MemoryStore:
    pairs = MemoryStore()
    for key, value in writes:
        if value is None:
            pairs.values.pop(key, None)
        else:
            pairs.values[key] = value
    return pairs


def change(snapshot: int, parent: int | None, *parts: PartitionChange, **more: Any) -> FilesChanged:
    values: dict[str, Any] = {
        "event_id": f"e{snapshot}",
        "table": TABLE,
        "ref": "main",
        "kind": ChangeKind.DELTA,
        "snapshot_id": snapshot,
        "parent_snapshot_id": parent,
        "sequence_number": 0,
        "timestamp_ms": 0,
        "operation": "append",
        "partitions": parts,
        "format_version": 1,
        "observed_at_ms": snapshot,
        **more,
    }
    return FilesChanged(**values)


def part(scope: Scope, added: int, removed: int = 0, deletes: int = 0) -> PartitionChange:
    gained = FileTally(
        fragments=Tally(added, added, added), equality_deletes=Tally(deletes, deletes, deletes)
    )
    return PartitionChange(scope, gained, FileTally(fragments=Tally(removed, removed, removed)))


LOG = [
    change(1, None, part(A, 2), part(B, 3)),
    change(2, 1, part(A, 1), part(PLAIN, 1, deletes=2)),
    change(4, 3, part(A, 1), part(B, 1)),  # early: held, and folded with the next
    change(3, 2, part(A, 2)),
    change(5, 4, part(A, 0, 6), part(B, 9)),  # empties a partition; orders another
    change(6, 5, part(A, 4), chunk=0, chunks=2),
    change(6, 5, part(B, 5), chunk=1, chunks=2),
    change(9, 8, part(A, 7), part(PLAIN, 2), kind=ChangeKind.ABSOLUTE),
    change(10, 9, part(A, 1), part(B, 1)),  # orders one
    change(11, 10, part(A, 3)),  # comes while the order is out
    change(12, 11, part(A, 1, 8), task_id=task_id("u", "main", '1:["a"]', "compact", 10)),
]


def play(pairs: MemoryStore, upto: int = len(LOG)) -> list[str]:
    """Task ids ordered while the log is read from the cursor on."""
    bucket, orders = PlannerBucket(pairs, LIMITS), []
    for offset in range(bucket.next_offset(TOPIC), upto):
        step = bucket.handle(LOG[offset], NOW)
        orders += [o.record.task_id for o in step.outputs if isinstance(o.record, RewriteFiles)]
        assert not [o for o in step.outputs if o.topic == "resync-requests"]
        bucket.advance_offset(TOPIC, offset)
        bucket.commit()
    return orders


def counters(pairs: MemoryStore) -> tuple[Table, dict[Scope, Partition]]:
    state = BucketState(pairs)
    table = state.table("u", "main")
    assert table is not None
    current = {
        one.counters.scope: one
        for one in state.partitions("u", "main")
        if one.counters.epoch == table.counters.epoch
    }
    return table, current


def whole_run() -> tuple[Changelog, list[str]]:
    pairs = Changelog()
    return pairs, play(pairs)


WRITES = len(whole_run()[0].writes)


@pytest.mark.parametrize("kept", range(WRITES + 1))
def test_the_counters_are_exact_after_a_crash_at(kept: int) -> None:
    whole, orders = whole_run()
    after = restored(whole.writes[:kept])
    again = play(after)
    expected, found = counters(whole), counters(after)
    assert found[0].counters.totals.holds == expected[0].counters.totals.holds
    assert found[0].counters.head_snapshot_id == expected[0].counters.head_snapshot_id
    assert found[0].counters.waiting == expected[0].counters.waiting
    assert {scope: one.counters.holds for scope, one in found[1].items()} == {
        scope: one.counters.holds for scope, one in expected[1].items()
    }
    assert {scope: one.work.floor for scope, one in found[1].items()} == {
        scope: one.work.floor for scope, one in expected[1].items()
    }
    assert set(again) <= set(orders)
    running = {task.task_id for task in found[0].work.running}
    assert running == {task.task_id for task in expected[0].work.running}


@pytest.mark.parametrize("upto", range(len(LOG)))
def test_what_is_read_again_changes_nothing(upto: int) -> None:
    pairs = Changelog()
    play(pairs)
    before = counters(pairs)
    bucket = PlannerBucket(pairs, LIMITS)
    assert bucket.handle(LOG[upto], NOW).outputs == []
    bucket.advance_offset(TOPIC, upto)
    bucket.commit()
    assert (bucket.next_offset(TOPIC), counters(pairs)) == (len(LOG), before)
