"""What products send, byte for byte, becomes doorbells: as they send it, cut, and made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from firnline_listener.payloads.registry import PAYLOADS
from firnline_listener.port import Doorbell
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


# Polaris 1.7: the fields of EventToJsonMapper, the values of KafkaEventListenerTest.
POLARIS = recorded("polaris")
# Lakekeeper 0.13: the attributes of CloudEventsPublisher, a commit as its clients send it.
LAKEKEEPER, COMMIT = recorded("lakekeeper_headers"), recorded("lakekeeper")
RENAME = {
    "source": {"namespace": ["db", "sub"], "name": "orders"},
    "destination": {"namespace": ["db"], "name": "old"},
}
# The examples of AWS' documentation: Glue's events, and S3's by EventBridge and by itself.
GLUE, BRIDGED, NOTIFIED = recorded("glue"), recorded("s3_bridged"), recorded("s3")
METADATA = "lake/shop/or ders/metadata/00007-a+b.metadata.json"
WRITTEN = Doorbell(catalog="lake", metadata_location=f"s3://b1/{METADATA}", is_early=True)
WAREHOUSE, TABLE = LAKEKEEPER["ce_warehouse-id"], LAKEKEEPER["ce_tabular-id"]
UPDATED = Doorbell(
    catalog="lake", namespace=("db", "sub"), name="orders", uuid=TABLE, snapshot_id=2
)


def parse(payload: str, headers: Mapping[str, str], body: object) -> list[Doorbell]:
    text = b"" if body is None else json.dumps(body).encode()
    return PAYLOADS[payload](headers, text, "lake", "")


def parse_sink(name: str) -> list[Doorbell]:
    """An event that iceberg-kafka-connect-events 1.11.0 itself has written."""
    recorded = (RECORDED / f"{name}.bin").read_bytes()
    return PAYLOADS["kafka-connect"]({}, recorded, "lake", "")


def polaris(**changed: object) -> list[tuple[str, tuple[str, ...], str]]:
    found = parse("polaris", {}, {**POLARIS, **changed})
    return [(one.catalog, one.namespace, one.name) for one in found]


def test_polaris_names_the_table_of_a_change() -> None:
    assert polaris() == [("lake", ("test_namespace", "inner"), "test_table")]


@pytest.mark.parametrize(
    "kind", ["BEFORE_UPDATE_TABLE", "AFTER_LOAD_TABLE", "AFTER_COMMIT_TRANSACTION"]
)
def test_polaris_other_events_say_nothing(kind: str) -> None:
    assert polaris(event_type=kind) == []


def test_polaris_names_both_ends_of_a_rename() -> None:
    ends = {"source": ["a", "t"], "destination": ["a", "b", "u"]}
    found = polaris(event_type="AFTER_RENAME_TABLE", table_name="", namespace=[], **ends)
    assert found == [("lake", ("a",), "t"), ("lake", ("a", "b"), "u")]


def test_lakekeeper_names_table_and_head_in_binary_mode() -> None:
    assert parse("lakekeeper", LAKEKEEPER, COMMIT) == [UPDATED]


def test_lakekeeper_headers_of_http_are_understood() -> None:
    headers = {name.replace("ce_", "ce-"): one for name, one in LAKEKEEPER.items()}
    assert parse("lakekeeper", headers, COMMIT) == [UPDATED]


def test_lakekeeper_structured_mode_is_understood() -> None:
    attributes = {name[3:]: one for name, one in LAKEKEEPER.items() if name[:3] == "ce_"}
    assert parse("lakekeeper", {}, {**attributes, "data": COMMIT}) == [UPDATED]


def test_lakekeeper_a_dropped_table_has_no_body_and_dots() -> None:
    headers = {**LAKEKEEPER, "ce_type": "dropTable", "ce_namespace": "db.sub"}
    [found] = parse("lakekeeper", headers, None)
    assert (found.namespace, found.name, found.snapshot_id) == (("db", "sub"), "orders", None)


def test_lakekeeper_names_both_ends_of_a_rename() -> None:
    found = parse("lakekeeper", {**LAKEKEEPER, "ce_type": "renameTable"}, RENAME)
    assert [(one.namespace, one.name) for one in found] == [
        (("db", "sub"), "orders"),
        (("db",), "old"),
    ]


@pytest.mark.parametrize(
    "changed",
    [{"ce_type": "updateView"}, {"ce_tabular-type": "View"}, {"ce_type": "createGenericTable"}],
    ids=str,
)
def test_lakekeeper_other_events_say_nothing(changed: dict[str, str]) -> None:
    assert parse("lakekeeper", {**LAKEKEEPER, **changed}, None) == []


def glue(**detail: object) -> list[tuple[tuple[str, ...], str]]:
    found = parse("glue", {}, {**GLUE, "detail": detail})
    return [(one.namespace, one.name) for one in found]


def test_glue_names_the_tables_of_a_change() -> None:
    assert parse("glue", {}, GLUE) == [Doorbell("lake", ("shop",), "orders")]
    changed = glue(databaseName="shop", typeOfChange="CreateTable", changedTables=["a", "b"])
    assert changed == [(("shop",), "a"), (("shop",), "b")]


def test_glue_other_events_say_nothing() -> None:
    assert glue(jobName="copy", state="SUCCEEDED") == []
    assert parse("glue", {}, {**GLUE, "source": "aws.s3"}) == []


@pytest.mark.parametrize("event", [BRIDGED, NOTIFIED], ids=["bridged", "notified"])
def test_a_metadata_file_in_a_bucket_rings_early(event: dict[str, object]) -> None:
    assert WRITTEN in parse("s3", {}, event)


@pytest.mark.parametrize(
    ("event", "old", "new"),
    [
        (NOTIFIED, "ObjectCreated:CompleteMultipartUpload", "ObjectRemoved:Delete"),
        (NOTIFIED, ".metadata.json", ".avro"),
        (BRIDGED, "Object Created", "Object Deleted"),
        (BRIDGED, ".metadata.json", ".avro"),
    ],
)
def test_other_changes_of_a_bucket_say_nothing(event: object, old: str, new: str) -> None:
    changed = json.dumps(event).replace(old, new)
    assert changed != json.dumps(event)
    assert PAYLOADS["s3"]({}, changed.encode(), "lake", "") == []


def test_a_bucket_that_tries_its_target_says_nothing() -> None:
    tried = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b1"}
    assert parse("s3", {}, tried) == []


def test_the_sinks_commit_names_table_and_snapshot() -> None:
    [found] = parse_sink("commit_to_table")
    assert found == Doorbell(
        catalog="lake", namespace=("db", "sub"), name="orders", uuid=TABLE, snapshot_id=4711
    )


@pytest.mark.parametrize("name", ["start_commit", "commit_complete", "data_complete"])
def test_the_sinks_other_events_say_nothing(name: str) -> None:
    assert parse_sink(name) == []


def test_a_schema_that_asks_for_memory_is_refused() -> None:
    """Arrays of nothing cost no byte each: a billion of them fit into five."""
    recorded = (RECORDED / "commit_to_table.bin").read_bytes()
    hostile = recorded.replace(b'"items":"string"', b'"items":"null"  ')
    assert hostile != recorded
    with pytest.raises(ValueError, match="items of array that take no bytes"):
        PAYLOADS["kafka-connect"]({}, hostile, "lake", "")


def test_a_schema_within_itself_does_not_end_the_process() -> None:
    """fastavro reads it until the stack ends."""
    payload = {"type": "record", "name": "CommitToTable"}
    fields = [{"name": "again", "type": "CommitToTable"}]
    event = [{"name": "payload", "type": {**payload, "fields": fields}}]
    schema = json.dumps({"type": "record", "name": "Event", "fields": event}).encode()
    body = b"\xc2\x01" + len(schema).to_bytes(2, "big") + schema
    with pytest.raises(ValueError, match="CommitToTable is within itself"):
        PAYLOADS["kafka-connect"]({}, body, "lake", "")


BODIES = [
    ("polaris", {}, json.dumps(POLARIS).encode()),
    ("lakekeeper", LAKEKEEPER, json.dumps(COMMIT).encode()),
    ("glue", {}, json.dumps(GLUE).encode()),
    ("s3", {}, json.dumps(BRIDGED).encode()),
    ("s3", {}, json.dumps(NOTIFIED).encode()),
    ("kafka-connect", {}, (RECORDED / "commit_to_table.bin").read_bytes()),
]


@given(which=st.sampled_from(BODIES), cut=st.integers(0, 3_000), noise=st.binary(max_size=8))
def test_what_is_damaged_is_refused_or_understood(
    which: tuple[str, dict[str, str], bytes], cut: int, noise: bytes
) -> None:
    payload, headers, body = which
    damaged = body[:cut] + noise + body[cut + len(noise) :]
    try:
        found = PAYLOADS[payload](headers, damaged, "lake", "")
    except ValueError:
        return
    assert all(isinstance(one, Doorbell) for one in found)


@pytest.mark.parametrize(
    ("which", "own"),
    [
        *zip(
            BODIES,
            ["test_catalog", WAREHOUSE, "111122223333", "b1", "b1", "iceberg"],
            strict=True,
        )
    ],
)
def test_only_one_of_a_products_catalogs_rings(
    which: tuple[str, dict[str, str], bytes], own: str
) -> None:
    payload, headers, body = which
    parse_body = PAYLOADS[payload]
    assert {one.catalog for one in parse_body(headers, body, "lake", own)} == {"lake"}
    assert parse_body(headers, body, "lake", "another") == []
