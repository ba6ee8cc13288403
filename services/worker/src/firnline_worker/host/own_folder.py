"""A folder of one process in a state directory that several may share.

Its lock ends with its process, however that ends. So whoever gets the lock of another's folder
knows that its process is dead, and may remove it; a live one's is never touched.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

NEW = "new-"  # before the prefix of a folder that is not locked yet


@dataclass(frozen=True)
class OwnFolder:
    """A folder that is locked. `lock`, a file next to it, holds it for as long as it is open."""

    path: Path
    lock: FileIO

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        _remove_folder(self.path)
        self.lock.close()


def own_folder(parent: Path, prefix: str) -> OwnFolder:
    """Make a new folder, once those of dead processes with this prefix are removed. Raises
    OSError."""
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.glob(f"{prefix}*"):
        if old.is_dir():
            _remove_if_dead(old)
    made = Path(tempfile.mkdtemp(prefix=f"{NEW}{prefix}", dir=parent))
    path = parent / made.name.removeprefix(NEW)
    lock = FileIO(str(_lock_of(path)), "a")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return OwnFolder(made.rename(path), lock)


def _remove_if_dead(folder: Path) -> None:
    """Remove a folder if its process is dead. One without a lock belongs to no process: a folder
    gets its name once it is locked."""
    try:
        lock = FileIO(str(_lock_of(folder)), "r")
    except FileNotFoundError:
        _remove_folder(folder)
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    """Remove a folder, its lock last: a folder without a lock is removed by the next process."""
    shutil.rmtree(folder, ignore_errors=True)
    _lock_of(folder).unlink(missing_ok=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
