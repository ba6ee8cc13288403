"""What people see never keeps an order waiting, and is seen in the end."""

from __future__ import annotations

from typing import Any

from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import FilesChanged, PartitionChange, TickPassed
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableState
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.drivers.kafka.driver import (
    BATCH_RECORDS,
    MAX_PUBLICATIONS,
    MIN_PUBLICATIONS,
    room_for_publications,
)
from firnline_planner.reconcile.schedule import Due, TableSchedule
from firnline_planner.state.effects import Output

from tests.kit.changes import delta
from tests.kit.memory_store import MemoryStore

SCOPE = Scope(0, "[]")
LIMITS = Thresholds(quiet_ms=5_000, hot_ms=0, min_fragments=8)


def created(number: int, at_ms: int) -> FilesChanged:
    """A new table with as many fragments as deserve an order once they are quiet."""
    files = FileTally(fragments=Tally(8, 80, 800))
    table = TableName(f"u{number:02}", ("db",), f"t{number}")
    part = PartitionChange(SCOPE, files, FileTally())
    return delta(table, 1, at_ms, part, event_id=f"e{number}", snapshot_id=number + 1)


def ticked(bucket: PlannerBucket, now_ms: int, keep: bool = True) -> list[Output]:
    outputs = bucket.handle(TickPassed(0, now_ms), now_ms).outputs
    if keep:
        bucket.commit()
    else:
        bucket.discard()
    return outputs


def lived(tables: int) -> PlannerBucket:
    bucket = PlannerBucket(MemoryStore(), LIMITS)
    for number in range(tables):
        bucket.handle(created(number, 1_000), 1_000)
        bucket.commit()
    return bucket


def names(outputs: list[Output], kind: type[Any]) -> list[str]:
    return [one.record.table.uuid for one in outputs if isinstance(one.record, kind)]


def test_shows_wait_for_their_turn_and_all_have_one() -> None:
    bucket = lived(5)
    bucket.max_publications = 2
    shown = [names(ticked(bucket, now_ms), TableState) for now_ms in (2_001, 2_002, 2_003)]
    assert shown == [["u00", "u01"], ["u02", "u03"], ["u04"]]


def test_whoever_has_more_to_show_says_so() -> None:
    bucket = lived(3)
    bucket.max_publications = 2
    for now_ms, behind in ((2_001, True), (2_002, False)):
        bucket.handle(TickPassed(0, now_ms), now_ms)
        assert bucket.is_behind == behind
        bucket.commit()


def test_orders_do_not_wait_behind_shows() -> None:
    bucket = lived(30)
    bucket.max_publications = 1
    outputs = ticked(bucket, 6_001)
    assert len(names(outputs, TableState)) == 1
    assert len(names(outputs, RewriteFiles)) == 30


def test_what_was_not_kept_is_due_again() -> None:
    bucket = lived(3)
    bucket.max_publications = 1
    told = ticked(bucket, 6_001, keep=False)
    assert [one.topic for one in ticked(bucket, 6_002)] == [one.topic for one in told]
    agenda = TableSchedule()
    agenda.put_back(Due([b"look"], [b"show"]), 5)
    assert agenda.take_due(4, None, None) == Due([], [])
    assert agenda.take_due(5, None, None) == Due([b"look"], [b"show"])


def test_after_a_start_every_table_is_looked_at_and_shown() -> None:
    pairs = MemoryStore()
    first = PlannerBucket(pairs, LIMITS)
    for number in range(4):
        first.handle(created(number, 1_000), 1_000)
        first.commit()
    again = PlannerBucket(pairs, LIMITS)
    outputs = [*ticked(again, 6_001), *ticked(again, 6_002)]
    assert len(names(outputs, RewriteFiles)) == len(names(outputs, TableState)) == 4


def test_a_round_has_room_for_records_and_shows_together() -> None:
    assert room_for_publications(0, 1) == room_for_publications(0, 0) == MAX_PUBLICATIONS
    assert room_for_publications(BATCH_RECORDS - 80, 8) == 10
    assert room_for_publications(BATCH_RECORDS, 8) == MIN_PUBLICATIONS // 8
    assert room_for_publications(BATCH_RECORDS, 1_000) == room_for_publications(0, 5_000) == 1
