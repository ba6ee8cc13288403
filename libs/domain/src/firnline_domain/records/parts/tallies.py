"""Count files, bytes and records: what a commit changed and what a partition holds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from operator import add, sub

from firnline_domain.base.numbers import whole_range
from firnline_domain.base.values import MAX_AMOUNT, Signed, Value

TARGET_BYTES = "write.target-file-size-bytes"  # table property
DEFAULT_TARGET_BYTES = 512 * 1024 * 1024  # where it is unset
# Below a kilobyte somebody meant another unit; above a terabyte no writer ever fills a file.
TARGET_RANGE = whole_range(1_000, 1 << 40)
FRAGMENTS_IN_TARGET = 8  # a file is a fragment below that part of the target


class SizeClass(StrEnum):
    """A data file's size against the target file size of its table."""

    FRAGMENT = "fragments"  # < target / 8
    UNDERSIZED = "undersized"  # < 75 % of target, Iceberg's own minimum
    ON_TARGET = "on_target"
    OVERSIZED = "oversized"  # > 180 % of target, Iceberg's own maximum


def target_bytes_of(settings: Mapping[str, str]) -> int:
    """Parse the target file size; the default if it is unset, no number or out of range."""
    target = TARGET_RANGE.parse(settings.get(TARGET_BYTES, ""))
    return DEFAULT_TARGET_BYTES if target is None else int(target)


def size_class(file_bytes: int, target_bytes: int) -> SizeClass:
    """Return the class of a data file of `file_bytes` in a table with that target."""
    if file_bytes * FRAGMENTS_IN_TARGET < target_bytes:
        return SizeClass.FRAGMENT
    if file_bytes * 100 < target_bytes * 75:
        return SizeClass.UNDERSIZED
    if file_bytes * 100 > target_bytes * 180:
        return SizeClass.OVERSIZED
    return SizeClass.ON_TARGET


class Tally(Value):
    """Files with their records and bytes."""

    files: Signed = 0
    records: Signed = 0
    bytes: Signed = 0

    # Most of a table's tallies are empty, and one that is has no place in the state (`Value`).
    def __add__(self, other: Tally) -> Tally:
        if other is NO_FILES:
            return self
        return tally_of(
            self.files + other.files, self.records + other.records, self.bytes + other.bytes
        )

    def __sub__(self, other: Tally) -> Tally:
        if other is NO_FILES:
            return self
        return tally_of(
            self.files - other.files, self.records - other.records, self.bytes - other.bytes
        )


NO_FILES = Tally()


def tally_of(files: int, records: int, size: int) -> Tally:
    """Return the tally of these sums. A sum outside the range of `Signed` becomes its nearest
    number: a state that holds another could not be read again."""
    if not (files or records or size):
        return NO_FILES
    if -MAX_AMOUNT <= records <= MAX_AMOUNT and -MAX_AMOUNT <= size <= MAX_AMOUNT:
        return Tally(files, records, size)  # no fold comes to so many files
    return Tally(files, *(min(max(one, -MAX_AMOUNT), MAX_AMOUNT) for one in (records, size)))


class FileTally(Value):
    """Everything that a set of files adds up to, by kind and, for data files, by size class."""

    fragments: Tally = NO_FILES
    undersized: Tally = NO_FILES
    on_target: Tally = NO_FILES
    oversized: Tally = NO_FILES
    equality_deletes: Tally = NO_FILES
    position_deletes: Tally = NO_FILES
    deletion_vectors: Tally = NO_FILES

    def __add__(self, other: FileTally) -> FileTally:
        return FileTally(*map(add, self.tallies, other.tallies))

    def __sub__(self, other: FileTally) -> FileTally:
        return FileTally(*map(sub, self.tallies, other.tallies))

    def with_changes(self, added: FileTally, removed: FileTally) -> FileTally:
        """Add files and remove others. Every commit asks for it: one value, not two."""
        kinds = zip(self.tallies, added.tallies, removed.tallies, strict=True)
        # Where both are equal they are empty, mostly.
        return FileTally(*[held if a == r else held + a - r for held, a, r in kinds])

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """Return one for each kind, in order."""
        return (
            self.fragments,
            self.undersized,
            self.on_target,
            self.oversized,
            self.equality_deletes,
            self.position_deletes,
            self.deletion_vectors,
        )

    @property
    def all_data(self) -> Tally:
        """Return all data files of any size. Every decision needs it: one value, not three."""
        one, two, three, four = self.fragments, self.undersized, self.on_target, self.oversized
        return tally_of(
            one.files + two.files + three.files + four.files,
            one.records + two.records + three.records + four.records,
            one.bytes + two.bytes + three.bytes + four.bytes,
        )

    @property
    def data_files(self) -> int:
        """Return the number of data files."""
        small = self.fragments.files + self.undersized.files
        return small + self.on_target.files + self.oversized.files

    @property
    def delete_files(self) -> int:
        """Delete files of every kind."""
        positional = self.position_deletes.files + self.deletion_vectors.files
        return self.equality_deletes.files + positional

    @property
    def data_records(self) -> int:
        """Rows of all data files, dead ones included."""
        small = self.fragments.records + self.undersized.records
        return small + self.on_target.records + self.oversized.records

    @property
    def delete_records(self) -> int:
        """Return the number of records in all delete files and vectors."""
        positional = self.position_deletes.records + self.deletion_vectors.records
        return self.equality_deletes.records + positional

    @property
    def positional_files(self) -> int:
        """Return the files that name rows by position: position deletes and deletion vectors."""
        return self.position_deletes.files + self.deletion_vectors.files
