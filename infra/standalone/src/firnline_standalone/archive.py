"""The archive that Spark's executors run, for a command that is not a worker."""

from __future__ import annotations

from pathlib import Path

from firnline_worker.spark import python_archive


def pack(path: Path) -> tuple[int, int]:
    """Write the archive to `path`. Return how many files it has, and its bytes. Raises
    Misconfigured, OSError."""
    members = python_archive.list_members()
    python_archive.write_archive(path, members)
    return len(members), path.stat().st_size
