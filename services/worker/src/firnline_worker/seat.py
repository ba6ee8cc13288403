"""Who a worker is across its lives: a seat in its state directory, which one process has at a time.

The lock goes with the process, however it ends. So whoever sits down knows that the one before is
dead, and need not wait until its leases run out (`FIRNLINE_LEASE_S`).
"""

from __future__ import annotations

import fcntl
import hashlib
import socket
import uuid
from dataclasses import dataclass
from io import FileIO
from itertools import count
from pathlib import Path

from firnline_domain.identity import owner_of


@dataclass(frozen=True)
class Seat:
    """A place that is taken; `file` holds the lock for as long as it is open."""

    name: str
    file: FileIO

    def owner(self) -> str:
        """Of leases, in this life: see `Leases.acquire`."""
        return owner_of(self.name, uuid.uuid4().hex[:8])


def take(state_dir: Path) -> Seat:
    """The first free seat of this host in a state directory, which several workers may share."""
    state_dir.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname()
    where = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:8]
    for number in count():
        file = FileIO(str(state_dir / f"worker.{host}.{number}.lock"), "a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return Seat(f"{host}.{where}.{number}", file)
    raise AssertionError
