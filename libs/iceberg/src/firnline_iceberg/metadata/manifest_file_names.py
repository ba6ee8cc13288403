"""Names of all files that a manifest has, without decoding it: 2 us a file in place of 8.

In a block an entry's path is followed by its format, whose length comes first: `/NAME` `\\x0e`
`PARQUET`. So a name is what stands between the last slash before that and it. Each block says how
many entries it has: where as many names are not found, or the writer's schema has the two fields
elsewhere, the manifest is decoded.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pyiceberg.io import FileIO

from firnline_iceberg.metadata.avro_reader import read_blocks, read_records, readable
from firnline_iceberg.metadata.field_ids import ENTRY_PATHS
from firnline_iceberg.storage.paths import file_name

_NAME = re.compile(rb"/([^/]*?)(?i:\x0ePARQUET|\x08AVRO|\x06ORC|\x0cPUFFIN)")
_ENTRY_FILE, _PATH, _FORMAT = 2, 100, 101  # field ids


def names_in(io: FileIO, path: str) -> set[str]:
    """Return the names of data and delete files, also those of DELETED entries. Raises the errors
    of `avro_reader.records`."""
    with readable(path):
        found = _plain_names(io, path)
        if found is not None:
            return found
        return {file_name(row["file"]["path"]) for row in read_records(io, path, ENTRY_PATHS)}


def _plain_names(io: FileIO, path: str) -> set[str] | None:
    schema, parts = read_blocks(io, path)
    if not _has_format_after_path(json.loads(schema)):
        return None
    names = set[bytes]()
    for entries, raw in parts:
        some = _NAME.findall(raw)
        if len(some) != entries:
            return None
        names.update(some)
    try:
        return {one.decode() for one in names}
    except UnicodeDecodeError:
        return None


def _has_format_after_path(schema: Any) -> bool:
    """Return True if the entries' first two text fields are the path of the file and, directly
    behind it, its format."""
    file = next((one for one in schema["fields"] if one.get("field-id") == _ENTRY_FILE), None)
    if file is None or not isinstance(file["type"], dict):
        return False
    fields = file["type"].get("fields", ())
    order = [one.get("field-id") for one in fields if one["type"] == "string"]
    at = next((n for n, one in enumerate(fields) if one.get("field-id") == _PATH), None)
    if at is None or at + 1 == len(fields) or order[:2] != [_PATH, _FORMAT]:
        return False
    return bool(fields[at + 1].get("field-id") == _FORMAT)
