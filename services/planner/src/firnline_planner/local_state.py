"""The directory of RocksDB files, and whether they may be trusted.

Faust writes a value to RocksDB first and to the changelog later, and after a kill reads the
changelog from where it last heard of it: older values over newer ones, some keys and not others.
So what a killed planner left is thrown away and restored from the changelog alone (10,000
entries a second); a planner that stopped in order leaves a mark, and its successor starts at once.
The mark says whose state it is: another application, or another number of buckets, has other tables
in the partitions of the same numbers.
"""

from __future__ import annotations

import shutil
from pathlib import Path

MARK = "stopped-in-order"


class LocalState:
    """The files under one directory."""

    def __init__(self, state_dir: str, whose: str) -> None:
        self._whose = whose
        self.directory = Path(state_dir) / "faust"
        self._mark = Path(state_dir) / MARK

    def open(self) -> bool:
        """Make the directory usable; False where files of an unfinished life, or of another's, were
        removed."""
        whole = not self.directory.exists() or self._left_by() == self._whose
        if not whole:
            shutil.rmtree(self.directory)
        self._mark.unlink(missing_ok=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        return whole

    def close(self) -> None:
        """Everything written has reached the changelog."""
        self._mark.write_text(self._whose)

    def _left_by(self) -> str | None:
        return self._mark.read_text() if self._mark.exists() else None
