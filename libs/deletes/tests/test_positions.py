from __future__ import annotations

import pyarrow as pa
import pytest
from firnline_deletes import positions
from firnline_deletes.files import SequencedFile
from firnline_deletes.refusals import Refused


def normal(path: str) -> str:
    return "file:///" + path.removeprefix("file:").lstrip("/")


def test_positions_are_grouped_sorted_distinct_and_paths_compare_normalised(folder):
    files = [
        folder.position_deletes(5, [("file:/a", 3), ("file:/a", 1), ("file:///b", 9)]),
        folder.position_deletes(6, [("file:///a", 1), ("file:///a", 0), ("/c", 2)]),
    ]
    data = [SequencedFile(name, 1) for name in ("file:///a", "file:/b", "/c")]
    made = positions.build(files, data, folder.open, normal)
    assert made.of("/a").tolist() == [0, 1, 3]
    assert made.of("file:///b").tolist() == [9]
    assert made.of("file:/c").tolist() == [2]
    assert made.of("file:/d").tolist() == []
    path = folder.root / "positions.arrow"
    made.write(path)
    mapped = positions.open_mapped(path, normal)
    assert [mapped.of(f"/{x}").tolist() for x in "abcd"] == [[0, 1, 3], [9], [2], []]
    assert len(mapped) == 5


def test_a_position_delete_applies_at_its_own_sequence_number_but_not_to_newer_data(folder):
    file = folder.position_deletes(5, [("/same", 0), ("/newer", 0), ("/unknown", 0)])
    data = [SequencedFile("/same", 5), SequencedFile("/newer", 6)]
    made = positions.build([file], data, folder.open, normal)
    assert made.of("/same").tolist() == [0]
    assert made.of("/newer").tolist() == []
    assert len(made) == 1


def test_nothing_is_a_set_too(folder):
    made = positions.build([], [], folder.open, normal)
    made.write(folder.root / "none.arrow")
    assert len(positions.open_mapped(folder.root / "none.arrow", normal)) == 0


def test_a_file_without_the_reserved_ids_is_refused(folder):
    schema = pa.schema([folder.column("file_path", 1, pa.string())])
    with pytest.raises(Refused) as refused:
        positions.build([folder.file(1, schema, [])], [], folder.open, normal)
    assert refused.value.reason == "no_field_ids"
