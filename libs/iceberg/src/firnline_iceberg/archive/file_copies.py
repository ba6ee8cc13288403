"""Copies of data files in an archive: their keys and names, what Java is told of them, their bytes.

A copy is the same bytes under another name: field ids are those of the table, which its archive
has, too (`archive_table`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from firnline_domain.errors import StorageUnreachable, TaskRefused
from pyiceberg.io import FileIO

from firnline_iceberg.metadata.entries import DataFileEntry

CHUNK_BYTES = 8 << 20
_KEY = 32  # hexadecimal digits: 128 bits, which no two files share


def copy_key(table_uuid: str, normal_path: str) -> str:
    """Return the key of a data file, wherever its table is."""
    text = f"{table_uuid}\x1f{normal_path}".encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:_KEY]


def copy_json(entry: DataFileEntry, path: str, spec_id: int, partition_fields: int) -> str:
    """Return the `ContentFileParser` JSON of a copy at `path`, in the archive's spec. The entry was
    read with `Detail.WHOLE`. A copy has no sort order: the archive has none of that id."""
    assert entry.stats is not None
    assert entry.layout is not None
    stats, layout = entry.stats, entry.layout
    body: dict[str, Any] = {
        "spec-id": spec_id,
        "content": "data",
        "file-path": path,
        "file-format": entry.format.lower(),
        "partition": json.loads(entry.partition) or [None] * partition_fields,
        "file-size-in-bytes": entry.bytes,
        "record-count": entry.records,
        "column-sizes": _metrics_json(layout.column_sizes),
        "value-counts": _metrics_json(stats.value_counts),
        "null-value-counts": _metrics_json(stats.null_counts),
        "nan-value-counts": _metrics_json(stats.nan_counts),
        "lower-bounds": _metrics_json(stats.lower),
        "upper-bounds": _metrics_json(stats.upper),
        "split-offsets": list(layout.split_offsets),
    }
    return json.dumps({name: value for name, value in body.items() if value != _metrics_json({})})


def _metrics_json(found: Mapping[int, Any]) -> dict[str, list[Any]]:
    values = [one.hex().upper() if isinstance(one, bytes) else one for one in found.values()]
    return {"keys": list(found), "values": values}


def copy_data_file(source: FileIO, entry: DataFileEntry, target: FileIO, path: str) -> None:
    """Copy the bytes, read them back and compare. Raises TaskRefused if the file differs from its
    entry in the table, RetryLater if the storage fails or returns other bytes."""
    try:
        written = hashlib.sha256()
        count = 0
        with (
            source.new_input(entry.path).open() as read,
            target.new_output(path).create(overwrite=True) as sink,
        ):
            while chunk := read.read(CHUNK_BYTES):
                written.update(chunk)
                count += len(chunk)
                sink.write(chunk)
        if count != entry.bytes:
            text = f"{entry.path} has {count} bytes, and the table says {entry.bytes}"
            raise TaskRefused("unreadable_file", text)
        if _digest_of(target, path) != written.digest():
            raise StorageUnreachable(f"{path} is read back with other bytes than were written")
    except FileNotFoundError as error:
        raise TaskRefused(
            "unreadable_file", f"{entry.path} is not there", retryable=True
        ) from error
    except OSError as error:
        raise StorageUnreachable(f"cannot copy {entry.path}: {error}") from error


def _digest_of(io: FileIO, path: str) -> bytes:
    found = hashlib.sha256()
    with io.new_input(path).open() as read:
        while chunk := read.read(CHUNK_BYTES):
            found.update(chunk)
    return found.digest()
