from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pytest
from firnline_deletes.deletes import positions, vectors
from firnline_deletes.files.parquet import SequencedFile
from firnline_deletes.unsupported_files import UnsupportedFile
from pyroaring import BitMap64


def normal(path: str) -> str:
    return "file:///" + path.removeprefix("file:").lstrip("/")


def test_positions_are_grouped_sorted_and_distinct_and_found_by_any_spelling(folder):
    files = [
        folder.position_deletes(5, [("file:///a", 3), ("file:///a", 1), ("file:/b", 9)]),
        folder.position_deletes(6, [("file:///a", 1), ("file:///a", 0), ("/c", 2)]),
    ]
    data = [SequencedFile(name, 1) for name in ("file:///a", "file:/b", "/c")]
    made = positions.build_position_set(files, data, folder.open, normal)
    assert made.positions_in("/a").tolist() == [0, 1, 3]
    assert made.positions_in("file:///b").tolist() == [9]
    assert made.positions_in("file:/c").tolist() == [2]
    assert made.positions_in("file:/d").tolist() == []
    path = folder.root / "positions.arrow"
    made.write_to(path)
    mapped = positions.open_mapped(path, normal)
    assert [mapped.positions_in(f"/{x}").tolist() for x in "abcd"] == [[0, 1, 3], [9], [2], []]
    assert len(mapped) == 5


def test_a_file_named_by_another_spelling_than_its_manifests_is_refused(folder):
    """Iceberg's `DataFileFilter` and PyIceberg compare the text: their readers see those rows."""
    file = folder.position_deletes(5, [("file:/a", 0), ("/newer", 0)])
    with pytest.raises(UnsupportedFile) as refused:
        positions.build_position_set([file], [SequencedFile("file:///a", 1)], folder.open, normal)
    assert refused.value.reason == "another_spelling"
    newer = positions.build_position_set(
        [file], [SequencedFile("file:/newer", 6)], folder.open, normal
    )
    assert len(newer) == 0  # it does not apply anyway


def test_a_position_delete_applies_at_its_own_sequence_number_but_not_to_newer_data(folder):
    file = folder.position_deletes(5, [("/same", 0), ("/newer", 0), ("/unknown", 0)])
    data = [SequencedFile("/same", 5), SequencedFile("/newer", 6)]
    made = positions.build_position_set([file], data, folder.open, normal)
    assert made.positions_in("/same").tolist() == [0]
    assert made.positions_in("/newer").tolist() == []
    assert len(made) == 1


def blob(positions: list[int]) -> bytes:
    body = vectors.MAGIC + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin(folder, *blobs: bytes) -> str:
    path = folder.path("puffin")
    with open(path, "wb") as file:
        file.write(b"PFA1" + b"".join(blobs))
    return path


def test_a_vector_takes_the_place_of_the_position_deletes_of_its_file(folder):
    blobs = [blob([1, 3]), blob([0, 2**33])]
    path = puffin(folder, *blobs)
    second = 4 + len(blobs[0])
    listed = [
        vectors.Vector(path, 4, len(blobs[0]), "file:///a", 5, 2),
        vectors.Vector(path, second, len(blobs[1]), "file:///b", 5, 2),
        vectors.Vector(path, second, len(blobs[1]), "file:///newer", 5, 2),
    ]
    file = folder.position_deletes(6, [("/a", 9), ("/c", 7), ("/b", 8)])
    data = [SequencedFile(name, 5) for name in ("/a", "file:/b", "/c")]
    data.append(SequencedFile("/newer", 6))
    made = positions.build_position_set([file], data, folder.open, normal, listed)
    assert made.positions_in("/a").tolist() == [1, 3]
    assert made.positions_in("/b").tolist() == [0, 2**33]
    assert made.positions_in("/c").tolist() == [7]
    assert made.positions_in("/newer").tolist() == []
    names = {positions.position_set_id("t", data, [file], listed[:n]) for n in range(3)}
    assert len(names) == 3


GOOD = blob([1, 2, 70000])


@pytest.mark.parametrize(
    ("stored", "records"),
    [
        (GOOD, 2),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), 3),
        (GOOD[:20] + bytes([GOOD[20] ^ 1]) + GOOD[21:], 3),
        (GOOD[:4] + b"PFA1" + GOOD[8:], 3),
        (b"\0\0\0\1" + GOOD[4:], 3),
        (GOOD[:9], 3),
        (blob([])[:8] + struct.pack(">I", zlib.crc32(vectors.MAGIC)), 0),
    ],
)
def test_a_broken_vector_is_refused(folder, stored, records):
    vector = vectors.Vector(puffin(folder, stored), 4, len(stored), "/a", 5, records)
    with pytest.raises(UnsupportedFile) as refused:
        vectors.read_positions(vector, folder.open)
    assert refused.value.reason == "unreadable_vector"


def test_nothing_is_a_set_too(folder):
    made = positions.build_position_set([], [], folder.open, normal)
    made.write_to(folder.root / "none.arrow")
    assert len(positions.open_mapped(folder.root / "none.arrow", normal)) == 0


def test_a_file_without_the_reserved_ids_is_refused(folder):
    schema = pa.schema([folder.column("file_path", 1, pa.string())])
    with pytest.raises(UnsupportedFile) as refused:
        positions.build_position_set([folder.file(1, schema, [])], [], folder.open, normal)
    assert refused.value.reason == "no_field_ids"
