"""The directory of RocksDB files, and whether they may be trusted.

Faust writes a value to RocksDB first and to the changelog later, and after a kill reads the
changelog from where it last heard of it: older values over newer ones, some keys and not others.
So what a killed planner left is thrown away and restored from the changelog alone (10,000
entries a second); a planner that stopped in order leaves a mark, and its successor starts at once.
"""

from __future__ import annotations

import shutil
from pathlib import Path

MARK = "stopped-in-order"


class LocalState:
    """The files under one directory."""

    def __init__(self, state_dir: str) -> None:
        self.directory = Path(state_dir) / "faust"
        self._mark = Path(state_dir) / MARK

    def open(self) -> bool:
        """Make the directory usable; False where files of an unfinished life were removed."""
        whole = self._mark.exists() or not self.directory.exists()
        if not whole:
            shutil.rmtree(self.directory)
        self._mark.unlink(missing_ok=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        return whole

    def close(self) -> None:
        """Everything written has reached the changelog."""
        self._mark.touch()
