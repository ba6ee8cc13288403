"""A record that a handler fails on is put aside like one that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.identity import bucket_of
from firnline_domain.records.assignments import Board
from firnline_domain.records.events import KeptPair, RewriteSkipped, TableHanded, TickPassed
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.bucket.inputs import Input, InputReader
from firnline_planner.placement.routing import BucketFleet
from firnline_planner.state.effects import Effects
from firnline_planner.state.encoding import ref_key

from tests.kit.memory_store import MemoryStore
from tests.kit.names import TABLE


class Clock(PlannerBucket):
    """Notes the time that it is told."""

    told_ms = 0

    def handle(self, record: Any, now_ms: int) -> Effects:
        self.reported_ms = now_ms
        return super().handle(record, now_ms)


class Broken(PlannerBucket):
    """Half done when it fails."""

    def handle(self, record: Any, now_ms: int) -> Effects:
        self.advance_offset("half-done", 7)
        raise ZeroDivisionError("a bug")


def came(value: bytes, topic: str = "maintenance-events") -> Input:
    return Input(topic, 3, 41, b"u", value)


def skipped() -> bytes:
    return encode_record(RewriteSkipped("t", TABLE, "main", None, "r", 1))


@pytest.fixture
def reader() -> InputReader:
    return InputReader(RecordCodec(), Log("planner"))


def test_a_bug_costs_one_record_and_leaves_nothing_half_done(reader: InputReader) -> None:
    bucket = Broken(MemoryStore(), Thresholds())
    [output] = reader.read_and_handle(came(skipped()), bucket, 5).outputs
    assert (output.topic, output.record.reason) == ("dead-letters", "handler_failed")
    assert (output.record.value, output.record.offset) == (skipped(), 41)
    bucket.commit()
    assert bucket.next_offset("half-done") == 0
    assert bucket.next_offset("maintenance-events") == 42


def assigned_bucket() -> PlannerBucket:
    """A bucket that is not the table's default one."""
    assert bucket_of(TABLE.uuid, 8) != 0
    routing = BucketFleet(Board(8), RecordCodec()).create_routing(0)
    return PlannerBucket(MemoryStore(), Thresholds(), routing=routing)


def handed_table(value: bytes) -> Input:
    """The table's state is these bytes."""
    pair = KeptPair(ref_key(TABLE.uuid, "main"), value)
    return came(encode_record(TableHanded(TABLE.uuid, 5, (pair,))), "table-handovers")


@pytest.mark.parametrize("value", [b"\x07newer", b"", b"\x01torn"])
def test_a_handed_table_that_cannot_be_read_costs_one_record(
    reader: InputReader, value: bytes
) -> None:
    bucket = assigned_bucket()
    effects = reader.read_and_handle(handed_table(value), bucket, 5)
    assert [one.record.reason for one in effects.outputs] == ["unreadable_handover"]
    bucket.commit()
    assert bucket.next_offset("table-handovers") == 42


def test_time_is_that_of_the_tick_and_else_the_clock(reader: InputReader) -> None:
    bucket = Clock(MemoryStore(), Thresholds())
    reader.read_and_handle(came(encode_record(TickPassed(3, 1234)), "ticks"), bucket, 9999)
    assert bucket.reported_ms == 1234
    reader.read_and_handle(came(skipped()), bucket, 9999)
    assert bucket.reported_ms == 9999


def test_a_record_that_came_again_moves_no_cursor_back(reader: InputReader) -> None:
    bucket = PlannerBucket(MemoryStore(), Thresholds())
    for offset in (41, 40):
        reader.read_and_handle(Input("file-changes", 3, offset, b"u", skipped()), bucket, 1)
        bucket.commit()
    assert bucket.next_offset("file-changes") == 42


def test_ticks_have_no_cursor(reader: InputReader) -> None:
    bucket = PlannerBucket(MemoryStore(), Thresholds())
    reader.read_and_handle(came(encode_record(TickPassed(3, 1234)), "ticks"), bucket, 1)
    bucket.commit()
    assert bucket.next_offset("ticks") == 0
