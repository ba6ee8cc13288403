"""What the topic `schemas` says, which anybody may have written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from firnline_adapters.kafka.schema_topic import MAX_ENTRY_BYTES, SchemaTopic
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.errors import PoisonousRecord
from firnline_domain.records.events import TickPassed
from firnline_schemas import codec

NEWER: dict[str, Any] = {
    **codec.newest("TickPassed"),
    "fields": [*codec.newest("TickPassed")["fields"], {"name": "why", "type": "string"}],
}
MARK = codec.fingerprint(NEWER)
OF_A_NEWER_FLEET = (
    codec.MARKER + MARK + encode_record(TickPassed(3, 5))[codec.HEADER_BYTES :] + b"\x02x"
)
NOWHERE = "127.0.0.1:1"


def learned(*entries: tuple[bytes, bytes]) -> SchemaTopic:
    topic = SchemaTopic(NOWHERE)
    for offset, (key, value) in enumerate(entries):
        topic.take_entry(key, value, offset)
    topic._missed[MARK.hex()] = float("inf")  # nothing is read from a broker
    return topic


TRUE = (MARK.hex().encode(), json.dumps(NEWER).encode())


@pytest.mark.parametrize(
    "entry",
    [
        (TRUE[0], b"{}"),
        (TRUE[0], b"[]"),
        (TRUE[0], b"5"),
        (TRUE[0], b"null"),
        (TRUE[0], b'"null"'),
        (TRUE[0], b"no JSON"),
        (TRUE[0], b"\xff\xfe"),
        (TRUE[0], b"[" * 100_000),
        (TRUE[0], b'{"name": "TickPassed"}'),
        (TRUE[0], b'{"name": ["TickPassed"], "type": "record", "fields": []}'),
        (TRUE[0], b'{"name": "TickPassed", "type": "record", "fields": 5}'),
        (TRUE[0], json.dumps(codec.newest("RewriteSkipped")).encode()),
        (TRUE[0], json.dumps({**NEWER, "doc": "x" * MAX_ENTRY_BYTES}).encode()),
        (b"\xff", TRUE[1]),
        (b"", TRUE[1]),
    ],
)
def test_an_odd_entry_is_said_once_and_the_record_that_needs_it_is_poison(
    entry: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    topic = learned(entry)
    reader = RecordCodec(topic.find_schema)
    for _ in range(3):
        with pytest.raises(PoisonousRecord) as caught:
            reader.decode(OF_A_NEWER_FLEET)
        assert caught.value.reason == "unknown_schema"
    assert len([one for one in caplog.records if "schema_ignored" in one.message]) == 1


def test_an_odd_entry_hides_no_true_one() -> None:
    topic = learned((TRUE[0], b"{}"), TRUE, (TRUE[0], b"5"))
    assert RecordCodec(topic.find_schema).decode(OF_A_NEWER_FLEET) == TickPassed(3, 5)


@pytest.mark.parametrize("answer", [{}, [], 5, "x", {"name": []}, {"name": "TickPassed"}])
def test_whatever_a_look_finds_a_record_is_decoded_or_poison(answer: Any) -> None:
    with pytest.raises(PoisonousRecord):
        RecordCodec(lambda _: answer).decode(OF_A_NEWER_FLEET)
