"""A worker's slot in its state directory, of one process at a time, names it across restarts.

The slot's lock ends with its process. So whoever acquires it knows that the process before is dead,
and need not wait until its leases run out (`Settings.lease_s`).
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

from firnline_domain.identity import lease_owner


@dataclass(frozen=True)
class WorkerSlot:
    """A slot that is locked. `file` holds the lock for as long as it is open."""

    name: str
    file: FileIO

    def owner(self) -> str:
        """Return the owner of this process's leases: see `Leases.acquire`."""
        return lease_owner(self.name, uuid.uuid4().hex[:8])


def acquire_slot(state_dir: Path) -> WorkerSlot:
    """Acquire the first free slot of this host in a state directory, which several workers may
    share."""
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
            return WorkerSlot(f"{host}.{where}.{number}", file)
    raise AssertionError
