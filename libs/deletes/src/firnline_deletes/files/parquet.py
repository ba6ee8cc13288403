"""Files as the kernel sees them: opened by a callable, so that any FileIO can be plugged in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline_deletes.unsupported_files import UnsupportedFile

Open = Callable[[str], Any]
"""path -> a readable, seekable binary file (pyarrow NativeFile or Python file object)."""
Create = Callable[[str], Any]
"""path -> a writable binary file with tell() and close(); fails if it cannot be created."""


@dataclass(frozen=True)
class SequencedFile:
    """A data or delete file with its *data* sequence number (never `file_sequence_number`)."""

    path: str
    sequence_number: int
    records: int = 0  # rows, as the manifest says
    first_row_id: int | None = None  # of a data file in a v3 table: the id of its first row
    bytes: int = 0  # as the manifest says; 0: unknown


WHOLE_BYTES = 4 * 1024 * 1024
"""A file up to this size is fetched in one request: its footer and columns would take three."""


@dataclass
class ParquetSource:
    """One Parquet file. Its footer is fetched once, however often it is opened."""

    path: str
    open_file: Open
    footer: Any = None
    fetched: pa.Buffer | None = None  # all of it, if it is small

    def open_parquet(self, encoded: bool = False) -> pq.ParquetFile:
        """Open the file to be read by id: no extension types, INT96 as microseconds. `encoded`:
        text columns that are stored as dictionaries are read as dictionaries. Refused
        unreadable_file.

        An I/O error stays what it is: that is worth a retry, a refusal is not."""
        source = self._open_source()
        try:
            self.footer = self.footer or pq.read_metadata(source)
            return pq.ParquetFile(
                source,
                metadata=self.footer,
                read_dictionary=encoded_columns(self.footer) if encoded else None,
                pre_buffer=True,
                coerce_int96_timestamp_unit="us",
                arrow_extensions_enabled=False,
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedFile("unreadable_file", f"{self.path}: {error}") from error

    def _open_source(self) -> Any:
        if self.fetched is None:
            source = self.open_file(self.path)
            if not isinstance(source, pa.NativeFile) or source.size() > WHOLE_BYTES:
                return source
            with source:
                self.fetched = source.read_buffer()
        return pa.BufferReader(self.fetched)

    def drop_bytes(self) -> None:
        """Release the bytes; the footer stays."""
        self.fetched = None

    def close(self) -> None:
        """Release all that was fetched."""
        self.fetched = self.footer = None


def open_parquet(open_file: Open, path: str) -> pq.ParquetFile:
    """Open a file that is opened only once; see `ParquetSource.open_parquet`."""
    return ParquetSource(path, open_file).open_parquet()


def encoded_columns(footer: Any) -> list[str]:
    """Return the top-level text columns that take less than 3 bytes a value. Plain values take at
    least 4, for their length, so nearly all of these are indices into dictionaries."""
    wanted = []
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        is_text = column.physical_type == "BYTE_ARRAY" and column.logical_type.type == "STRING"
        if is_text and "." not in column.path and _bytes_per_value(footer, index) < 3:
            wanted.append(column.path)
    return wanted


def _bytes_per_value(footer: Any, index: int) -> float:
    chunks = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
    values = sum(chunk.num_values for chunk in chunks)
    return float(sum(chunk.total_uncompressed_size for chunk in chunks) / max(1, values))


MAX_BATCH_ROWS = 1 << 17  # dictionary-encoded strings may decode to a thousand times their bytes


def rows_within(file: pq.ParquetFile, group: int, budget_bytes: int) -> int:
    """Return how many rows of a row group, decoded, stay near a byte budget; at least 1024."""
    meta = file.metadata.row_group(group)
    per_row = max(1, meta.total_byte_size // max(1, meta.num_rows))
    return int(max(1024, min(MAX_BATCH_ROWS, budget_bytes // per_row)))
