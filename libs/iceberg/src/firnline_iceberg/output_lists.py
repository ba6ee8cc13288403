"""Write-ahead lists: what a run may write is written down first, so that what no commit has taken
is removed without listing a bucket. A list lies beside the table's metadata files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pyiceberg.io import FileIO


@dataclass(frozen=True)
class OutputList:
    """`outputs`: paths, in any state from never written to committed."""

    task_id: str
    attempt: int
    table_uuid: str
    worker: str  # who writes them
    written_at_ms: int
    outputs: tuple[str, ...]


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
