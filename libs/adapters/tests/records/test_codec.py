"""Domain records survive the wire; what cannot be used says why."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from firnline_adapters.records.codec import RecordCodec, check_kind, encode_record, record_types
from firnline_domain.errors import PoisonousRecord
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import RewriteSkipped
from firnline_schemas import codec

from tests.examples import FOLDER, make

EXAMPLES = sorted(
    f"{folder.name}/{entry.name.removesuffix('.json')}"
    for folder in FOLDER.iterdir()
    for entry in folder.iterdir()
)
SKIPPED = RewriteSkipped("t", TableName("u", ("a", "b"), "c"), "main", Scope(0, "[]"), "why", 1)


def test_every_schema_has_its_type() -> None:
    assert set(record_types()) == set(codec.record_names())


@pytest.mark.parametrize("path", EXAMPLES)
def test_every_example_becomes_its_value_and_back(path: str) -> None:
    value = make(path)
    assert RecordCodec().decode(encode_record(value)) == value


def broken(reason: str) -> bytes | None:
    whole = encode_record(SKIPPED)
    return {
        "empty_record": None,
        "not_single_object": b'{"json": true}',
        "bad_body": whole[:14],
        "unknown_schema": codec.MARKER + bytes(8),
    }[reason]


@pytest.mark.parametrize(
    "reason", ["empty_record", "not_single_object", "bad_body", "unknown_schema"]
)
def test_poison_has_a_reason_code(reason: str) -> None:
    with pytest.raises(PoisonousRecord) as caught:
        RecordCodec().decode(broken(reason))
    assert caught.value.reason == reason


@pytest.mark.parametrize("topic", ["maintenance-events", "no-topic-of-ours"])
def test_a_record_is_taken_where_its_topic_names_it(topic: str) -> None:
    assert check_kind(topic, SKIPPED) is SKIPPED


@pytest.mark.parametrize("topic", ["table-scans", "rewrite-tasks", "rewrite-tasks.etl"])
def test_a_record_on_another_topic_is_poison(topic: str) -> None:
    with pytest.raises(PoisonousRecord) as caught:
        check_kind(topic, SKIPPED)
    assert caught.value.reason == "unexpected_record"


def test_a_newer_writer_is_understood_through_the_lookup() -> None:
    newer = codec.newest("RewriteSkipped")
    newer = {**newer, "fields": [*newer["fields"], {"name": "later", "type": "int"}]}
    body = io.BytesIO()
    value = {**json.loads(json.dumps(PLAIN)), "later": 7}
    fastavro.schemaless_writer(body, fastavro.parse_schema(newer), value)
    mark = codec.fingerprint(newer)
    data = codec.MARKER + mark + body.getvalue()
    assert RecordCodec({mark.hex(): newer}.get).decode(data) == SKIPPED


PLAIN = {
    "task_id": "t",
    "table": {"uuid": "u", "namespace": ["a", "b"], "name": "c"},
    "ref": "main",
    "scope": {"spec_id": 0, "partition": "[]"},
    "reason": "why",
    "at_ms": 1,
}
