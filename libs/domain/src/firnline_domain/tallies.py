"""How many files, bytes and records: what a commit changed and what a partition holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

TARGET_BYTES = "write.target-file-size-bytes"  # table property
DEFAULT_TARGET_BYTES = 512 * 1024 * 1024  # where it is unset
MOST_DIGITS = 15  # a petabyte; Python refuses to read thousands of them
FRAGMENTS_IN_TARGET = 8  # a file is a fragment below that part of the target


class SizeClass(StrEnum):
    """A data file's size against the target file size of its table."""

    FRAGMENT = "fragments"  # < target / 8
    UNDERSIZED = "undersized"  # < 75 % of target, Iceberg's own minimum
    ON_TARGET = "on_target"
    OVERSIZED = "oversized"  # > 180 % of target, Iceberg's own maximum


def target_bytes_of(settings: Mapping[str, str]) -> int:
    """Target file size; the default where it is unset or not a number."""
    text = settings.get(TARGET_BYTES, "")
    is_size = text.isdecimal() and len(text) <= MOST_DIGITS
    return int(text) if is_size else DEFAULT_TARGET_BYTES


def size_class(file_bytes: int, target_bytes: int) -> SizeClass:
    """Class of a data file of `file_bytes` in a table that aims at `target_bytes`."""
    if file_bytes * FRAGMENTS_IN_TARGET < target_bytes:
        return SizeClass.FRAGMENT
    if file_bytes * 100 < target_bytes * 75:
        return SizeClass.UNDERSIZED
    if file_bytes * 100 > target_bytes * 180:
        return SizeClass.OVERSIZED
    return SizeClass.ON_TARGET


@dataclass(frozen=True)
class Tally:
    """Files with their records and bytes."""

    files: int = 0
    records: int = 0
    bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.files + other.files, self.records + other.records, self.bytes + other.bytes
        )

    def __sub__(self, other: Tally) -> Tally:
        return Tally(
            self.files - other.files, self.records - other.records, self.bytes - other.bytes
        )


@dataclass(frozen=True)
class FileTally:
    """Everything that a set of files adds up to, by kind and, for data files, by size class."""

    fragments: Tally = field(default_factory=Tally)
    undersized: Tally = field(default_factory=Tally)
    on_target: Tally = field(default_factory=Tally)
    oversized: Tally = field(default_factory=Tally)
    equality_deletes: Tally = field(default_factory=Tally)
    position_deletes: Tally = field(default_factory=Tally)
    deletion_vectors: Tally = field(default_factory=Tally)

    def __add__(self, other: FileTally) -> FileTally:
        return FileTally(
            self.fragments + other.fragments,
            self.undersized + other.undersized,
            self.on_target + other.on_target,
            self.oversized + other.oversized,
            self.equality_deletes + other.equality_deletes,
            self.position_deletes + other.position_deletes,
            self.deletion_vectors + other.deletion_vectors,
        )

    def __sub__(self, other: FileTally) -> FileTally:
        return FileTally(
            self.fragments - other.fragments,
            self.undersized - other.undersized,
            self.on_target - other.on_target,
            self.oversized - other.oversized,
            self.equality_deletes - other.equality_deletes,
            self.position_deletes - other.position_deletes,
            self.deletion_vectors - other.deletion_vectors,
        )

    @property
    def data(self) -> Tally:
        """All data files, whatever their size. Every decision asks for it: one value, not three."""
        one, two, three, four = self.fragments, self.undersized, self.on_target, self.oversized
        return Tally(
            one.files + two.files + three.files + four.files,
            one.records + two.records + three.records + four.records,
            one.bytes + two.bytes + three.bytes + four.bytes,
        )

    @property
    def delete_files(self) -> int:
        """Delete files of every kind."""
        deletes = self.equality_deletes + self.position_deletes + self.deletion_vectors
        return deletes.files
