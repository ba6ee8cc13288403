"""The planner's benchmark sends what the enricher sends."""

from __future__ import annotations

from firnline_adapters.records.codec import RecordCodec

from bench.planner import fleet


def test_a_message_is_the_record_of_its_commit() -> None:
    key, value = fleet.message(3, 71)
    change = fleet.change(3, 71)
    assert (key, RecordCodec().decode(value)) == (change.table.key, change)
