"""Write-ahead lists: what a run may write is written down first, so that what no commit has taken
is removed without listing a bucket. A list lies beside the table's metadata files.

Whoever may write there can put a list of his own, so `read_list` believes none: it says what stands
there, in so many words, and `removal` decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from firnline_domain.records.signing import Keyring
from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO

from firnline_iceberg.outputs.names import LIST_SUFFIX
from firnline_iceberg.outputs.signed_file import sign_body, verify_body
from firnline_iceberg.storage.file_io import file_system
from firnline_iceberg.storage.paths import PREFIX

MAX_BYTES = 16_000_000  # of a list: 80,000 outputs, or 10 TB of them
MAX_INT = 2**53
UNSIGNED = Keyring()  # of a fleet that does not sign


@dataclass(frozen=True)
class OutputList:
    """`outputs`: paths, in any state from never written to committed. `deadline_ms`: until then
    the planner counts the run as in flight. `sends_noted`: before a commit is sent that names one
    of them, a note of that is put beside the list (docs/decisions/0016)."""

    task_id: str
    attempt: int
    table_key: str
    worker: str  # who writes them
    written_at_ms: int
    outputs: tuple[str, ...]
    deadline_ms: int = 0
    sends_noted: bool = False


@dataclass(frozen=True)
class ListPlace:
    """Place of a list, and when the storage says that it was written; 0 = it does not say."""

    path: str
    stored_at_ms: int
    bytes: int = 0


def write_list(io: FileIO, path: str, listed: OutputList, keys: Keyring = UNSIGNED) -> None:
    """Write a list durably before the first output. Raises what the FileIO raises, and ValueError
    for a list that could not be read."""
    text = sign_body(keys, path, json.dumps(asdict(listed)).encode(), listed.written_at_ms)
    if len(text) > MAX_BYTES:
        raise ValueError(f"{len(listed.outputs)} outputs, a list of {len(text)} bytes")
    with io.new_output(path).create(overwrite=False) as sink:
        sink.write(text)


def read_list(io: FileIO, path: str, keys: Keyring = UNSIGNED) -> OutputList:
    """Read a write-ahead list. Raises FileNotFoundError, OSError, SignatureRefused if the
    deployment has not signed it, or ValueError if the file is no list: too long, not UTF-8, a key
    twice or unknown, a value of the wrong kind."""
    with io.new_input(path).open() as source:
        text = source.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"{path}: more than {MAX_BYTES} bytes")
    text = verify_body(keys, path, text)
    try:
        body = json.loads(text.decode(), object_pairs_hook=_refuse_duplicates)
        return _check_list(body)
    except (TypeError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {str(error)[:300]}") from error


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _check_list(body: Any) -> OutputList:
    if not isinstance(body, dict) or not isinstance(body.get("outputs"), list):
        raise ValueError("no list of outputs")
    listed = OutputList(**{**body, "outputs": tuple(body["outputs"])})
    for one in fields(OutputList):
        value = getattr(listed, one.name)
        if one.type == "int" and not (type(value) is int and 0 <= value <= MAX_INT):
            raise ValueError(f"{one.name} is {value!r:.80}")
        if one.type == "bool" and type(value) is not bool:
            raise ValueError(f"{one.name} is {value!r:.80}")
        if one.type == "str" and not _is_text(value):
            raise ValueError(f"{one.name} is {value!r:.80}")
    if not all(map(_is_text, listed.outputs)):
        raise ValueError("an output that is no path")
    return listed


def _is_text(value: Any) -> bool:
    """Return False for a value that is no string, or one with half of a surrogate pair: JSON allows
    it, UTF-8 does not."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def list_places(io: FileIO, folders: Iterable[str]) -> Iterator[ListPlace]:
    """Yield path, time and size of every write-ahead list in these directories, not below them.
    Raises OSError. PyIceberg's FileIO cannot list; Arrow's, of the same properties, can."""
    for folder in folders:
        files, path = file_system(io, folder)
        chosen = FileSelector(path, allow_not_found=True)
        for info in files.get_file_info(chosen):
            name = info.base_name
            if info.is_file and name.startswith(PREFIX) and name.endswith(LIST_SUFFIX):
                stored_ms = (info.mtime_ns or 0) // 1_000_000
                yield ListPlace(f"{folder.rstrip('/')}/{name}", stored_ms, info.size or 0)


def read_storage_clock(io: FileIO, path: str) -> int | None:
    """Return the storage's time of a file, which is written at `path` now. None: it has none.
    Raises OSError, also if another process has removed it since."""
    with io.new_output(path).create(overwrite=True):
        pass
    files, place = file_system(io, path)
    info = files.get_file_info(place)
    if info.type is FileType.NotFound:
        raise FileNotFoundError(path)
    return None if info.mtime_ns is None else int(info.mtime_ns) // 1_000_000
