"""What products send, byte for byte, becomes doorbells: as they send it, cut, and made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from firnline_listener.payloads.registry import PAYLOADS
from firnline_listener.port import Doorbell
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parent / "recorded"
# Polaris 1.7: the fields of EventToJsonMapper, the values of KafkaEventListenerTest.
POLARIS = {
    "event_type": "AFTER_UPDATE_TABLE",
    "event_id": "0190a0a0-0000-7000-8000-000000000001",
    "timestamp": "2026-07-24T10:00:00Z",
    "table_name": "test_table",
    "namespace": ["test_namespace", "inner"],
    "catalog_name": "test_catalog",
    "realm_id": "test-realm",
    "principal": "test-user",
    "activated_roles": ["role1", "role2"],
}
# Lakekeeper 0.13: the attributes of CloudEventsPublisher, a commit as its clients send it.
LAKEKEEPER = {
    "ce_specversion": "1.0",
    "ce_id": "0190a0a0-0000-7000-8000-000000000002",
    "ce_type": "updateTable",
    "ce_source": "uri:iceberg-catalog-service:lakekeeper-0",
    "content-type": "application/json",
    "ce_tabular-type": "Table",
    "ce_tabular-id": "0190a0a0-0000-7000-8000-00000000000a",
    "ce_warehouse-id": "0190a0a0-0000-7000-8000-00000000000b",
    "ce_name": "orders",
    "ce_namespace": "db\x1fsub",
    "ce_prefix": "",
    "ce_num-events": "1",
    "ce_sequence-number": "0",
    "ce_trace-id": "0190a0a0-0000-7000-8000-00000000000c",
    "ce_actor": '{"type":"anonymous"}',
}
COMMIT = {
    "identifier": {"namespace": ["db", "sub"], "name": "orders"},
    "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}],
    "updates": [
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 2, "summary": {"operation": "x"}}},
        {"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 3},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2},
    ],
}
RENAME = {
    "source": {"namespace": ["db", "sub"], "name": "orders"},
    "destination": {"namespace": ["db"], "name": "old"},
}
# The examples of AWS' documentation: Glue's events, and S3's by EventBridge and by itself.
GLUE = {
    "version": "0",
    "id": "5fbd8d76-0000-4000-8000-000000000003",
    "detail-type": "Glue Data Catalog Table State Change",
    "source": "aws.glue",
    "account": "111122223333",
    "time": "2021-11-12T00:00:00Z",
    "region": "ca-central-1",
    "resources": ["arn:aws:glue:ca-central-1:111122223333:table/shop/orders"],
    "detail": {
        "databaseName": "shop",
        "changedPartitions": [],
        "typeOfChange": "UpdateTable",
        "tableName": "orders",
    },
}
METADATA = "lake/shop/or ders/metadata/00007-a+b.metadata.json"
BRIDGED = {
    **GLUE,
    "detail-type": "Object Created",
    "source": "aws.s3",
    "detail": {
        "version": "0",
        "bucket": {"name": "b1"},
        "object": {"key": METADATA, "size": 5, "etag": "b1946ac92492d2347c6235b4d2611184"},
        "request-id": "N4N7GDK58NMKJ12R",
        "reason": "PutObject",
    },
}
NOTIFIED = {
    "Records": [
        {
            "eventVersion": "2.2",
            "eventSource": "aws:s3",
            "awsRegion": "ca-central-1",
            "eventTime": "2021-11-12T00:00:00Z",
            "eventName": "ObjectCreated:CompleteMultipartUpload",
            "s3": {
                "s3SchemaVersion": "1.0",
                "configurationId": "all",
                "bucket": {"name": "b1", "arn": "arn:aws:s3:::b1"},
                "object": {
                    "key": "lake/shop/or+ders/metadata/00007-a%2Bb.metadata.json",
                    "size": 5,
                },
            },
        }
    ]
}
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
