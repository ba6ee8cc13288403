"""Events of AWS: of Glue's Data Catalog, and of metadata files that were written to a bucket.

A bucket reports objects by itself, as other S3 servers do, or by EventBridge. A metadata file is
written just before the catalog names it, or for a commit that then fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta, field

from firnline_listener.port import Doorbell

MAX_TABLES = 1_000  # of one body
METADATA_FILES = (".metadata.json", ".metadata.json.gz")


class _GlueChange(msgspec.Struct, rename="camel"):
    database_name: str = ""
    table_name: str = ""
    changed_tables: Annotated[list[str], Meta(max_length=MAX_TABLES)] = []


class _GlueEvent(msgspec.Struct):
    source: str
    account: str
    detail: _GlueChange


class _Bucket(msgspec.Struct):
    name: str


class _Object(msgspec.Struct):
    key: str


class _StoredObject(msgspec.Struct):
    bucket: _Bucket
    object: _Object


class _Record(msgspec.Struct, rename="camel"):
    event_name: str
    s3: _StoredObject


class _ObjectEvents(msgspec.Struct, rename="kebab"):
    """A notification has `records`, an event of EventBridge `detail`. A test of the target has
    neither."""

    records: Annotated[list[_Record], Meta(max_length=MAX_TABLES)] = field(
        default=[], name="Records"
    )
    detail_type: str = ""
    detail: _StoredObject | None = None


def parse_glue(_: Mapping[str, str], body: bytes, catalog: str, only: str) -> list[Doorbell]:
    """Return the tables that an event of EventBridge names. `only`: the account. Raises
    ValueError."""
    event = msgspec.json.decode(body, type=_GlueEvent)
    change = event.detail
    if event.source != "aws.glue" or not change.database_name or only not in ("", event.account):
        return []
    names = [change.table_name] if change.table_name else change.changed_tables
    return [Doorbell(catalog, (change.database_name,), name) for name in names]


def parse_objects(_: Mapping[str, str], body: bytes, catalog: str, only: str) -> list[Doorbell]:
    """Return the metadata files that were written. `only`: the bucket. Raises ValueError."""
    event = msgspec.json.decode(body, type=_ObjectEvents)
    written = [
        (record.s3.bucket.name, key)
        for record in event.records
        if record.event_name.removeprefix("s3:").startswith("ObjectCreated:")
        for key in _read_key(record.s3.object.key)
    ]
    if event.detail is not None and event.detail_type == "Object Created":
        written.append((event.detail.bucket.name, event.detail.object.key))
    return [
        Doorbell(catalog, metadata_location=f"s3://{bucket}/{key}", is_early=True)
        for bucket, key in written
        if key.endswith(METADATA_FILES) and only in ("", bucket)
    ]


def _read_key(text: str) -> Iterable[str]:
    """Return what a key of a notification may be: AWS and MinIO write it as in a form of HTML,
    versitygw as it is."""
    return {text: None, unquote_plus(text): None}
