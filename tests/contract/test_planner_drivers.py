"""One contract for whatever drives the planner: the twin in memory, Faust, transactions."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from firnline_adapters.records.codec import encode_record
from firnline_adapters.records.signing import RecordSigner
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName, bucket_of
from firnline_domain.records.events import (
    ChangeKind,
    DeadLettered,
    PartitionChange,
    RewriteConflicted,
    TableScanned,
)
from firnline_domain.records.orders import (
    HoldPartitions,
    PauseMaintenance,
    ResumeMaintenance,
    ResyncTable,
    RewriteFiles,
    SizeWorkers,
    UnparkTable,
)
from firnline_domain.records.parts.conflict_reasons import ConflictReason as Conflict
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.results import TaskFailed
from firnline_domain.records.signing import Keyring, SigningKey
from firnline_domain.records.states import TableState

from tests.kit.planner_drives import (
    BUCKETS,
    SCOPE,
    SETTINGS,
    Drive,
    change,
    of,
    shown,
    until,
)


def is_ordered(records: list[tuple[int, Any]]) -> bool:
    """Return whether a rewrite was ordered. Faust's outputs to two topics come in either order."""
    return bool(of(RewriteFiles, records))


def test_events_become_counters_orders_and_states(drive: Drive, table: TableName) -> None:
    for snapshot in range(1, 11):
        drive.put("file-changes", change(table, snapshot))
    found = until(drive, table, lambda records: shown(records, 10) and is_ordered(records))
    [order] = of(RewriteFiles, found)
    assert (order.scope, order.reason, order.trigger_snapshot_id) == (SCOPE, "fragments", 8)
    state = of(TableState, found)[-1]
    assert (state.holds.fragments.files, state.ordinal) == (10, 10)
    assert state.partitions[0].status == "in_flight"


def test_every_output_is_in_the_tables_own_partition(drive: Drive, table: TableName) -> None:
    """Partitioner hazard (H17): whoever partitions differently breaks the order of a table's
    records."""
    drive.put("file-changes", change(table, 1, added=8))
    drive.put("file-changes", change(table, 3))
    found = until(drive, table, lambda records: bool(of(ResyncTable, records)))
    found = until(
        drive, table, lambda records: bool(of(TableState, records)) and is_ordered(records)
    )
    assert {place for place, _ in found} == {bucket_of(table.uuid, BUCKETS)}


def test_what_comes_twice_counts_once(drive: Drive, table: TableName) -> None:
    for snapshot in (1, 2, 2, 1, 3, 3):
        drive.put("file-changes", change(table, snapshot, added=4))
    found = until(drive, table, lambda records: shown(records, 3) and is_ordered(records))
    assert of(TableState, found)[-1].holds.fragments.files == 12
    assert len(of(RewriteFiles, found)) == 1


def test_a_gap_is_asked_for_when_time_has_passed(drive: Drive, table: TableName) -> None:
    drive.put("file-changes", change(table, 1))
    drive.put("file-changes", change(table, 3))
    found = until(drive, table, lambda records: bool(of(ResyncTable, records)))
    assert of(ResyncTable, found)[0].known_snapshot_id == 1
    drive.put("file-changes", change(table, 2))
    found = until(drive, table, lambda records: shown(records, 3))
    assert not of(TableState, found)[-1].waiting_for_resync


@pytest.mark.parametrize(
    ("signer", "reason"),
    [
        (RecordSigner(Keyring()), "unsigned"),
        (RecordSigner(Keyring((SigningKey("tests", b"t" * 32),))), "bad_signature"),
    ],
    ids=["unsigned", "forged"],
)
def test_what_the_fleet_has_not_signed_goes_to_dead_letters_and_changes_nothing(
    drive: Drive, table: TableName, signer: RecordSigner, reason: str
) -> None:
    """A forged word on a table's settings would have all of its snapshots expired."""
    drive.put("file-changes", change(table, 1))
    drive.put_raw("file-changes", table.uuid, encode_record(change(table, 2, 50)), signer)
    drive.put("file-changes", change(table, 2))
    found = until(
        drive, table, lambda records: shown(records, 2) and bool(of(DeadLettered, records))
    )
    [letter] = of(DeadLettered, found)
    assert (letter.reason, letter.topic, letter.service) == (reason, "file-changes", "planner")


def test_what_cannot_be_read_goes_to_dead_letters_and_blocks_nothing(
    drive: Drive, table: TableName
) -> None:
    drive.put("file-changes", change(table, 1))
    drive.put_raw("file-changes", table.uuid, b"not avro at all")
    drive.put("file-changes", change(table, 2))
    found = until(
        drive, table, lambda records: shown(records, 2) and bool(of(DeadLettered, records))
    )
    [letter] = of(DeadLettered, found)
    assert (letter.reason, letter.topic, letter.value, letter.service) == (
        "not_single_object",
        "file-changes",
        b"not avro at all",
        "planner",
    )


@pytest.mark.parametrize("claimed", [2**53, 2**62])
def test_whatever_files_claim_to_hold_other_tables_go_on(
    drive: Drive, table: TableName, claimed: int
) -> None:
    """Sums, and products of rows and bytes, are above what Avro and the state can hold; what no
    file can hold is a dead letter."""
    while bucket_of((other := TableName(str(uuid.uuid4()), ("db",), "t")).uuid, BUCKETS) != (
        bucket_of(table.uuid, BUCKETS)
    ):
        pass
    full = FileTally(
        fragments=Tally(9, claimed, claimed),
        on_target=Tally(2, claimed, claimed),
        equality_deletes=Tally(40, claimed, claimed),
        position_deletes=Tally(40, claimed, claimed),
    )
    for snapshot in (1, 2, 3):
        part = PartitionChange(SCOPE, full, FileTally())
        more = {"metadata_bytes": claimed, "manifests": claimed, "manifest_bytes": claimed}
        drive.put("file-changes", change(table, snapshot, partitions=(part,), **more))
    drive.put("file-changes", change(other, 1, added=8))
    found = until(drive, other, lambda records: bool(of(RewriteFiles, records)))
    if claimed > 2**53:
        drive.put("file-changes", change(table, 4))
        found = until(drive, table, lambda records: bool(of(DeadLettered, records)))
        assert {one.reason for one in of(DeadLettered, found)} == {"bad_value"}
        return
    found = until(drive, table, lambda records: shown(records, 3))
    assert of(TableState, found)[-1].holds.equality_deletes.records == 2**53
    assert of(DeadLettered, found) == []
    drive.put("file-changes", change(other, 2, added=8))
    until(drive, other, lambda records: shown(records, 2))


def test_what_no_state_can_hold_goes_to_dead_letters_and_the_table_is_asked_for(
    drive: Drive, table: TableName
) -> None:
    """17 MB of property are 17 kB on the topic, and more than the changelog takes; 0.9 MB are no
    more than the topic takes, and yet more than a state may grow to under Faust."""
    other = TableName(str(uuid.uuid4()), ("db",), "t")
    drive.put("file-changes", change(table, 1))
    bomb = change(table, 2, settings={"firnline.note": "x" * 17_000_000})
    drive.put_raw("file-changes", table.uuid, encode_record(bomb))
    blob = change(table, 2, settings={"firnline.note": "x" * 950_000})
    drive.put_raw("file-changes", table.uuid, encode_record(blob))
    drive.put("file-changes", change(other, 1, added=8))
    found = until(drive, other, lambda records: bool(of(RewriteFiles, records)))
    drive.put("file-changes", change(table, 3))
    if drive.max_value_bytes > 1_000_000:  # all that a topic takes
        found = until(drive, table, lambda records: shown(records, 3))
        assert [one.reason for one in of(DeadLettered, found)] == ["too_large"]
        assert of(ResyncTable, found) == []
        return
    found = until(drive, table, lambda records: bool(of(ResyncTable, records)))
    assert [one.reason for one in of(DeadLettered, found)] == ["too_large", "state_too_large"]
    assert [one.value_bytes for one in of(DeadLettered, found)] == [len(encode_record(bomb)), None]
    assert of(ResyncTable, found)[0].known_snapshot_id == 1
    whole = {"kind": ChangeKind.ABSOLUTE, "snapshot_count": 3, "observed_at_ms": drive.now_ms}
    drive.put("file-changes", change(table, 3, added=3, event_id="whole", **whole))
    found = until(drive, table, lambda records: shown(records, 3))
    state = of(TableState, found)[-1]
    assert (state.holds.fragments.files, state.waiting_for_resync) == (3, False)


def test_an_order_ends_and_the_next_one_follows(drive: Drive, table: TableName) -> None:
    drive.put("file-changes", change(table, 1, added=8))
    [order] = of(RewriteFiles, until(drive, table, lambda records: bool(of(RewriteFiles, records))))
    drive.put("file-changes", change(table, 2, added=9, task_id=order.task_id))
    found = until(drive, table, lambda records: shown(records, 2))
    drive.put("file-changes", change(table, 3, added=8))
    found = until(drive, table, lambda records: len(of(RewriteFiles, records)) == 2)
    assert of(RewriteFiles, found)[-1].trigger_snapshot_id == 3


def test_events_of_both_topics_meet_in_one_state(drive: Drive, table: TableName) -> None:
    drive.put("file-changes", change(table, 1, added=8))
    [order] = of(RewriteFiles, until(drive, table, lambda records: bool(of(RewriteFiles, records))))
    reason = Conflict.PIN_LOST
    refused = RewriteConflicted(order.task_id, table, "main", SCOPE, reason, "", 1, 1, 0)
    drive.put("maintenance-events", refused)
    found = until(drive, table, lambda records: len(of(RewriteFiles, records)) == 2)
    again = of(RewriteFiles, found)[-1]
    assert (again.task_id, again.attempt) == (order.task_id, 2)


def test_scans_that_readers_report_become_the_tables_rate(drive: Drive, table: TableName) -> None:
    """Two hours of reports in a moment; time is in the records themselves."""
    scanned = TableScanned(table, 0, 0, scans=60, data_files=10_000)
    drive.put("table-scans", replace(scanned, table=replace(table, uuid="nobody's")))
    drive.put("file-changes", change(table, 1))
    until(drive, table, lambda records: shown(records, 1))
    start_ms = drive.now_ms - 120 * 60_000
    for minute in range(120):
        at_ms = start_ms + minute * 60_000
        drive.put("table-scans", replace(scanned, from_ms=at_ms - 60_000, to_ms=at_ms))

    def known(records: list[tuple[int, Any]]) -> bool:
        reads = of(TableState, records)[-1].reads
        return reads is not None and reads.reported > 3_400

    drive.put("file-changes", change(table, 2))
    found = until(drive, table, known)
    state = of(TableState, found)[-1]
    assert state.reads.reported == pytest.approx(3_600, rel=0.05)
    assert state.reads.since_ms == start_ms
    assert state.reads.in_force == pytest.approx(3_600, rel=0.2)
    assert not of(DeadLettered, found)


def status(found: list[tuple[int, Any]]) -> tuple[str, str] | None:
    states = of(TableState, found)
    if not states or not states[-1].partitions:
        return None
    return states[-1].partitions[0].status, states[-1].partitions[0].reason


def test_what_people_order_ends_a_pause_or_makes_one(drive: Drive, table: TableName) -> None:
    """A failed partition waits for 10 s; a word frees it at once. Held, it waits for a day."""
    drive.put("file-changes", change(table, 1, added=8))
    [order] = of(RewriteFiles, until(drive, table, lambda records: bool(of(RewriteFiles, records))))
    drive.put(
        "maintenance-events",
        TaskFailed(
            order.task_id, table, "main", SCOPE, "rewrite", 1, "w", "out_of_memory", "", False, 1
        ),
    )
    drive.put("operator-orders", HoldPartitions(table, "main", (SCOPE,), "undone", 10**14, "me", 1))
    until(drive, table, lambda records: status(records) == ("parked", "undone"))
    unpark = UnparkTable(table, "main", SCOPE.partition, "me", 2)
    for _ in range(2):
        drive.put("operator-orders", unpark)
    found = until(drive, table, lambda records: len(of(RewriteFiles, records)) == 2)
    assert of(RewriteFiles, found)[-1].attempt == 2
    drive.put("file-changes", change(table, 2))
    found = until(drive, table, lambda records: shown(records, 2))
    assert len(of(RewriteFiles, found)) == 2


def test_heavy_orders_that_run_out_of_memory_size_the_lanes_workers(
    drive: Drive, table: TableName
) -> None:
    """In the bucket's own partition, under its own key; the broker has other planners' too."""
    since_ms = time.time() * 1000
    tally = FileTally(fragments=Tally(8, 8, 8), equality_deletes=Tally(8, 8, 8))
    parts = tuple(PartitionChange(Scope(0, f'["{one}"]'), tally, FileTally()) for one in "abc")
    heavy = {**SETTINGS, "firnline.rewrite.heavy-bytes": "0"}
    drive.put("file-changes", change(table, 1, partitions=parts, settings=heavy))
    found = until(drive, table, lambda records: len(of(RewriteFiles, records)) == 3)
    for order in of(RewriteFiles, found):
        failed = TaskFailed(
            order.task_id, table, "main", order.scope, "rewrite", 1, "w", "out_of_memory", "", True,
            1, "heap",
        )  # fmt: skip
        drive.put("maintenance-events", failed)

    def told(records: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        return [
            (place, one)
            for place, one in records
            if isinstance(one, SizeWorkers) and one.at_ms >= since_ms
        ]

    until(drive, table, lambda records: bool(told(records)))
    for _ in range(3):
        drive.look()
    *_, (place, one) = told(until(drive, table, lambda records: bool(told(records))))
    assert place == one.bucket == bucket_of(table.uuid, BUCKETS)
    before = one.numbers["heap_steps_before"]  # more than 0 where an earlier test had the bucket
    assert (one.lane, one.heap_steps, one.overhead_steps) == ("heavy", before + 1, 0)


def test_the_fleets_switch_holds_for_all_tables_until_it_is_let_go(
    drive: Drive, table: TableName
) -> None:
    """Also for tables that come later, in whatever bucket."""
    later = [TableName(str(uuid.uuid4()), ("db",), "t") for _ in range(BUCKETS)]
    drive.tell_all("operator-orders", PauseMaintenance(None, "why", "me", 1))
    try:
        for _ in range(5):
            drive.look()  # records of two topics come in any order
        for one in (table, *later):
            drive.put("file-changes", change(one, 1, added=8))
            found = until(drive, one, lambda records: shown(records, 1))
            state = of(TableState, found)[-1]
            assert (state.hold and state.hold.reason, status(found)) == (
                "paused",
                ("idle", "paused"),
            )
            assert not of(RewriteFiles, found)
    finally:
        drive.tell_all("operator-orders", ResumeMaintenance(None, "me", 2))
    for one in (table, *later):
        until(drive, one, lambda records: len(of(RewriteFiles, records)) == 1)
    new = TableName(str(uuid.uuid4()), ("db",), "t")
    drive.put("file-changes", change(new, 1, added=8))
    until(drive, new, lambda records: len(of(RewriteFiles, records)) == 1)
