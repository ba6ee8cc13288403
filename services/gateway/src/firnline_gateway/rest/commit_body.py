"""Extract the facts of a table-changing call from its request alone.

The request is enough for nearly everything: a transaction's answer has no body, and a commit's
answer repeats the whole table's metadata. Snapshot ids are made by the clients, so an event can be
built before the answer is there (REST spec: CommitTableRequest, CommitTransactionRequest)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote_plus

from firnline_domain.base.values import Value
from firnline_domain.identity import TableName
from firnline_domain.records.events import (
    RefMoved,
    SnapshotAdded,
    TableChange,
    TableCommitted,
    commit_event_id,
)
from firnline_iceberg.table.metadata_json import snapshot_in
from msgspec import Struct

from firnline_gateway.rest.call import Call
from firnline_gateway.rest.routes import (
    CallKind,
    CatalogRoute,
    levels_of,
    prefix_in,
    route_of,
    table_path,
)
from firnline_gateway.rest.spec import (
    UNREADABLE,
    CommitTable,
    CommitTransaction,
    LoadedUuid,
    Named,
    RenameTable,
    read_known,
)

# Every other update changes what a reader must know of the table; so do those not yet invented.
_NOT_METADATA = frozenset(
    {
        "assign-uuid",
        "add-snapshot",
        "set-snapshot-ref",
        "remove-snapshot-ref",
        "remove-snapshots",
        "set-statistics",
        "remove-statistics",
        "set-partition-statistics",
        "remove-partition-statistics",
    }
)
# That an event names; all of them are counted. Nobody folds more than the number, and 125,000 ids
# alone are above what the topic takes.
MAX_EXPIRED_IDS = 10_000
Body = dict[str, Any]


class UnreadableCall(ValueError):
    """The call's body is not what the REST spec says; the catalog must judge it."""


class PlannedChange(Value):
    """A change that a call requests for one table. `uuid` is None where only the catalog knows it.

    `path` is where the table is read afterwards; `old_path` where a renamed one was."""

    change: TableChange
    path: str
    namespace: tuple[str, ...]
    name: str
    uuid: str | None = None
    snapshots: tuple[SnapshotAdded, ...] = ()
    refs: tuple[RefMoved, ...] = ()
    expired_snapshot_ids: tuple[int, ...] = ()
    metadata_changed: bool = False
    old_path: str | None = None
    renamed_from: tuple[str, ...] = ()


def changes_of(call: Call) -> tuple[PlannedChange, ...]:
    """Return the changes that the call requests, by table, in the request's order.

    Empty for a staged create, which creates nothing. Raises UnreadableCall; also where the body was
    not kept, or the catalog has read more in the call than we do."""
    route = route_of(call.method, call.path)
    if route is None:
        return ()
    if route.kind is CallKind.OTHER:
        raise UnreadableCall(f"{call.method} {call.path}: not a call of the REST spec")
    try:
        return _READERS[route.kind](call, route)
    except (ValueError, KeyError, TypeError, *UNREADABLE) as error:
        raise UnreadableCall(f"{call.method} {call.path}: {error!r}") from error


def _parse_body(call: Call, kind: type[Struct]) -> Body:
    if call.body is None:
        raise ValueError("its body was not kept")
    return read_known(call.body, kind)


def uuid_in(answer: bytes) -> str | None:
    """Return `metadata.table-uuid` of a LoadTableResult or CommitTableResponse, if there is one."""
    try:
        return str(read_known(answer, LoadedUuid)["metadata"]["table-uuid"])
    except UNREADABLE:
        return None


def event_of(
    change: PlannedChange, call: Call, uuid: str, at_ms: int, source: str
) -> TableCommitted:
    """Return the event of one accepted change. `source` is `gateway` or `reconciled`."""
    route = route_of(call.method, call.path)
    prefix = prefix_in(route.root) if route else ""
    table = TableName(uuid, change.namespace, change.name, call.catalog, prefix)
    return TableCommitted(
        event_id=commit_event_id(
            *(table.key, change.change, change.snapshots, change.refs),
            call.idempotency_key or call.call_id,
        ),
        table=table,
        change=change.change,
        snapshots=change.snapshots,
        refs=change.refs,
        expired_snapshot_ids=change.expired_snapshot_ids[:MAX_EXPIRED_IDS],
        expired_snapshots=len(change.expired_snapshot_ids),
        metadata_changed=change.metadata_changed,
        committed_at_ms=at_ms,
        source=source,
        renamed_from=change.renamed_from,
        user_agent=call.user_agent,
        principal=call.principal,
    )


def _read_commit(call: Call, route: CatalogRoute) -> tuple[PlannedChange, ...]:
    return (_table_change(_parse_body(call, CommitTable), call, route),)


def _read_transaction(call: Call, route: CatalogRoute) -> tuple[PlannedChange, ...]:
    body = _parse_body(call, CommitTransaction)
    return tuple(_table_change(change, call, route) for change in body["table-changes"])


def _table_change(body: Body, call: Call, route: CatalogRoute) -> PlannedChange:
    """Parse one CommitTableRequest; in a transaction its `identifier` is the table's only name."""
    updates = body.get("updates", [])
    requirements = body.get("requirements", [])
    levels, name = _table_identifier(body, call, route)
    path = route.path
    if route.kind is CallKind.TRANSACTION:
        path = table_path(route.root, levels, name, call.separator)
    created = any(need["type"] == "assert-create" for need in requirements)
    return PlannedChange(
        change=TableChange.CREATED if created else TableChange.COMMITTED,
        path=path,
        namespace=levels,
        name=name,
        uuid=_asserted_uuid(requirements, updates),
        snapshots=tuple(
            snapshot_in(u["snapshot"]) for u in updates if u["action"] == "add-snapshot"
        ),
        refs=_moved_refs(requirements, updates),
        expired_snapshot_ids=tuple(
            expired
            for update in updates
            if update["action"] == "remove-snapshots"
            for expired in update["snapshot-ids"]
        ),
        metadata_changed=any(update["action"] not in _NOT_METADATA for update in updates),
    )


def _table_identifier(body: Body, call: Call, route: CatalogRoute) -> tuple[tuple[str, ...], str]:
    """Return the namespace and the name of the table. In a transaction `identifier` is the table's
    only name. Elsewhere the catalog uses the path, and `identifier` only shows where the levels of
    that same name end."""
    identifier = body.get("identifier")
    named = (tuple(identifier["namespace"]), identifier["name"]) if identifier else None
    if route.kind is CallKind.TRANSACTION:
        if named is None:
            raise ValueError("a table without an identifier")
        return named
    levels, name = _namespace_levels(call, route), _table_name(route)
    if named and ".".join((*named[0], named[1])) == ".".join((*levels, name)):
        return named
    return levels, name


def _asserted_uuid(requirements: list[Body], updates: list[Body]) -> str | None:
    """Return the uuid that the call asserts or assigns; None if it is not lower case as catalogs
    write it: they compare without regard to case, and an event's key is exact."""
    asserted = [need["uuid"] for need in requirements if need["type"] == "assert-table-uuid"]
    assigned = [update["uuid"] for update in updates if update["action"] == "assign-uuid"]
    uuid = next(iter(asserted + assigned), None)
    return uuid if uuid == (uuid or "").lower() else None


def _moved_refs(requirements: list[Body], updates: list[Body]) -> tuple[RefMoved, ...]:
    """Return the refs that a commit sets or removes, each with the snapshot that it requires there
    before."""
    expected = {
        need["ref"]: need.get("snapshot-id")
        for need in requirements
        if need["type"] == "assert-ref-snapshot-id"
    }
    moved = []
    for update in updates:
        if update["action"] not in ("set-snapshot-ref", "remove-snapshot-ref"):
            continue
        name = update["ref-name"]
        if update["action"] == "set-snapshot-ref":
            kind, target = update.get("type", "branch"), update["snapshot-id"]
            moved.append(RefMoved(name, kind, target, expected.get(name)))
        else:  # the request does not say of which kind it was
            moved.append(RefMoved(name, "branch", None, expected.get(name)))
    return tuple(moved)


def _read_create(call: Call, route: CatalogRoute) -> tuple[PlannedChange, ...]:
    body = _parse_body(call, Named)
    if body.get("stage-create"):
        return ()  # its later commit, with `assert-create`, creates the table
    return (_new_table_change(TableChange.CREATED, body["name"], call, route),)


def _read_register(call: Call, route: CatalogRoute) -> tuple[PlannedChange, ...]:
    name = _parse_body(call, Named)["name"]
    return (_new_table_change(TableChange.REGISTERED, name, call, route),)


def _new_table_change(
    change: TableChange, name: str, call: Call, route: CatalogRoute
) -> PlannedChange:
    levels = _namespace_levels(call, route)
    path = f"{route.root}/namespaces/{route.namespace}/tables/{quote(name, safe='')}"
    return PlannedChange(change, path, levels, name, metadata_changed=True)


def _read_drop(call: Call, route: CatalogRoute) -> tuple[PlannedChange, ...]:
    levels = _namespace_levels(call, route)
    return (
        PlannedChange(
            TableChange.DROPPED, route.path, levels, _table_name(route), uuid=call.known_uuid
        ),
    )


def _read_rename(call: Call, route: CatalogRoute) -> tuple[PlannedChange, ...]:
    body = _parse_body(call, RenameTable)
    (old_levels, old_name), (levels, name) = (
        (tuple(body[end]["namespace"]), body[end]["name"]) for end in ("source", "destination")
    )
    return (
        PlannedChange(
            TableChange.RENAMED,
            table_path(route.root, levels, name, call.separator),
            levels,
            name,
            old_path=table_path(route.root, old_levels, old_name, call.separator),
            renamed_from=(*old_levels, old_name),
        ),
    )


def _namespace_levels(call: Call, route: CatalogRoute) -> tuple[str, ...]:
    return levels_of(route.namespace or "", call.separator)


def _table_name(route: CatalogRoute) -> str:
    return unquote_plus(route.table or "")


_READERS: dict[CallKind, Callable[[Call, CatalogRoute], tuple[PlannedChange, ...]]] = {
    CallKind.COMMIT: _read_commit,
    CallKind.TRANSACTION: _read_transaction,
    CallKind.CREATE: _read_create,
    CallKind.REGISTER: _read_register,
    CallKind.DROP: _read_drop,
    CallKind.UNREGISTER: _read_drop,
    CallKind.RENAME: _read_rename,
}
