"""Write-ahead lists: what a run may write is written down first, so that what no commit has taken
is removed without listing a bucket. A list lies beside the table's metadata files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

PREFIX, SUFFIX = "firnline-", ".json"


@dataclass(frozen=True)
class OutputList:
    """`outputs`: paths, in any state from never written to committed.

    `start_sequence_number`: of the table's ref when the run began, so that no older manifest can
    name an output; 0 = not known. `deadline_ms`: until then the planner counts the run as in
    flight.
    """

    task_id: str
    attempt: int
    table_uuid: str
    worker: str  # who writes them
    written_at_ms: int
    outputs: tuple[str, ...]
    start_sequence_number: int = 0
    deadline_ms: int = 0


@dataclass(frozen=True)
class Place:
    """Where a list lies, and when the storage says that it was written; 0 = it does not say."""

    path: str
    stored_at_ms: int


def stem(metadata_location: str, task_id: str, attempt: int, run: str) -> str:
    """Of what a run keeps beside the table's metadata files; with SUFFIX it is the list."""
    folder = metadata_location.rsplit("/", 1)[0]
    return f"{folder}/{PREFIX}{task_id}-{attempt}-{run}"


def output_stem(task_id: str, attempt: int, run: str) -> str:
    """Of the names of a run's outputs."""
    return f"{PREFIX}{task_id[:16]}-{attempt}-{run}"


def write(io: FileIO, path: str, listed: OutputList) -> None:
    """Durable before the first output; raises what the FileIO raises."""
    with io.new_output(path).create(overwrite=False) as sink:
        sink.write(json.dumps(asdict(listed)).encode())


def read(io: FileIO, path: str) -> OutputList:
    """Raises FileNotFoundError, OSError, or ValueError where the file is no list."""
    with io.new_input(path).open() as source:
        text = source.read()
    try:
        body = json.loads(text)
        return OutputList(**{**body, "outputs": tuple(body["outputs"])})
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def places(io: FileIO, folders: Iterable[str]) -> Iterator[Place]:
    """Every list in these directories, not below them. Raises OSError.

    PyIceberg's FileIO cannot list; Arrow's, made from the same properties, can.
    """
    arrow = PyArrowFileIO(io.properties)
    for folder in folders:
        scheme, netloc, path = arrow.parse_location(folder, io.properties)
        chosen = FileSelector(path, allow_not_found=True)
        for info in arrow.fs_by_scheme(scheme, netloc).get_file_info(chosen):
            name = info.base_name
            if info.is_file and name.startswith(PREFIX) and name.endswith(SUFFIX):
                stored_ms = (info.mtime_ns or 0) // 1_000_000
                yield Place(f"{folder.rstrip('/')}/{name}", stored_ms)


def storage_now_ms(io: FileIO, folder: str) -> int | None:
    """The storage's clock, which also dates the lists; None where it dates nothing. Writes an
    empty file, looks at its time, and removes it; always the same file, so that killed sweeps
    leave no more than that. Raises OSError, also where another sweep was faster."""
    path = f"{folder}/{PREFIX}clock"
    with io.new_output(path).create(overwrite=True):
        pass
    try:
        arrow = PyArrowFileIO(io.properties)
        scheme, netloc, place = arrow.parse_location(path, io.properties)
        info = arrow.fs_by_scheme(scheme, netloc).get_file_info(place)
    finally:
        remove(io, [path])
    if info.type is FileType.NotFound:
        raise FileNotFoundError(path)
    return None if info.mtime_ns is None else int(info.mtime_ns) // 1_000_000


def remove(io: FileIO, paths: Sequence[str]) -> int:
    """Delete those that exist; how many. Only for files that no snapshot can have."""
    removed = 0
    for path in paths:
        try:
            io.delete(path)
            removed += 1
        except FileNotFoundError:
            continue
    return removed
