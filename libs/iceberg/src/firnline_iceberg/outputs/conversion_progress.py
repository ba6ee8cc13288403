"""Marks of a conversion's slices (`firnline_domain.commits.conversion_progress`) as files beside
the table's metadata, each on the write-ahead list of its run.

The record that names one has its SHA-256. What cannot be read, or is another file by now, says
nothing: the data files are read again.
"""

from __future__ import annotations

import hashlib

import msgspec
from firnline_domain.commits.conversion_progress import MarkingSlice, Marks, Wrote
from firnline_domain.identity import Scope
from firnline_domain.records.parts.slices import StoredFile
from pyiceberg.io import FileIO

from firnline_iceberg.outputs.names import run_of
from firnline_iceberg.storage.paths import file_name

MAX_BYTES = 64_000_000  # of one file: of some 300,000 data files
_decode = msgspec.json.Decoder(Marks).decode
_encode = msgspec.json.Encoder().encode


def write_marks(io: FileIO, path: str, marks: Marks) -> StoredFile:
    """Write marks. Raises what the FileIO raises."""
    body = _encode(marks)
    with io.new_output(path).create(overwrite=True) as sink:
        sink.write(body)
    return StoredFile(path, hashlib.sha256(body).hexdigest())


def read_marks(io: FileIO, file: StoredFile, table_key: str, scope: Scope) -> Marks | None:
    """Read marks. None: the file is missing, has changed, or is not about this partition. Raises
    OSError if the storage does not answer."""
    try:
        with io.new_input(file.path).open() as source:
            body = bytes(source.read(MAX_BYTES + 1))
    except FileNotFoundError:
        return None
    if len(body) > MAX_BYTES or hashlib.sha256(body).hexdigest() != file.sha256:
        return None
    try:
        marks = _decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
    known = all(0 <= mark.slice < len(marks.slices) for mark in marks.files.values())
    return marks if known and (marks.table_key, marks.scope) == (table_key, scope) else None


def wrote_in(table_key: str) -> Wrote:
    """Return a test whether a slice's commit gave a delete file of this table its name."""

    def wrote_name(by: MarkingSlice, path: str) -> bool:
        run = run_of(table_key, by.task_id, file_name(path))
        return run is not None and run.attempt == by.attempt and run.names_content(file_name(path))

    return wrote_name
