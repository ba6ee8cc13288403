"""Events of products about a commit, made of those that were recorded: byte for byte but for the
table, the snapshot and the metadata file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
from firnline_domain.base.values import replace
from firnline_listener.payloads.registry import PAYLOADS
from firnline_listener.port import Doorbell
from pyiceberg.table import Table

RECORDED = Path(__file__).parents[2] / "services/listener/tests/payloads/recorded"
Message = tuple[Mapping[str, str], bytes]


def _read(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def _head(table: Table) -> int | None:
    return table.metadata.current_snapshot_id


def _commits(table: Table) -> Message:
    levels, name = table.name()[:-1], table.name()[-1]
    return {}, json.dumps({"namespace": levels, "name": name, "snapshot-id": _head(table)}).encode()


def _glue(table: Table) -> Message:
    event = _read("glue")
    event["detail"] |= dict(zip(("databaseName", "tableName"), table.name(), strict=True))
    return {}, json.dumps(event).encode()


def _kafka_connect(table: Table) -> Message:
    """The schema travels with the event. Java's leaves out a namespace where fastavro needs it, so
    this one has none."""
    body = (RECORDED / "commit_to_table.bin").read_bytes()
    start = 4 + int.from_bytes(body[2:4], "big")
    plain = re.sub(
        rb'"namespace":"[^"]*",|org\.apache\.iceberg\.connect\.events\.', b"", body[4:start]
    )
    schema = json.loads(plain)
    event: Any = fastavro.schemaless_reader(io.BytesIO(body[start:]), schema, None)
    *levels, name = table.name()
    event["payload"]["table_reference"] |= {"namespace": levels, "name": name}
    event["payload"]["snapshot_id"] = _head(table)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, event)
    return {}, body[:start] + out.getvalue()


def _lakekeeper(table: Table) -> Message:
    *levels, name = table.name()
    headers = {**_read("lakekeeper_headers"), "ce_namespace": "\x1f".join(levels), "ce_name": name}
    event = _read("lakekeeper")
    for update in event["updates"]:
        if update.get("ref-name") == "main":
            update["snapshot-id"] = _head(table)
    return headers, json.dumps(event).encode()


def _polaris(table: Table) -> Message:
    *levels, name = table.name()
    return {}, json.dumps({**_read("polaris"), "namespace": levels, "table_name": name}).encode()


def _s3(table: Table) -> Message:
    """The first folder of a local path stands for the bucket."""
    event = _read("s3")
    bucket, _, folder = table.location().removeprefix("file:///").partition("/")
    key = f"{folder}/metadata/{_head(table)}.metadata.json"
    event["Records"][0]["s3"] |= {"bucket": {"name": bucket}, "object": {"key": key, "size": 5}}
    return {}, json.dumps(event).encode()


EVENTS: Mapping[str, Callable[[Table], Message]] = {
    "commits": _commits,
    "glue": _glue,
    "kafka-connect": _kafka_connect,
    "lakekeeper": _lakekeeper,
    "polaris": _polaris,
    "s3": _s3,
}


def parse_event(payload: str, message: Message) -> list[Doorbell]:
    """Return the doorbells of an event, with metadata files where they are."""
    return [
        replace(one, metadata_location=one.metadata_location.replace("s3://", "file:///"))
        for one in PAYLOADS[payload](*message, "lake", "")
    ]
