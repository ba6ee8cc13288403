"""Manifests of every version, written by hand: what is inherited, what is kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from firnline_domain.errors import StorageUnreachable
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.avro_reader import (
    AvroFields,
    MetadataFileGone,
    MetadataUnreadable,
    read_records,
)
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus, FileEntry
from firnline_iceberg.metadata.manifest_reader import (
    Detail,
    ManifestFile,
    read_manifest,
    read_manifest_list,
)
from firnline_iceberg.metadata.partition_text import PartitionText
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, NestedField, StringType

WriteManifest = Callable[..., str]
PATH_COLUMN = 2147483546
UNPARTITIONED = PartitionText(PartitionSpec(), [])


def manifest_of(path: str, **more: Any) -> ManifestFile:
    facts = {"length": 1, "spec_id": 0, "added_snapshot_id": 77, "sequence_number": 5, **more}
    return ManifestFile(path=path, **facts)


def read(io: FileIO, manifest: ManifestFile, detail: Detail = Detail.REFERENCES) -> list[Any]:
    return list(read_manifest(io, manifest, UNPARTITIONED, detail))


def entry(status: int, path: str = "s3://b/f.parquet", **more: Any) -> dict[str, Any]:
    return {"status": status, "file_path": path, **more}


def test_v2_null_numbers_are_inherited_by_added_entries_only(
    io: FileIO, write_manifest: WriteManifest
) -> None:
    path = write_manifest(
        2,
        [
            entry(1),
            entry(0, snapshot_id=9, sequence_number=3, file_sequence_number=4),
            entry(2, snapshot_id=9, sequence_number=2, file_sequence_number=2),
            entry(1, sequence_number=1),  # a rewrite keeps an explicit data sequence number
            entry(0, snapshot_id=9),  # against the spec, and not to be made up for
        ],
    )
    found = [
        (one.status, one.snapshot_id, one.sequence_number, one.file_sequence_number)
        for one in read(io, manifest_of(path))
    ]
    assert found == [
        (EntryStatus.ADDED, 77, 5, 5),
        (EntryStatus.EXISTING, 9, 3, 4),
        (EntryStatus.DELETED, 9, 2, 2),
        (EntryStatus.ADDED, 77, 1, 5),
        (EntryStatus.EXISTING, 9, None, None),
    ]


def test_v1_numbers_are_zero_and_all_files_are_data(
    io: FileIO, write_manifest: WriteManifest
) -> None:
    path = write_manifest(1, [entry(1, snapshot_id=77), entry(0, snapshot_id=8)])
    found = read(io, manifest_of(path, sequence_number=0))
    assert all(isinstance(one, DataFileEntry) for one in found)
    numbers = [(one.snapshot_id, one.sequence_number, one.file_sequence_number) for one in found]
    assert numbers == [(77, 0, 0), (8, 0, 0)]


def test_v3_deletion_vectors_keep_what_tells_them_apart(
    io: FileIO, write_manifest: WriteManifest
) -> None:
    two = [
        entry(
            1,
            "s3://b/d.puffin",
            content=1,
            file_format="puffin",
            referenced_data_file=f"file:/w/{name}.parquet",
            content_offset=offset,
            content_size_in_bytes=40,
        )
        for name, offset in (("a", 4), ("b", 44))
    ]
    found = read(io, manifest_of(write_manifest(3, two), holds_deletes=True), Detail.COUNTS)
    assert [one for one in found if isinstance(one, DeleteFileEntry)] == found
    a, b = (one for one in found if isinstance(one, DeleteFileEntry))
    assert (a.kind, a.format) == (DeleteKind.DELETION_VECTOR, "PUFFIN")
    assert a.referenced_data_file == "file:///w/a.parquet"
    assert (a.content_offset, a.content_size) == (4, 40)
    assert a.key != b.key


def test_v3_first_row_ids_are_counted_on_over_files_that_have_none(
    io: FileIO, write_manifest: WriteManifest
) -> None:
    entries = [
        entry(1, record_count=10),
        entry(0, snapshot_id=1, sequence_number=1, record_count=5, first_row_id=3),
        entry(2, snapshot_id=1, sequence_number=1, record_count=7),
        entry(1, record_count=20),
    ]
    path = write_manifest(3, entries)
    found = [one.first_row_id for one in read(io, manifest_of(path, first_row_id=100)) if rows(one)]
    assert found == [100, 3, None, 110]
    assert {one.first_row_id for one in read(io, manifest_of(path)) if rows(one)} == {None}


def rows(one: FileEntry) -> bool:
    return isinstance(one, DataFileEntry)


def bounds(lower: bytes, upper: bytes) -> dict[str, Any]:
    return {
        "lower_bounds": [{"key": PATH_COLUMN, "value": lower}],
        "upper_bounds": [{"key": PATH_COLUMN, "value": upper}],
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"content": 1}, None),
        ({"content": 1, **bounds(b"file:/w/a", b"file:/w/a")}, "file:///w/a"),
        ({"content": 1, **bounds(b"file:/w/a", b"file:/w/b")}, None),
        ({"content": 1, **bounds(b"file:/w/\xe2", b"file:/w/\xe2")}, None),  # cut in a character
        ({"content": 1, **bounds(b"\xff\xfe", b"\0")}, None),
        ({"content": 1, "referenced_data_file": "file:/w/c"}, "file:///w/c"),
        ({"content": 2, "equality_ids": [2, 1], **bounds(b"x", b"x")}, None),
    ],
)
def test_the_one_data_file_of_a_position_delete(
    io: FileIO, write_manifest: WriteManifest, more: dict[str, Any], expected: str | None
) -> None:
    manifest = manifest_of(write_manifest(2, [entry(1, **more)]), holds_deletes=True)
    (found,) = read(io, manifest)
    assert isinstance(found, DeleteFileEntry)
    assert found.referenced_data_file == expected
    assert found.named_by_bounds is (expected == "file:///w/a")
    assert found.equality_ids == ((1, 2) if more["content"] == 2 else ())


def test_statistics_are_decoded_on_demand(io: FileIO, write_manifest: WriteManifest) -> None:
    counts = {
        "value_counts": [{"key": 1, "value": 10}],
        "null_value_counts": [{"key": 1, "value": 2}],
        **bounds(b"a", b"b"),
    }
    manifest = manifest_of(write_manifest(2, [entry(1, **counts)]))
    (without,), (found,) = read(io, manifest), read(io, manifest, Detail.STATS)
    assert without.stats is None
    assert found.stats is not None
    assert (found.stats.value_counts, found.stats.null_counts) == ({1: 10}, {1: 2})
    assert (found.stats.lower, found.stats.upper) == ({PATH_COLUMN: b"a"}, {PATH_COLUMN: b"b"})


def test_encryption_is_seen(io: FileIO, write_manifest: WriteManifest) -> None:
    path = write_manifest(2, [entry(1, key_metadata=b"k"), entry(1)])
    assert [one.encrypted for one in read(io, manifest_of(path))] == [True, False]


def test_a_partition_value_may_lie_outside_python_and_its_name_does_not_matter(
    io: FileIO, write_manifest: WriteManifest
) -> None:
    spec = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "day"),
        PartitionField(2, 1001, IdentityTransform(), "s.x"),
    )
    schema = Schema(NestedField(1, "day", DateType()), NestedField(2, "s.x", StringType()))
    date_type = {"type": "int", "logicalType": "date"}
    fields = [
        {"name": "p1001", "type": ["null", date_type], "field-id": 1000},
        {"name": "s_x2Ex", "type": ["null", "string"], "field-id": 1001},
    ]
    values = [
        {"p1001": 2932897, "s_x2Ex": "a"},
        {"p1001": dt.date(2026, 1, 1), "s_x2Ex": None},
    ]
    path = write_manifest(2, [entry(1, partition=value) for value in values], fields)
    found = read_manifest(io, manifest_of(path), PartitionText(spec, [schema]))
    assert [one.partition for one in found] == ['["+10000-01-01","a"]', '["2026-01-01",null]']


@pytest.mark.parametrize("most", [False, True])
def test_a_field_that_is_not_wanted_takes_nobodys_name(
    io: FileIO, tmp_path: Path, most: bool
) -> None:
    """A writer's field of its own is called as we call the path, and comes after it."""
    fields = [
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "path", "type": {"type": "int", "logicalType": "date"}, "field-id": 9_999},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "field-id": 9_998},
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    with (tmp_path / "m.avro").open("wb") as out:
        fastavro.writer(out, schema, [{"file_path": "f", "path": 7, "day": 8}])
    wanted = AvroFields({100: "path", 9_998: "at"}, most=most)
    [found] = read_records(io, str(tmp_path / "m.avro"), wanted)
    assert (found["path"], found["at"]) == ("f", 8)


def test_a_partition_tuple_may_be_optional(io: FileIO, write_manifest: WriteManifest) -> None:
    """As Sail 0.7.2 writes it; Java and PyIceberg read it so."""
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
    partition = PartitionText(spec, [Schema(NestedField(1, "p", StringType()))])
    fields = [{"name": "p", "type": ["null", "string"], "field-id": 1000}]
    path = write_manifest(2, [entry(1, partition={"p": "p0"})], fields, optional=True)
    [found] = read_manifest(io, manifest_of(path), partition)
    assert found.partition == '["p0"]'


def test_no_partition_tuple_is_an_unpartitioned_file(
    io: FileIO, write_manifest: WriteManifest
) -> None:
    path = write_manifest(2, [entry(1, partition=None)], optional=True)
    [found] = read(io, manifest_of(path))
    assert found.partition == read(io, manifest_of(write_manifest(2, [entry(1)])))[0].partition


def test_zeros_of_both_signs_are_two_partitions(io: FileIO, write_manifest: WriteManifest) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "x"))
    partition = PartitionText(spec, [Schema(NestedField(1, "x", DoubleType()))])
    fields = [{"name": "x", "type": ["null", "double"], "field-id": 1000}]
    path = write_manifest(2, [entry(1, partition={"x": x}) for x in (0.0, -0.0, 0.0)], fields)
    found = [one.partition for one in read_manifest(io, manifest_of(path), partition)]
    assert found == ["[0.0]", "[-0.0]", "[0.0]"]


@pytest.mark.parametrize("word", ["files", "data_files"])
def test_counts_of_a_manifest_list_have_had_two_names(
    io: FileIO, tmp_path: Path, word: str
) -> None:
    keys = {500: "manifest_path", 501: "manifest_length", 502: "partition_spec_id"}
    keys |= {503: "added_snapshot_id", 504: f"added_{word}_count"}
    keys |= {505: f"existing_{word}_count", 506: f"deleted_{word}_count"}
    kinds = {500: "string", 501: "long", 503: "long"}
    fields = [
        {"name": name, "type": kinds.get(key, "int"), "field-id": key} for key, name in keys.items()
    ]
    row = dict(zip(keys.values(), ("m.avro", 9, 2, 77, 1, 0, 3), strict=True))
    path = tmp_path / "list.avro"
    with path.open("wb") as stream:
        schema = {"type": "record", "name": "manifest_file", "fields": fields}
        fastavro.writer(stream, schema, [row])
    (found,) = read_manifest_list(io, f"file:{path}")
    assert (found.path, found.length, found.spec_id, found.added_snapshot_id) == (
        "m.avro",
        9,
        2,
        77,
    )
    assert (found.added_files, found.existing_files, found.deleted_files) == (1, 0, 3)
    assert (found.sequence_number, found.min_sequence_number, found.holds_deletes) == (0, 0, False)


def test_a_missing_file_is_gone_and_a_failing_storage_is_tried_later(
    io: FileIO, tmp_path: Path
) -> None:
    with pytest.raises(MetadataFileGone):
        read_manifest_list(io, f"file://{tmp_path}/none.avro")
    with pytest.raises(StorageUnreachable):
        read_manifest_list(io, f"file://{tmp_path}")  # a directory: an OSError of another kind


@pytest.mark.parametrize("cut", [1, 17, 40])
def test_a_manifest_that_is_damaged_is_named_as_unreadable(
    io: FileIO, write_manifest: WriteManifest, cut: int
) -> None:
    path = write_manifest(2, [entry(1, "s3://b/" + "x" * 400)])
    local = Path(path.removeprefix("file:"))
    whole = local.read_bytes()
    local.write_bytes(whole[: len(whole) - cut])
    with pytest.raises(MetadataUnreadable) as refused:
        read(io, manifest_of(path))
    assert refused.value.reason == "metadata_unreadable"
    assert path in str(refused.value)


@pytest.mark.parametrize("nonsense", [{"record_count": -576}, {"file_size_in_bytes": -1}])
def test_an_entry_that_cannot_be_is_unreadable_though_it_decodes(
    io: FileIO, write_manifest: WriteManifest, nonsense: dict[str, int]
) -> None:
    """A `fixed` partition that was written as `bytes` shifts what comes after it."""
    path = write_manifest(2, [entry(1, **nonsense)])
    with pytest.raises(MetadataUnreadable):
        read(io, manifest_of(path))


@pytest.mark.parametrize(
    ("claims", "counted"),
    [
        ({"record_count": 2**62}, (0, 100)),
        ({"record_count": 2**53 + 1}, (0, 100)),
        ({"file_size_in_bytes": 2**63 - 1}, (5, 0)),
        ({"record_count": 2**62, "file_size_in_bytes": 2**62}, (0, 0)),
    ],
)
def test_an_entry_that_claims_what_no_file_has_counts_as_nothing_and_is_acted_on_by_nobody(
    io: FileIO,
    write_manifest: WriteManifest,
    claims: dict[str, int],
    counted: tuple[int, int],
) -> None:
    """0 rows would be dead rows alone: a rewrite would leave them out."""
    plain = {"record_count": 5, "file_size_in_bytes": 100}
    manifest = manifest_of(write_manifest(2, [entry(1, **{**plain, **claims}), entry(1, **plain)]))
    odd, fine = read(io, manifest, Detail.COUNTS)
    assert (odd.records, odd.bytes, odd.has_odd_numbers) == (*counted, True)
    assert (fine.records, fine.bytes, fine.has_odd_numbers) == (5, 100, False)
    for detail in set(Detail) - {Detail.COUNTS}:
        with pytest.raises(MetadataUnreadable, match="no file has as much"):
            read(io, manifest, detail)


def test_the_highest_amount_is_none_too_much(io: FileIO, write_manifest: WriteManifest) -> None:
    path = write_manifest(2, [entry(1, record_count=2**53, file_size_in_bytes=2**53)])
    [found] = read(io, manifest_of(path))
    assert (found.records, found.bytes, found.has_odd_numbers) == (2**53, 2**53, False)
