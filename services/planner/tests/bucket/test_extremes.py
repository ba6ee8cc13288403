"""Whatever numbers a record has that its reader takes, the planner goes on, and is understood."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.codec import RecordCodec, check_kind, encode_record
from firnline_domain.errors import PoisonousRecord
from firnline_domain.settings.thresholds import Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.bucket.inputs import Input, InputReader
from firnline_planner.handlers.dispatch import FACTS

from tests.examples import make
from tests.kit.extremes import EXAMPLES, extremes
from tests.kit.memory_store import MemoryStore

NOW_MS = 1_795_000_000_000
KNOWN = make("files_changed/absolute_chunk", chunk=0, chunks=1, ref="main")


def topic_of(path: str) -> str | None:
    record = make(path)
    for topic in FACTS:
        try:
            check_kind(topic, record)
        except PoisonousRecord:
            continue
        return topic
    return None


# Of one kind of change, for time; orders that move tables are of no use under one planner.
READ = {
    path: topic
    for path in EXAMPLES
    if (topic := topic_of(path)) and not path.startswith(("files_changed/", "move_", "recall_"))
} | {"files_changed/upsert": "file-changes"}


def is_writable(record: Any) -> bool:
    """Some numbers have 32 bits in Avro."""
    try:
        return bool(encode_record(record))
    except (ValueError, OverflowError):
        return False


@pytest.mark.parametrize("path", READ)
def test_a_record_at_the_ends_of_its_ranges_stops_nobody(path: str) -> None:
    reader = InputReader(RecordCodec(), Log("planner"))
    for record in filter(is_writable, extremes(path, lows=False)):
        bucket = PlannerBucket(MemoryStore(), Thresholds())
        effects = []
        for offset, (topic, one) in enumerate((("file-changes", KNOWN), (READ[path], record))):
            came = Input(topic, 0, offset, KNOWN.table.key.encode(), encode_record(one))
            effects.append(reader.read_and_handle(came, bucket, NOW_MS))
            bucket.commit()
        for later_ms in (1_000, 90_000_000):
            effects.append(reader.pass_time(0, bucket, NOW_MS + later_ms))
            bucket.commit()
        for output in (output for step in effects for output in step.outputs if output.record):
            sent = output.encode_for_send(0, 1, NOW_MS)
            assert sent.topic == output.topic != "dead-letters", (record, output.record)
            RecordCodec().decode(sent.value)
