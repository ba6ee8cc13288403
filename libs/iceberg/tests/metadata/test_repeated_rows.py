"""Rows that come again are told of as fastavro tells of them, whatever stands beside them."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from firnline_iceberg.metadata import repeated_rows
from firnline_iceberg.metadata.avro_reader import MetadataFileGone, MetadataUnreadable, read_records
from firnline_iceberg.metadata.field_ids import LIST_PATHS
from firnline_iceberg.metadata.repeated_rows import RepeatedRows
from pyiceberg.io.pyarrow import PyArrowFileIO

SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        {"name": "contains_null", "type": "boolean", "field-id": 509},
        {"name": "lower_bound", "type": ["null", "bytes"], "field-id": 510},
    ],
}
IO = PyArrowFileIO()
Row = dict[str, Any]


def schema(path_first: bool = True, path_name: str = "manifest_path") -> Any:
    path = {"name": path_name, "type": "string", "field-id": 500}
    others = [
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {
            "name": "partitions",
            "type": ["null", {"type": "array", "items": SUMMARY, "element-id": 508}],
            "field-id": 507,
        },
        {"name": "made", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    fields = [path, *others] if path_first else [*others, path]
    return fastavro.parse_schema({"type": "record", "name": "manifest_file", "fields": fields})


def rows(chance: random.Random, count: int, name: str = "manifest_path") -> list[Row]:
    """Paths of several lengths, some of which begin as others do; bounds that look like paths."""

    def summary() -> Row:
        return {"contains_null": False, "lower_bound": chance.choice([None, b"", b"s3://b/m-1"])}

    return [
        {
            name: f"s3://b/{'m' * chance.randrange(1, 80)}-{number}",
            "manifest_length": chance.choice([0, 63, 64, 2**40]),
            "partitions": chance.choice([None, [], [summary(), summary()]]),
            "made": 1 << 62,  # no moment that Python knows
        }
        for number in range(count)
    ]


def written(path: Path, made: Any, found: list[Row], codec: str = "deflate") -> str:
    out = BytesIO()
    fastavro.writer(out, made, found, codec=codec, sync_interval=500)  # several blocks
    path.write_bytes(out.getvalue())
    return str(path)


@pytest.mark.parametrize("seed", range(6))
def test_paths_are_those_that_a_plain_reader_finds(tmp_path: Path, seed: int) -> None:
    """Lists of two writers in turn, whose schemas differ; a row may change and keep its path."""
    chance, repeated = random.Random(seed), RepeatedRows()
    alive = rows(chance, 60)
    for number in range(40):
        alive = [*rows(chance, 2), *alive] if chance.random() < 0.5 else [*alive, *rows(chance, 1)]
        if chance.random() < 0.3:
            chance.shuffle(alive)
        if chance.random() < 0.4:
            alive = alive[chance.randrange(4) : 70]
        alive[0] = {**alive[0], "manifest_length": number}
        made, codec = schema(chance.random() < 0.7), chance.choice(["deflate", "null"])
        path = written(tmp_path / f"{number}.avro", made, alive, codec)
        expected = [row["path"] for row in read_records(IO, path, LIST_PATHS)]
        assert (
            repeated.manifest_paths(IO, path) == expected == [row["manifest_path"] for row in alive]
        )


def test_the_same_bytes_of_another_schema_are_another_row(tmp_path: Path) -> None:
    repeated, found = RepeatedRows(), list[str]()
    for ids in ((500, 1), (1, 500)):
        fields = [{"name": f"f{number}", "type": "string", "field-id": number} for number in ids]
        made = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
        row = {f"f{ids[0]}": "first", f"f{ids[1]}": "second"}
        found += repeated.manifest_paths(IO, written(tmp_path / f"{ids[0]}", made, [row]))
    assert found == ["first", "second"]


def test_a_row_that_comes_again_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    real = repeated_rows._decode_row

    def decoding(raw: bytes, at: int, known: bytes) -> Any:
        decoded.append(at)
        return real(raw, at, known)

    monkeypatch.setattr(repeated_rows, "_decode_row", decoding)
    repeated, alive = RepeatedRows(), rows(random.Random(1), 100)
    for number in range(5):
        assert (
            len(repeated.manifest_paths(IO, written(tmp_path / f"{number}", schema(), alive)))
            == 100
        )
    assert len(decoded) == 100


def test_few_rows_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_rows, "MAX_ROWS", 150)
    repeated = RepeatedRows()
    for number in range(10):
        alive = rows(random.Random(number), 100)
        path = written(tmp_path / f"{number}", schema(), alive)
        assert repeated.manifest_paths(IO, path) == [row["manifest_path"] for row in alive]
        assert sum(map(len, repeated._after.values())) <= 250


def test_what_is_no_list_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a", schema(), rows(random.Random(1), 20))
    whole, repeated = Path(path).read_bytes(), RepeatedRows()
    assert len(repeated.manifest_paths(IO, path)) == 20  # and is known from now on
    for damaged in (whole[:-30], whole[: len(whole) // 2], b"", b"Obj\x01"):
        Path(path).write_bytes(damaged)
        with pytest.raises(MetadataUnreadable):
            repeated.manifest_paths(IO, path)
    Path(path).unlink()
    with pytest.raises(MetadataFileGone):
        repeated.manifest_paths(IO, path)


def test_bytes_behind_the_last_row_are_no_list(tmp_path: Path) -> None:
    """A block that says it has fewer rows than it has: a manifest that is not seen is a loss."""
    path = written(tmp_path / "a", schema(), rows(random.Random(1), 3), "null")
    raw = bytearray(Path(path).read_bytes())
    at = raw.index(b"s3://b/") - 1  # the path's length; before it, of the block: rows, bytes
    while raw[at] != 6:  # three rows, zigzag
        at -= 1
    raw[at] = 4
    Path(path).write_bytes(raw)
    with pytest.raises(MetadataUnreadable, match="bytes behind the last row"):
        RepeatedRows().manifest_paths(IO, path)
