"""Files as the kernel sees them: opened by a callable, so that any FileIO can be plugged in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.refusals import Refused

Open = Callable[[str], Any]
"""path -> a readable, seekable binary file (pyarrow NativeFile or Python file object)."""
Create = Callable[[str], Any]
"""path -> a writable binary file with tell() and close(); fails if it cannot be created."""


@dataclass(frozen=True)
class SequencedFile:
    """A data or delete file with its *data* sequence number (never `file_sequence_number`)."""

    path: str
    sequence_number: int
    first_row_id: int | None = None  # of a data file in a v3 table: the id of its first row


def open_parquet(open_file: Open, path: str) -> pq.ParquetFile:
    """Open for reading by id: no extension types, INT96 as microseconds. Refused unreadable_file.

    An I/O error stays what it is: that is worth a retry, a refusal is not.
    """
    source = open_file(path)
    try:
        return pq.ParquetFile(
            source,
            pre_buffer=True,
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Refused("unreadable_file", f"{path}: {error}") from error


MAX_BATCH_ROWS = 1 << 17  # dictionary-encoded strings may decode to a thousand times their bytes


def rows_within(file: pq.ParquetFile, group: int, budget_bytes: int) -> int:
    """Rows of a row group whose decoded size stays near a byte budget; at least 1024."""
    meta = file.metadata.row_group(group)
    per_row = max(1, meta.total_byte_size // max(1, meta.num_rows))
    return int(max(1024, min(MAX_BATCH_ROWS, budget_bytes // per_row)))
