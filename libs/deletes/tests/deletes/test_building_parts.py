from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from firnline_deletes.apply import write_live_rows
from firnline_deletes.columns.keys import KeyField
from firnline_deletes.columns.target_schema import TargetSchema
from firnline_deletes.deletes.build import build_parts
from firnline_deletes.deletes.delete_set import open_mapped
from firnline_deletes.deletes.masks import Deletes

KEYS = [KeyField(1, pa.string())]


@pytest.fixture
def schema(folder):
    return pa.schema([folder.column("k", 1, pa.string())])


def opened(folder, counts):
    """`folder.open`, counted by path."""

    def open_file(path):
        counts[path] += 1
        return folder.open(path)

    return open_file


def test_parts_hold_every_key_once_and_each_delete_file_is_read_once(folder, schema):
    files = [folder.file(n, schema, [(f"{i}",) for i in range(n, 400)]) for n in (2, 3)]
    counts: Counter[str] = Counter()
    paths = build_parts(files, KEYS, opened(folder, counts), folder.root, 5)
    sets = [open_mapped(path) for path in paths]
    assert sum(len(chosen) for chosen in sets) == 398
    assert all(40 < len(chosen) < 120 for chosen in sets)
    assert counts == {file.path: 1 for file in files}
    assert {path.suffix for path in folder.root.iterdir()} == {
        ".arrow",
        ".parquet",
    }  # no spill left


def test_only_one_part_is_mapped_at_a_time(folder, schema, monkeypatch):
    deletes = folder.file(2, schema, [(f"{i}",) for i in range(0, 300, 2)])
    paths = build_parts([deletes], KEYS, folder.open, folder.root, 4)
    data = [folder.file(1, schema, [(f"{i}",) for i in range(300)], group_rows=100)]
    most = []

    def mapped(path):
        import gc

        gc.collect()
        with open("/proc/self/maps") as maps:
            most.append(sum(".arrow" in line for line in maps))
        return open_mapped(path)

    monkeypatch.setattr("firnline_deletes.deletes.masks.open_mapped", mapped)
    writer = folder.writer(schema)
    tally = write_live_rows(
        data, Deletes(parts=paths), TargetSchema(writer.schema), folder.open, writer
    )
    assert [row for (row,) in folder.rows_of(writer)] == [f"{i}" for i in range(1, 300, 2)]
    assert tally.rows_masked == 150
    assert most == [0, 0, 0, 0]
