from __future__ import annotations

from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_adapters.records.signing import keys_here
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, PartitionChange, SnapshotAdded
from firnline_domain.records.parts.summaries import TASK_ID, sign_summary
from firnline_domain.records.parts.tallies import FileTally
from firnline_enricher.file_changes import (
    CHUNK_PARTITIONS,
    ChangeContext,
    absolute_changes,
    delta_changes,
    empty_branch,
    facts_delta,
    ref_move_change,
    ref_removal,
    table_removal,
)

SUBJECT = ChangeContext(
    TableName("u", ("db",), "t"), "main", "c1", 7, 2, {"gc.enabled": "false"}, 4
)
OURS = sign_summary({TASK_ID: "abc"}, SUBJECT.table.uuid, keys_here(), 1)
SNAPSHOT = SnapshotAdded(5, 3, 2, 6, "append", "list", OURS)


def parts(count: int) -> list[PartitionChange]:
    tallies = (FileTally(), FileTally())
    return [PartitionChange(Scope(0, f"[{number}]"), *tallies) for number in range(count)]


def test_a_big_commit_goes_out_in_numbered_chunks_that_lose_nothing() -> None:
    everything = parts(2 * CHUNK_PARTITIONS + 1)
    chunks = delta_changes(SUBJECT, SNAPSHOT, everything)
    assert [(one.chunk, one.chunks, len(one.partitions)) for one in chunks] == [
        (0, 3, CHUNK_PARTITIONS),
        (1, 3, CHUNK_PARTITIONS),
        (2, 3, 1),
    ]
    assert [part for one in chunks for part in one.partitions] == everything
    assert len({one.event_id for one in chunks}) == 3


def test_a_snapshot_without_files_is_told_all_the_same() -> None:
    (change,) = delta_changes(SUBJECT, SNAPSHOT, [])
    assert (change.snapshot_id, change.parent_snapshot_id, change.chunks) == (5, 3, 1)
    assert (change.task_id, change.settings) == ("abc", {"gc.enabled": "false"})
    assert change.expired_snapshots == 4


def test_every_kind_fits_its_schema() -> None:
    changes = [
        *delta_changes(SUBJECT, SNAPSHOT, parts(1)),
        *absolute_changes(SUBJECT, SNAPSHOT, parts(1), 3, 1),
        empty_branch(SUBJECT),
        facts_delta(SUBJECT),
        ref_move_change(SUBJECT, 9, 5),
        ref_removal(SUBJECT),
        table_removal(SUBJECT),
    ]
    assert [RecordCodec().decode(encode_record(change)) for change in changes] == changes
    kinds = [change.kind for change in changes]
    assert kinds[:2] == [ChangeKind.DELTA, ChangeKind.ABSOLUTE]
    assert kinds[4:] == [ChangeKind.REF_MOVED, ChangeKind.REMOVED, ChangeKind.REMOVED]


def test_ids_are_the_same_if_sent_again_and_differ_between_causes() -> None:
    other = ChangeContext(SUBJECT.table, "main", "c2", 99)
    assert ref_move_change(SUBJECT, 9).event_id != ref_move_change(other, 9).event_id
    assert (
        delta_changes(SUBJECT, SNAPSHOT, [])[0].event_id
        == delta_changes(other, SNAPSHOT, [])[0].event_id
    )
