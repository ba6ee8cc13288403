"""The files of tables as they lie on this machine's disk, past every server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firnline_domain.identity import normal_path

from tests.kit.lake.writer import local

S3 = "s3://"


@dataclass(frozen=True)
class StoredFiles:
    """`buckets`: where an object store keeps them, a folder each; None: there is no store."""

    buckets: Path | None = None

    def path(self, location: str) -> Path:
        """Where a file or folder of a table is."""
        found = normal_path(location)
        if not found.startswith(S3):
            return local(found)
        assert self.buckets is not None, location
        return self.buckets / found.removeprefix(S3)

    def below(self, location: str, pattern: str) -> Iterator[str]:
        """Normal paths of the files whose names fit."""
        folder = self.path(location)
        for one in folder.rglob(pattern):
            yield normal_path(f"{location.rstrip('/')}/{one.relative_to(folder)}")
