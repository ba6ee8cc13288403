"""Paths in manifest lists, most of whose rows stand in the list before as well, byte for byte.

fastavro decodes each row once; where the same bytes come again under the same schema, they are the
same row, and end where it ended. That is 0.6 us a row instead of 3.4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro
from firnline_schemas.codec import parse_bounded
from pyiceberg.io import FileIO

from firnline_iceberg.metadata.avro_reader import Schema, content_of, readable
from firnline_iceberg.metadata.field_ids import LIST_PATHS

MAX_ROWS = 100_000  # that are known: 50 MB
Row = tuple[bytes, str]  # as it is encoded, and its path


class RepeatedRows:
    """Rows that were read of some lists. Threads may share it: what it guesses is compared
    first."""

    def __init__(self) -> None:
        self._after: dict[bytes, dict[bytes, Row]] = {}  # by schema: row -> the one behind it

    def manifest_paths(self, io: FileIO, path: str) -> list[str]:
        """Return the paths of a list's manifests. Raises MetadataFileGone, RetryLater,
        MetadataUnreadable."""
        content = content_of(io, path)
        with readable(path):
            return list(self._decode_paths(content))

    def _decode_paths(self, content: bytes) -> Iterator[str]:
        blocks: Any = fastavro.block_reader(BytesIO(content))
        schema: bytes = blocks.metadata["avro.schema"].encode()
        after, last = self._known_rows(schema), b""
        for block in blocks:
            raw, at = block.bytes_.getvalue(), 0
            for _ in range(block.num_records):
                row = after.get(last)
                if row is None or not raw.startswith(row[0], at):
                    row = after[last] = _decode_row(raw, at, schema)
                last = row[0]
                at += len(last)
                yield row[1]
            if at != len(raw):
                raise ValueError(f"{len(raw) - at} bytes behind the last row of a block")

    def _known_rows(self, schema: bytes) -> dict[bytes, Row]:
        if sum(map(len, list(self._after.values()))) > MAX_ROWS:
            self._after = {}
        return self._after.setdefault(schema, {})


def _decode_row(raw: bytes, at: int, schema: bytes) -> Row:
    stream = BytesIO(raw)
    stream.seek(at)
    record: Any = fastavro.schemaless_reader(stream, *_parse_schemas(schema))
    return raw[at : stream.tell()], record["path"]


@lru_cache(maxsize=64)
def _parse_schemas(schema: bytes) -> tuple[Schema, Schema]:
    """Return the writer's schema, and the reader's."""
    found = json.loads(schema)
    parsed: Any = parse_bounded(found)
    wanted: Any = fastavro.parse_schema(LIST_PATHS.narrow_schema(found))
    return parsed, wanted
