"""Whether a call happened, judged from the table's metadata."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_domain.base.values import replace
from firnline_domain.records.events import RefMoved, SnapshotAdded, TableChange
from firnline_gateway.rest.commit_body import PlannedChange
from firnline_gateway.rest.outcomes import present_state, prove_change

NEW = SnapshotAdded(7, 6, 2, 1, "append", "file:/w/snap-7.avro")
APPEND = PlannedChange(
    TableChange.COMMITTED,
    "/t",
    ("n",),
    "t",
    uuid="u",
    snapshots=(NEW,),
    refs=(RefMoved("main", "branch", 7, 6),),
)
MOVE = replace(APPEND, snapshots=(), refs=(RefMoved("main", "branch", 7, 6),))
EXPIRE = replace(MOVE, refs=(), expired_snapshot_ids=(5,))
PROPERTIES = replace(MOVE, refs=(), metadata_changed=True)


def table(**changed: Any) -> dict[str, Any]:
    metadata = {
        "table-uuid": "u",
        "current-snapshot-id": 7,
        "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
        "snapshots": [
            {"snapshot-id": 6, "manifest-list": "file:///w/snap-6.avro"},
            {
                "snapshot-id": 7,
                "parent-snapshot-id": 6,
                "manifest-list": "file:///w/snap-7.avro",
            },
        ],
        "snapshot-log": [],
    }
    return {**metadata, **changed}


def test_a_snapshot_that_is_in_the_table_was_accepted() -> None:
    assert prove_change(APPEND, table(), None) == APPEND
    assert prove_change(replace(APPEND, uuid=None), table(), None) == APPEND


@pytest.mark.parametrize(
    "found",
    [
        None,
        table(snapshots=[{"snapshot-id": 6}]),
        {"table-uuid": "another", **{k: v for k, v in table().items() if k != "table-uuid"}},
        # The client's next attempt with the same id, on another parent.
        table(snapshots=[{"snapshot-id": 7, "manifest-list": "file:/w/snap-7-2.avro"}]),
    ],
)
def test_no_trace_no_event(found: dict[str, Any] | None) -> None:
    assert prove_change(APPEND, found, None) is None
    assert present_state(APPEND, found) is None


@pytest.mark.parametrize(
    "found",
    [
        table(snapshots=[{"snapshot-id": 8, "parent-snapshot-id": 7}]),  # Nessie keeps one
        table(snapshots=[], **{"snapshot-log": [{"snapshot-id": 7}]}),
    ],
)
def test_an_expired_snapshot_leaves_traces(found: dict[str, Any]) -> None:
    assert prove_change(APPEND, found, None) == APPEND


def test_two_snapshots_must_both_be_there() -> None:
    other = replace(NEW, snapshot_id=9, manifest_list="x")
    assert prove_change(replace(APPEND, snapshots=(NEW, other)), table(), None) is None


def test_a_ref_that_is_where_it_was_sent() -> None:
    assert prove_change(MOVE, table(), None) == MOVE
    elsewhere = table(refs={"main": {"snapshot-id": 6}})
    assert prove_change(MOVE, elsewhere, None) is None
    told = present_state(MOVE, elsewhere)
    assert told is not None
    assert told.refs == (RefMoved("main", "branch", 6, 6),)


def test_a_removed_ref() -> None:
    gone = replace(MOVE, refs=(RefMoved("audit", "branch", None),))
    assert prove_change(gone, table(), None) == gone
    assert prove_change(gone, table(refs={"audit": {"snapshot-id": 6}}), None) is None


def test_format_v1_has_no_refs_but_a_current_snapshot() -> None:
    old = {key: value for key, value in table().items() if key != "refs"}
    assert prove_change(MOVE, old, None) == MOVE
    removed = replace(MOVE, refs=(RefMoved("main", "branch", None),))
    assert prove_change(removed, {**old, "current-snapshot-id": -1}, None) == removed


def test_expired_ids() -> None:
    assert prove_change(EXPIRE, table(), None) == EXPIRE
    still = replace(EXPIRE, expired_snapshot_ids=(5, 6))
    assert prove_change(still, table(), None) is None
    told = present_state(still, table())
    assert told is not None
    assert told.expired_snapshot_ids == (5,)


def test_properties_leave_no_trace_so_in_the_end_the_event_is_sent() -> None:
    assert prove_change(PROPERTIES, table(), None) is None
    assert present_state(PROPERTIES, table()) == PROPERTIES


def test_a_drop() -> None:
    drop = replace(MOVE, change=TableChange.DROPPED, refs=())
    assert prove_change(drop, None, None) == drop
    assert prove_change(drop, table(), None) is None
    assert prove_change(drop, table(**{"table-uuid": "its successor"}), None) == drop
    assert prove_change(replace(drop, uuid=None), None, None) is None


@pytest.mark.parametrize("change", [TableChange.CREATED, TableChange.REGISTERED])
def test_a_table_that_appeared(change: TableChange) -> None:
    appeared = replace(PROPERTIES, change=change, uuid=None)
    assert prove_change(appeared, table(), None) == replace(appeared, uuid="u")
    assert prove_change(appeared, None, None) is None


def test_a_rename_needs_the_old_name_to_be_gone() -> None:
    renamed = replace(PROPERTIES, change=TableChange.RENAMED, uuid=None, old_path="/s")
    assert prove_change(renamed, table(), None) == replace(renamed, uuid="u")
    assert prove_change(renamed, table(), table()) is None
    assert prove_change(renamed, None, table()) is None
