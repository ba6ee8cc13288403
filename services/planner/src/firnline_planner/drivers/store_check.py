"""Checks stores of a planner's state before it opens them, each in a process of its own.

RocksDB may spin for ever over a damaged MANIFEST, with the interpreter's lock held: no watchdog
would end it. And it opens a store whose MANIFEST was cut off as if the files that it does not name
had never been: all of a bucket's tables but the last would be forgotten.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rocksdict import AccessType, Rdict

# Of one store, whose newest 32 MiB are read into memory; a store takes 0.3 s, most of it Python.
CHECK_S = 20.0
AT_ONCE = 8
MAX_CHARS = 300  # of an error


def find_damage(directories: Iterable[Path]) -> dict[Path, str]:
    """Return those whose store cannot be opened, or not in time, and why. Changes nothing."""
    there = [one for one in directories if one.exists() and any(one.iterdir())]
    if not there:
        return {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(there, pool.map(_check_in_other_process, there), strict=True))
    return {directory: why for directory, why in found.items() if why}


def _check_in_other_process(directory: Path) -> str:
    """Open the store in a process of its own. Return why that failed; '' if it did not."""
    command = [sys.executable, "-m", __name__, str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_S, check=False)
    except subprocess.TimeoutExpired:
        return f"it was not open after {CHECK_S:g} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines() or [f"the check ended with {done.returncode}"]
    return lines[-1][:MAX_CHARS]


def check_store(directory: Path) -> None:
    """Open a store for reading. Raises what RocksDB raises, and ValueError for files of the store
    that its MANIFEST does not name, which includes those of a merge cut off by a kill."""
    files = {one.name for one in directory.glob("*.sst")}
    rocks = Rdict(str(directory), access_type=AccessType.read_only())
    named = {Path(one["name"]).name for one in rocks.live_files()}
    rocks.close()
    if unnamed := sorted(files - named):
        raise ValueError(f"its MANIFEST does not name {', '.join(unnamed)}")


def read_pairs(rocks: Rdict, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Read the pairs whose key starts with a prefix. Raises the errors of RocksDB, also for a
    damaged block: `items` ends there in silence, and only an iterator has the reason."""
    last = prefix
    for key, value in rocks.items(from_key=prefix):
        if not key.startswith(prefix):
            return
        yield key, value
        last = key
    rest = rocks.iter()
    rest.seek(last)
    while rest.valid():
        rest.next()
    rest.status()


if __name__ == "__main__":
    check_store(Path(sys.argv[1]))
