"""What real clients sent, read (tests/recorded; ids are theirs)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from firnline_domain.records.events import RefMoved, TableChange
from firnline_gateway.rest.call import Call
from firnline_gateway.rest.commit_body import (
    PlannedChange,
    UnreadableCall,
    changes_of,
    event_of,
    uuid_in,
)

Recorded = Callable[[str, int], Call]
JAVA = "d0ac8717-9593-4b4d-80f6-ebf1431529fb"
PY = "319f4ccf-bd32-401c-a13c-9ff437dab81b"


def only(call: Call) -> PlannedChange:
    [change] = changes_of(call)
    return change


def commit(*updates: dict[str, Any], **more: Any) -> Call:
    body = {"requirements": [], "updates": list(updates), **more}
    return Call("c", "POST", "/v1/namespaces/n/tables/t", json.dumps(body).encode(), 0)


def test_an_append_of_java(recorded: Recorded) -> None:
    change = only(recorded("java", 1))
    assert (change.change, change.uuid) == (TableChange.COMMITTED, JAVA)
    assert (change.namespace, change.name) == (("db",), "t")
    assert change.path == "/v1/namespaces/db/tables/t"
    [new] = change.snapshots
    assert (new.snapshot_id, new.parent_snapshot_id) == (7221073864782945431, None)
    assert (new.sequence_number, new.operation) == (1, "append")
    assert new.manifest_list.startswith(
        "file:/lake/warehouse/db/t/metadata/snap-7221073864782945431"
    )
    assert new.summary["engine-name"] == "spark"
    assert "operation" not in new.summary
    assert change.refs == (RefMoved("main", "branch", 7221073864782945431, None),)
    assert not change.metadata_changed


def test_an_append_of_pyiceberg_to_a_branch(recorded: Recorded) -> None:
    change = only(recorded("pyiceberg", 4))
    assert change.uuid == PY
    assert [(new.snapshot_id, new.parent_snapshot_id) for new in change.snapshots] == [
        (1891564114550096838, 964472784241354245)
    ]
    assert change.refs == (RefMoved("audit", "branch", 1891564114550096838, 964472784241354245),)


def test_64_bit_ids_are_exact() -> None:
    most = 2**63 - 1
    snapshot = {"snapshot-id": most, "parent-snapshot-id": most - 1, "timestamp-ms": 1}
    [new] = only(commit({"action": "add-snapshot", "snapshot": snapshot})).snapshots
    assert (new.snapshot_id, new.parent_snapshot_id) == (most, most - 1)


@pytest.mark.parametrize(
    ("client", "index", "ref"),
    [
        ("java", 3, RefMoved("audit", "branch", 7221073864782945431, None)),
        ("java", 5, RefMoved("main", "branch", 7575700156335158849, 7221073864782945431)),
        ("java", 6, RefMoved("v1", "tag", 7575700156335158849, None)),
        ("java", 7, RefMoved("audit", "branch", None, None)),
        ("pyiceberg", 5, RefMoved("v1", "tag", 964472784241354245, None)),
        ("pyiceberg", 6, RefMoved("audit", "branch", None, 1891564114550096838)),
    ],
)
def test_refs_that_move_without_a_snapshot(
    recorded: Recorded, client: str, index: int, ref: RefMoved
) -> None:
    change = only(recorded(client, index))
    assert (change.snapshots, change.refs, change.metadata_changed) == ((), (ref,), False)


def test_expiry(recorded: Recorded) -> None:
    change = only(recorded("java", 9))
    assert change.expired_snapshot_ids == (7221073864782945431,)
    assert not change.metadata_changed


@pytest.mark.parametrize(
    ("client", "index"), [("java", 2), ("java", 13), ("pyiceberg", 2), ("duckdb", 7)]
)
def test_schema_and_properties_change_the_metadata(
    recorded: Recorded, client: str, index: int
) -> None:
    change = only(recorded(client, index))
    assert (change.snapshots, change.refs, change.metadata_changed) == ((), (), True)


@pytest.mark.parametrize(
    ("action", "changes"),
    [
        ("upgrade-format-version", True),
        ("set-default-spec", True),
        ("set-location", True),
        ("remove-properties", True),
        ("an-update-of-the-future", True),
        ("set-statistics", False),
        ("remove-partition-statistics", False),
    ],
)
def test_which_updates_change_the_metadata(action: str, changes: bool) -> None:
    assert only(commit({"action": action})).metadata_changed is changes


@pytest.mark.parametrize(("client", "index"), [("java", 10), ("duckdb", 0), ("pyiceberg", 8)])
def test_a_staged_create_creates_nothing(recorded: Recorded, client: str, index: int) -> None:
    assert changes_of(recorded(client, index)) == ()


def test_a_staged_create_is_created_by_its_commit(recorded: Recorded) -> None:
    change = only(recorded("java", 11))
    assert change.change is TableChange.CREATED
    assert change.uuid == "d7cdcd6f-4552-43c5-ac44-5f9e35eb4be9"  # assign-uuid
    assert len(change.snapshots) == 1
    empty = only(recorded("duckdb", 1))
    assert (empty.change, empty.snapshots) == (TableChange.CREATED, ())


def test_a_replaced_table_loses_its_ref_before_it_gets_it_back(recorded: Recorded) -> None:
    change = only(recorded("java", 12))
    assert change.change is TableChange.COMMITTED
    assert [moved.snapshot_id for moved in change.refs] == [None, 5235801892038999272]


@pytest.mark.parametrize(
    ("client", "index", "ids"),
    [
        ("java", 14, [1357116407439337121, 3873246827951771981]),
        ("duckdb", 6, [5848986435146829392, 4023647397384834263]),
    ],
)
def test_several_snapshots_of_one_post_keep_their_order(
    recorded: Recorded, client: str, index: int, ids: list[int]
) -> None:
    change = only(recorded(client, index))
    assert [new.snapshot_id for new in change.snapshots] == ids
    assert change.snapshots[1].parent_snapshot_id == ids[0]
    assert change.refs[-1].snapshot_id == ids[1]


def test_a_transaction_names_its_tables_in_the_request(recorded: Recorded) -> None:
    first, second = changes_of(recorded("duckdb", 8))
    assert [first.name, second.name] == ["d2", "d1"]
    assert [first.path, second.path] == [
        "/v1/namespaces/db/tables/d2",
        "/v1/namespaces/db/tables/d1",
    ]
    assert first.uuid == "5b3a8899-ad27-485b-87b0-9890623369c3"
    assert second.snapshots[0].snapshot_id == 3703949592882987757


def test_create_and_register_know_no_uuid(recorded: Recorded) -> None:
    created, registered = only(recorded("java", 0)), only(recorded("pyiceberg", 12))
    assert (created.change, created.uuid) == (TableChange.CREATED, None)
    assert created.path == "/v1/namespaces/db/tables/t"
    assert (registered.change, registered.uuid) == (TableChange.REGISTERED, None)
    assert registered.path == "/v1/namespaces/db/tables/reg"


def test_a_rename_says_where_the_table_is_and_was(recorded: Recorded) -> None:
    change = only(recorded("java", 15))
    assert (change.change, change.name) == (TableChange.RENAMED, "u")
    assert (change.path, change.old_path) == (
        "/v1/namespaces/db/tables/u",
        "/v1/namespaces/db/tables/t",
    )
    assert change.renamed_from == ("db", "t")


def test_a_drop_carries_the_uuid_that_was_read_before() -> None:
    call = Call("c", "DELETE", "/v1/namespaces/a%1Fb/tables/t%20t?purgeRequested=true", b"", 0)
    change = only(call)
    assert (change.change, change.uuid) == (TableChange.DROPPED, None)
    assert (change.namespace, change.name) == (("a", "b"), "t t")
    assert change.path == "/v1/namespaces/a%1Fb/tables/t%20t"
    known = Call("c", "DELETE", "/v1/namespaces/a/tables/t", b"", 0, known_uuid="u-1")
    assert only(known).uuid == "u-1"


def test_a_body_that_the_spec_does_not_know_is_refused() -> None:
    for body in (b"", b"[]", b'{"updates": [{"action": "add-snapshot"}]}', b'{"updates": 3}'):
        with pytest.raises(UnreadableCall):
            changes_of(Call("c", "POST", "/v1/namespaces/n/tables/t", body, 0))


def test_uuid_in_an_answer() -> None:
    assert uuid_in(b'{"metadata": {"table-uuid": "u"}}') == "u"
    for answer in (b"", b"{}", b'{"metadata": {}}', b"[]", b'{"metadata": {"table-uuid": 3}}'):
        assert uuid_in(answer) is None


def event_id(call: Call) -> str:
    return event_of(only(call), call, "u", 1, "gateway").event_id


def test_a_new_snapshot_has_one_event_id_whoever_saw_it(recorded: Recorded) -> None:
    call = recorded("java", 1)
    again = Call("another", call.method, call.path, call.body, 9, call.separator)
    assert event_id(call) == event_id(again)
    assert event_id(call) != event_id(recorded("java", 4))


def test_the_same_ref_move_twice_is_two_events_but_its_retry_is_not() -> None:
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    body = commit(back).body
    path = "/v1/namespaces/n/tables/t"
    first, second = Call("1", "POST", path, body, 0), Call("2", "POST", path, body, 0)
    assert event_id(first) != event_id(second)
    retries = [Call(c, "POST", path, body, 0, idempotency_key="k") for c in "12"]
    assert len({event_id(call) for call in retries}) == 1
