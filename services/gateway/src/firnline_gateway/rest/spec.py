"""Bodies of the REST spec, as far as the gateway reads them. What is not named here is passed over
and never built: 8 MB of it take 40 ms, where a parser that builds all holds every client for 4 s.

Names are the spec's. What has another type than there is not read at all: the caller goes by the
table instead.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _KnownKeys(msgspec.Struct, rename="kebab", gc=False):
    """Absent keys stay absent."""


class _Identifier(_KnownKeys):
    namespace: list[str]
    name: str


class _Requirement(_KnownKeys):
    type: str
    uuid: str | UnsetType = UNSET
    ref: str | UnsetType = UNSET
    snapshot_id: int | UnsetType | None = UNSET


class _Snapshot(_KnownKeys):
    snapshot_id: int
    timestamp_ms: int | UnsetType = UNSET
    parent_snapshot_id: int | UnsetType | None = UNSET
    sequence_number: int | UnsetType = UNSET
    manifest_list: str | UnsetType = UNSET
    summary: dict[str, str] | UnsetType | None = UNSET


class _Update(_KnownKeys):
    action: str
    uuid: str | UnsetType = UNSET
    snapshot: _Snapshot | UnsetType = UNSET
    ref_name: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    snapshot_id: int | UnsetType = UNSET
    snapshot_ids: list[int] | UnsetType = UNSET


class CommitTable(_KnownKeys):
    """`CommitTableRequest`."""

    identifier: _Identifier | UnsetType | None = UNSET
    requirements: list[_Requirement] | UnsetType = UNSET
    updates: list[_Update] | UnsetType = UNSET


class CommitTransaction(_KnownKeys):
    """`CommitTransactionRequest`."""

    table_changes: list[CommitTable]


class Named(_KnownKeys):
    """`CreateTableRequest` and `RegisterTableRequest`."""

    name: str
    stage_create: bool | UnsetType | None = UNSET


class RenameTable(_KnownKeys):
    """`RenameTableRequest`."""

    source: _Identifier
    destination: _Identifier


class _Ref(_KnownKeys):
    snapshot_id: int
    type: str | UnsetType = UNSET


class _Log(_KnownKeys):
    snapshot_id: int


class _TableMetadata(_KnownKeys):
    table_uuid: str
    last_updated_ms: int | UnsetType = UNSET
    current_snapshot_id: int | UnsetType | None = UNSET
    snapshots: list[_Snapshot] | UnsetType = UNSET
    snapshot_log: list[_Log] | UnsetType = UNSET
    refs: dict[str, _Ref] | UnsetType | None = UNSET


class LoadTableResponse(_KnownKeys):
    """`LoadTableResult` and `CommitTableResponse`."""

    metadata: _TableMetadata


class _MetadataUuid(_KnownKeys):
    table_uuid: str


class LoadedUuid(_KnownKeys):
    """The same, of which only the table's uuid is wanted."""

    metadata: _MetadataUuid


class Listing(_KnownKeys):
    """`ListNamespacesResponse` and `ListTablesResponse`."""

    namespaces: list[list[str]] | UnsetType | None = UNSET
    identifiers: list[_Identifier] | UnsetType | None = UNSET
    next_page_token: str | UnsetType | None = UNSET


def read_known(body: bytes, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the known keys of a JSON object. Raises one of `UNREADABLE`."""
    found = msgspec.to_builtins(msgspec.json.decode(body, type=kind))
    assert isinstance(found, dict)
    return found
