"""Which table a metadata file is of."""

from __future__ import annotations

import re
import zlib

from firnline_iceberg.table.loaded_table import LoadedTable

HEAD_BYTES = 64 << 10  # in which a file says whose it is; all writers say it before the schemas


def read_uuid(table: LoadedTable, path: str) -> str:
    """Read the table uuid in a metadata file; '': it has none, or is missing. Raises OSError."""
    try:
        with table.io.new_input(path).open() as source:
            head = source.read(HEAD_BYTES)
    except FileNotFoundError:
        return ""
    if head[:2] == b"\x1f\x8b":
        try:
            head = zlib.decompressobj(31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return ""
    found = re.search(rb'"table-uuid"\s*:\s*"([^"]*)"', head)
    return found[1].decode(errors="replace").lower() if found else ""
