from __future__ import annotations

from firnline_adapters.records.codec import RecordCodec, encode
from firnline_adapters.records.signing import keys_here
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import ChangeKind, PartitionChange, SnapshotAdded
from firnline_domain.records.parts.summaries import TASK_ID, sign_summary
from firnline_domain.records.parts.tallies import FileTally
from firnline_enricher.file_changes import (
    CHUNK_PARTITIONS,
    Subject,
    absolute,
    delta,
    dropped,
    empty,
    moved,
    noted,
    removed,
)

SUBJECT = Subject(TableName("u", ("db",), "t"), "main", "c1", 7, 2, {"gc.enabled": "false"}, 4)
OURS = sign_summary({TASK_ID: "abc"}, SUBJECT.table.uuid, keys_here(), 1)
SNAPSHOT = SnapshotAdded(5, 3, 2, 6, "append", "list", OURS)


def parts(count: int) -> list[PartitionChange]:
    tallies = (FileTally(), FileTally())
    return [PartitionChange(Scope(0, f"[{number}]"), *tallies) for number in range(count)]


def test_a_big_commit_goes_out_in_numbered_chunks_that_lose_nothing() -> None:
    everything = parts(2 * CHUNK_PARTITIONS + 1)
    chunks = delta(SUBJECT, SNAPSHOT, everything)
    assert [(one.chunk, one.chunks, len(one.partitions)) for one in chunks] == [
        (0, 3, CHUNK_PARTITIONS),
        (1, 3, CHUNK_PARTITIONS),
        (2, 3, 1),
    ]
    assert [part for one in chunks for part in one.partitions] == everything
    assert len({one.event_id for one in chunks}) == 3


def test_a_snapshot_without_files_is_told_all_the_same() -> None:
    (change,) = delta(SUBJECT, SNAPSHOT, [])
    assert (change.snapshot_id, change.parent_snapshot_id, change.chunks) == (5, 3, 1)
    assert (change.task_id, change.settings) == ("abc", {"gc.enabled": "false"})
    assert change.expired_snapshots == 4


def test_every_kind_fits_its_schema() -> None:
    changes = [
        *delta(SUBJECT, SNAPSHOT, parts(1)),
        *absolute(SUBJECT, SNAPSHOT, parts(1), 3, 1),
        empty(SUBJECT),
        noted(SUBJECT),
        moved(SUBJECT, 9, 5),
        removed(SUBJECT),
        dropped(SUBJECT),
    ]
    assert [RecordCodec().decode(encode(change)) for change in changes] == changes
    kinds = [change.kind for change in changes]
    assert kinds[:2] == [ChangeKind.DELTA, ChangeKind.ABSOLUTE]
    assert kinds[4:] == [ChangeKind.REF_MOVED, ChangeKind.REMOVED, ChangeKind.REMOVED]


def test_ids_are_the_same_if_sent_again_and_differ_between_causes() -> None:
    other = Subject(SUBJECT.table, "main", "c2", 99)
    assert moved(SUBJECT, 9).event_id != moved(other, 9).event_id
    assert delta(SUBJECT, SNAPSHOT, [])[0].event_id == delta(other, SNAPSHOT, [])[0].event_id
