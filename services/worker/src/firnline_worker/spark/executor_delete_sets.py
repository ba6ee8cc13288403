"""The files of delete sets, as they come to executors that do not see the driver's disk.

A set is built once, in the driver. What is small travels with the order; the rest is written to the
table's storage, for every executor can read there, and is fetched once per host
(docs/decisions/0043). All Python workers of a host map the same file.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.io import FileIO

FOLDER = "firnline-sets"
BLOCK = 8 << 20


@dataclass(frozen=True)
class SetFile:
    """A file of a set: `path` on the driver's host; for executors on other hosts its content, or
    its path on the table's storage. `set_name` is one that this worker gives no other set."""

    path: str
    content: bytes | None = field(default=None, repr=False)
    stored_at: str | None = None
    bytes: int = 0

    @property
    def set_name(self) -> str:
        return Path(self.path).parent.name

    @property
    def host_name(self) -> str:
        """Return the file's name on other hosts."""
        return f"{self.set_name}.{Path(self.path).name}"


@dataclass(frozen=True)
class LiveSets:
    """The sets that a worker's tasks held at a moment; `newest`: the number of the last one that it
    had made by then (`DeleteSetCache`). Later ones it says nothing about."""

    names: frozenset[str]
    newest: int


def local_files(paths: Sequence[str]) -> tuple[SetFile, ...]:
    """Return the files for executors that see this disk."""
    return tuple(SetFile(path) for path in paths)


def on_this_host(io: FileIO, file: SetFile) -> Path:
    """Return the path to map a file from; fetches it if no process of this host has done so. Raises
    OSError."""
    if file.content is None and file.stored_at is None:
        return Path(file.path)
    folder = _sets_folder()
    target = folder / file.host_name
    if target.exists():
        return target
    with (folder / f"{file.host_name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _fetch(io, file, target)
    return target


def remove_unused_sets(live: LiveSets) -> None:
    """Remove the sets that no task holds any more; a process that has one mapped keeps the
    pages."""
    with suppress(OSError):  # another process was faster
        for path in _sets_folder().iterdir():
            name = path.name.partition(".")[0]
            if name not in live.names and number_of(name) <= live.newest:
                path.unlink(missing_ok=True)


def remove_in_task(live: LiveSets, _: Iterable[Any]) -> None:
    """Remove unused sets, in a Spark task."""
    remove_unused_sets(live)


def name_of(number: int, identity: str) -> str:
    """Return the name of the set that a worker made as its `number`th."""
    return f"{number:09d}-{identity}"


def number_of(name: str) -> int:
    """Return the number in a set's name. Raises ValueError."""
    return int(name.partition("-")[0])


def scratch_folder() -> Path:
    """Return a folder that all executors of this application on this host share, and that the
    cluster manager removes with the application, however it ends: the standalone worker's, YARN's,
    the pod's."""
    for variable, separator in (
        ("SPARK_EXECUTOR_DIRS", os.pathsep),
        ("LOCAL_DIRS", ","),
        ("SPARK_LOCAL_DIRS", ","),
    ):
        if given := os.environ.get(variable):
            return Path(given.split(separator)[0])
    raise OSError("no scratch folder: none of SPARK_EXECUTOR_DIRS, LOCAL_DIRS, SPARK_LOCAL_DIRS")


def _sets_folder() -> Path:
    found = scratch_folder() / FOLDER
    found.mkdir(parents=True, exist_ok=True)
    return found


def _fetch(io: FileIO, file: SetFile, target: Path) -> None:
    """Fetch a file, whole or not at all."""
    part = target.with_name(f"{target.name}.part")
    with part.open("wb") as sink:
        if file.content is not None:
            sink.write(file.content)
        elif file.stored_at is not None:
            with io.new_input(file.stored_at).open(seekable=False) as source:
                shutil.copyfileobj(source, sink, BLOCK)
    if (found := part.stat().st_size) != file.bytes:
        raise OSError(f"{file.stored_at}: {found} bytes of a delete set of {file.bytes}")
    part.rename(target)
