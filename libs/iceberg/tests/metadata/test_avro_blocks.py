"""Blocks that unpack to far more than they hold."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import fastavro
import pytest
import zstandard
from fastavro.read import BLOCK_READERS
from firnline_iceberg.metadata import avro_blocks
from firnline_iceberg.metadata.avro_reader import (
    AvroFields,
    MetadataUnreadable,
    read_blocks,
    read_records,
)
from prometheus_client import REGISTRY
from pyiceberg.io import FileIO

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "path", "type": "string", "field-id": 500}],
}
WANTED = AvroFields({500: "path"})
CODECS = ["null", "deflate", "bzip2", "xz", "snappy"]


def written(tmp_path: Path, codec: str, texts: list[str]) -> str:
    path, target = tmp_path / f"{codec}.avro", BytesIO()
    rows = [{"path": text} for text in texts]
    fastavro.writer(target, SCHEMA, rows, codec=codec, sync_interval=1)
    path.write_bytes(target.getvalue())
    return f"file://{path}"


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_are_read_as_they_were_written(io: FileIO, tmp_path: Path, codec: str) -> None:
    texts = [f"s3://b/{n}" * n for n in range(1, 40)]
    path = written(tmp_path, codec, texts)
    assert [row["path"] for row in read_records(io, path, WANTED)] == texts
    reads = REGISTRY.get_sample_value("firnline_storage_read_seconds_count") or 0
    assert sum(count for count, _ in read_blocks(io, path)[1]) == len(texts)
    assert REGISTRY.get_sample_value("firnline_storage_read_seconds_count") == reads + 1


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_block_that_unpacks_to_too_much_is_unreadable(
    io: FileIO, tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_blocks, "MAX_BLOCK_BYTES", 100_000)
    path = written(tmp_path, codec, ["a" * 99_000, "a" * 200_000])
    with pytest.raises(MetadataUnreadable, match="unpacks to more than"):
        list(read_records(io, path, WANTED))
    with pytest.raises(MetadataUnreadable, match="unpacks to more than"):
        list(read_blocks(io, path)[1])


def test_blocks_of_zstandard_are_read_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """`write.manifest.compression-codec`; fastavro has no library for it here, and cannot write."""
    block = BytesIO()
    fastavro.schemaless_writer(block, "bytes", zstandard.compress(b"a" * 200_000))
    assert BLOCK_READERS["zstandard"](BytesIO(block.getvalue())).read() == b"a" * 200_000
    monkeypatch.setattr(avro_blocks, "MAX_BLOCK_BYTES", 100_000)
    with pytest.raises(ValueError, match="unpacks to more than"):
        BLOCK_READERS["zstandard"](BytesIO(block.getvalue()))
