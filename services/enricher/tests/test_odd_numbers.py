"""Manifests claim what no file has: the table is counted without it, and its owner is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.base.values import LAST_MOMENT
from firnline_domain.records.events import ChangeKind, FilesChanged
from firnline_domain.records.orders import ResyncTable
from firnline_enricher.resyncs import to_snapshot_added

Lake = Any  # conftest.Lake


def claim(lake: Lake, **claims: int) -> None:
    """Make the newest manifest of the table claim these numbers of each file."""
    newest = lake.table.current_snapshot().manifests(lake.table.io)[0]
    path = Path(newest.manifest_path.removeprefix("file://"))
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        known = {key: value for key, value in reader.metadata.items() if key != "avro.codec"}
        entries, schema = list(reader), reader.writer_schema
    for one in entries:
        one["data_file"] |= claims
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, entries, metadata=known)


def sent(changes: list[FilesChanged]) -> list[FilesChanged]:
    """As their reader has them: what is out of range would not arrive."""
    return [RecordCodec().decode(encode_record(one)) for one in changes]


@pytest.mark.parametrize("claimed", [2**53 + 1, 2**62, 2**63 - 1])
def test_files_that_claim_too_much_count_as_nothing_and_are_counted(
    lake: Lake, rows: Any, claimed: int
) -> None:
    lake.table.append(rows((1, 1), (1, 2)))
    claim(lake, record_count=claimed, file_size_in_bytes=claimed)
    lake.table.append(rows((1, 3)))
    first, second = sent(lake.follow())
    assert (first.odd_files, second.odd_files) == (1, 0)
    added = first.partitions[0].added
    assert (added.all_data.files, added.all_data.records, added.all_data.bytes) == (1, 0, 0)
    [counted] = sent(lake.handle(ResyncTable(lake.name, "main", None, None, "first_seen", 1)))
    assert (counted.kind, counted.odd_files) == (ChangeKind.ABSOLUTE, 1)
    assert counted.partitions[0].added.all_data.records == 1


def test_a_file_that_is_gone_is_odd_no_more(lake: Lake, rows: Any) -> None:
    lake.table.append(rows((1, 1)))
    claim(lake, record_count=2**62)
    lake.table.overwrite(rows((1, 3)))
    assert sum(one.odd_files for one in sent(lake.follow())) == 0


def test_sums_of_what_files_may_claim_stop_at_the_highest_amount(lake: Lake, rows: Any) -> None:
    lake.table.append(rows(*((number, 1) for number in range(3))))
    claim(lake, record_count=2**53, file_size_in_bytes=2**53)
    [change] = sent(lake.follow())
    assert change.odd_files == 0
    assert {one.added.oversized.records for one in change.partitions} == {2**53}


def test_a_snapshot_of_a_moment_that_no_clock_shows_is_told_with_one(lake: Lake, rows: Any) -> None:
    lake.table.append(rows((1, 1)))
    [snapshot] = lake.tables.load(lake.name).snapshots
    told = to_snapshot_added(snapshot.model_copy(update={"timestamp_ms": 2**62}))
    assert told.timestamp_ms == LAST_MOMENT
